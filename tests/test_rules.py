"""The regex tables: each parameter matches exactly one rule, by its whole path and never by its shape."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from bert_jax import rules
from bert_jax.errors import UserError

PARAMS = {
    "embeddings": {"word": {"embedding": np.zeros((5, 4))}},
    "layers": {"norm": {"scale": np.ones((3, 4))}},
    "mlm": {"bias": np.zeros(5)},
}


def test_paths_are_in_the_order_of_the_leaves():
    assert rules.path_names(PARAMS) == ["embeddings/word/embedding", "layers/norm/scale", "mlm/bias"]
    assert len(rules.path_names(PARAMS)) == len(jax.tree.leaves(PARAMS))


def test_each_parameter_gets_the_value_of_its_rule():
    table = [(r".*/embedding", PartitionSpec("fsdp", None)), (r".*/scale", PartitionSpec()), (r"mlm/bias", None)]
    assert rules.match(table, PARAMS) == {
        "embeddings": {"word": {"embedding": PartitionSpec("fsdp", None)}},
        "layers": {"norm": {"scale": PartitionSpec()}},
        "mlm": {"bias": None},
    }


def test_a_rule_matches_whole_paths_only():
    with pytest.raises(UserError, match="mlm/bias: none matches"):
        rules.match([(r".*/(embedding|scale)", 1), (r"bias", 2), (r"mlm", 3), (r"mlm/bia", 4)], PARAMS)


def test_a_rule_that_matches_nothing_is_no_error():
    assert rules.match([(r".*", 1), (r"nsp/.*", 2)], {"a": {"b": 0}}) == {"a": {"b": 1}}


def test_an_unmatched_parameter_is_named():
    with pytest.raises(UserError, match=r"^decay: parameter layers/norm/scale: none matches.*one of its 2 rules$"):
        rules.match([(r".*/embedding", 1), (r"mlm/.*", 2)], PARAMS, "decay")


def test_a_parameter_with_two_rules_is_named_with_both():
    with pytest.raises(UserError, match=r"mlm/bias: 2 match: mlm/\.\*, \.\*bias;"):
        rules.match([(r"embeddings/.*|layers/.*", 0), (r"mlm/.*", 1), (r".*bias", 1)], PARAMS)
