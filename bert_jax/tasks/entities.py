"""Entities in sequences of tags, and their scores as the CoNLL shared tasks count them.

Ours, as seqeval, which does the same, has no wheel and no longer builds.
"""


def entities(tags):
    """[(type, first, end)] of a sequence of tags such as B-PER, I-PER, O; also of E- and S-; `end` is exclusive.

    By the rule of the shared tasks' own script (conlleval): an I- that follows O or another type begins an entity, too,
    so that each of the schemes IOB1, IOB2 and BIOES is read, and so is what a model makes of them.
    """
    found, start, kind, ended = [], None, None, False
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, here = tag.partition("-")
        if start is not None and (prefix not in ("I", "E") or here != kind or ended):
            found.append((kind, start, place))
            start = None
        if start is None and prefix != "O":
            start, kind = place, here
        ended = prefix in ("E", "S")
    return found


def entity_scores(predicted, expected):
    """f1, precision and recall over the entities of all sentences (micro): one counts where type and bounds are right.

    0 where there is nothing to divide by. Both are sequences of sequences of tags of the same lengths.
    """
    found, wanted = (_numbered(sentences) for sentences in (predicted, expected))
    right = len(found & wanted)
    precision, recall = right / max(len(found), 1), right / max(len(wanted), 1)
    return {"f1": 2 * right / max(len(found) + len(wanted), 1), "precision": precision, "recall": recall}


def _numbered(sentences):
    return {(number, *entity) for number, tags in enumerate(sentences) for entity in entities(tags)}
