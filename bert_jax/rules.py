"""One idiom for "which parameters": a table of (regex, value) over parameter paths.

Sharding, weight decay and freezing each have one table. A path joins the keys by '/', as in
`layers/attention/query/kernel`. Matching is by the whole path and never by shape: a scanned model
stacks its layers, so a bias there has two or three axes.
"""

import re
from collections.abc import Sequence
from typing import Any

import jax

from bert_jax.errors import UserError


def path_names(params) -> list[str]:
    """The path of each parameter, in the order of `jax.tree.leaves(params)`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]


def match(rules: Sequence[tuple[str, Any]], params, table: str = "rules"):
    """A tree like `params` that holds, for each parameter, the value of the one rule that matches it.

    A rule is (regex, value); its regex has to match the whole path (`re.fullmatch`). A rule that matches nothing
    is fine: not every model has every head. Raises UserError for a parameter that no rule or several rules match,
    naming `table`, the parameter and the rules.
    """
    values = [_the_match(rules, name, table) for name in path_names(params)]
    return jax.tree.unflatten(jax.tree.structure(params), values)


def _the_match(rules, name, table):
    matched = [(regex, value) for regex, value in rules if re.fullmatch(regex, name)]
    if len(matched) == 1:
        return matched[0][1]
    found = f"{len(matched)} match: " + ", ".join(regex for regex, _ in matched) if matched else "none matches"
    raise UserError(f"{table}: parameter {name}: {found}; expected exactly one of its {len(rules)} rules")
