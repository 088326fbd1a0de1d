"""Entities by the rule of the CoNLL shared tasks; expected figures are those of conlleval.pl and seqeval 1.2.2."""

import pytest

from bert_jax.tasks.entities import entities, entity_scores


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("I-PER I-PER B-PER I-LOC", [("PER", 0, 2), ("PER", 2, 3), ("LOC", 3, 4)]),  # IOB1, and a change of type
        ("O I-LOC O I-LOC I-LOC", [("LOC", 1, 2), ("LOC", 3, 5)]),
        ("B-A E-A I-A S-B S-B B-B", [("A", 0, 2), ("A", 2, 3), ("B", 3, 4), ("B", 4, 5), ("B", 5, 6)]),
        ("B-A B-A", [("A", 0, 1), ("A", 1, 2)]),
        ("O O", []),
        ("", []),
    ],
)
def test_entities_of_each_scheme(tags, expected):
    assert entities(tags.split()) == expected


def test_an_entity_counts_where_type_and_bounds_are_right():
    # The example of seqeval's own documentation: precision, recall and F1 are 0.5.
    expected = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    predicted = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    assert entity_scores(predicted, expected) == {"f1": 0.5, "precision": 0.5, "recall": 0.5}
    assert entity_scores([["O"]], [["O"]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    assert entity_scores([["B-A"]], [["O"]])["f1"] == 0.0


def test_an_entity_ends_with_its_sentence():
    assert entity_scores([["B-A"], ["I-A"]], [["B-A"], ["B-A"]])["f1"] == 1.0
    assert entity_scores([["B-A", "I-A"]], [["B-A", "B-A"]])["f1"] == 0.0
