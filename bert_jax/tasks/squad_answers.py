"""Answers out of the scores of tokens, and their official figures."""

import collections
import dataclasses
import re
import string

import numpy as np
import scipy.special

N_BEST = 20  # answers of a question, and tokens of a window that are tried as first and as last one
ANSWER_TOKENS = 30  # of an answer at most
ONLY_NULL = 1e6  # null_odds where there is no other answer
ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a question is answered with.

    chosen: the answer, "" where there is none. text: the best that is not none. n_best: {text, probability, start} of
    the best, none among them where it may be; start is the place of the first character. null_odds: the score of no
    answer less that of `text`; None where there always is one.
    """

    chosen: str
    text: str
    n_best: list[dict]
    null_odds: float | None


def ranked_answers(windows, outputs, may_be_none):
    """The Answers to each question of Windows; outputs: float32 [tokens of all rows, 2], scores as first and last one.

    Each token counts in the window alone in which it has most context; answers are parts of the text, as it is written.
    """
    ranked, offsets = [], windows.features.offsets
    bounds = np.searchsorted(windows.question, np.arange(len(windows.data.questions) + 1))
    for number, question in enumerate(windows.data.questions):
        own = range(bounds[number], bounds[number + 1])
        best_window = _best_windows(windows, own) if len(own) > 1 else None
        candidates, null = [], np.inf
        for window in own:
            scores = outputs[offsets[window] : offsets[window + 1]]
            null = min(null, float(scores[0].sum()))
            place, size, start = windows.place[window], windows.size[window], windows.start[window]
            is_own = None if best_window is None else best_window[start : start + size] == window
            candidates += [
                (score, start + first, start + last)
                for score, first, last in _spans(scores[place : place + size], is_own)
            ]
        context, spans = windows.data.contexts[question.context], windows.spans_of(question.context)
        ranked.append(_answers(context, spans, candidates, null if may_be_none else None))
    return ranked


def _best_windows(windows, own):
    """For each token of the text which window has most context on its poorer side; of ties the first, and a long window
    before a short one (google-research/bert)."""
    tokens = int(max(windows.start[window] + windows.size[window] for window in own))
    best, highest = np.full(tokens, -1), np.full(tokens, -np.inf)
    for window in own:
        start, size = windows.start[window], windows.size[window]
        left = np.arange(size)
        context = np.minimum(left, size - 1 - left) + 0.01 * size
        here = slice(start, start + size)
        better = context > highest[here]
        best[here][better], highest[here][better] = window, context[better]
    return best


def _spans(scores, is_own):
    """(score, first, last) of the likely answers among a window's tokens, [n, 2]."""
    if not len(scores):
        return []
    first, last = (np.argsort(-scores[:, side], kind="stable")[:N_BEST] for side in (0, 1))
    if is_own is not None:
        first = first[is_own[first]]
    fits = (last[None] >= first[:, None]) & (last[None] < first[:, None] + ANSWER_TOKENS)
    rows, columns = np.nonzero(fits)
    first, last = first[rows], last[columns]
    return zip((scores[first, 0] + scores[last, 1]).tolist(), first.tolist(), last.tolist(), strict=True)


def _answers(context, spans, candidates, null):
    """The Answers out of candidates (score, first, last token); null: the score of no answer, None where there always
    is one."""
    found, texts = [], set()
    for score, first, last in sorted(candidates, key=lambda candidate: (-candidate[0], *candidate[1:])):
        text, begin = _text(context, spans, first, last)
        if text and text not in texts:
            texts.add(text)
            found.append((score, text, begin))
        if len(found) == N_BEST:
            break
    text, best = (found[0][1], found[0][0]) if found else ("", None)
    if null is not None:
        found = sorted([*found, (null, "", 0)], key=lambda answer: -answer[0])
    if not found:
        return Answers("", "", [], None)
    odds = None if null is None else ONLY_NULL if best is None else null - best
    probabilities = scipy.special.softmax(np.array([score for score, _, _ in found], np.float64))
    shown = [
        {"text": answer, "probability": float(probability), "start": begin}
        for (_, answer, begin), probability in zip(found, probabilities, strict=True)
    ]
    return Answers("" if odds is not None and odds > 0 else text, text, shown, odds)


def _text(context, spans, first, last):
    """The characters from one token to another, without whitespace at the ends, and where they begin."""
    begin, end = int(spans[first, 0]), int(spans[last, 1])
    text = context[begin:end]
    return text.strip(), begin + len(text) - len(text.lstrip())


# The official figures (evaluate-v1.1.py and evaluate-v2.0.py).


def normalized(answer):
    """In small letters, without punctuation and articles, one space between words."""
    kept = "".join(character for character in answer.lower() if character not in string.punctuation)
    return " ".join(ARTICLES.sub(" ", kept).split())


def exact(answer, right):
    return float(normalized(answer) == normalized(right))


def f1(answer, right):
    """Harmonic mean of precision and recall of words; where either has none, whether both have none."""
    found, wanted = normalized(answer).split(), normalized(right).split()
    if not found or not wanted:
        return float(found == wanted)
    common = sum((collections.Counter(found) & collections.Counter(wanted)).values())
    return 2 * common / (len(found) + len(wanted))


def official_scores(data, ranked):
    """`f1` and `exact` over the questions of SquadData, fractions, each by the best of its answers.

    Where some have no answer also, under the official names, those of questions that have one (HasAns_) and that have
    none (NoAns_), and the best figures that another threshold of Answers.null_odds would give, with the threshold.
    """
    figures, pairs = {}, list(zip(ranked, data.questions, strict=True))
    has_answer = np.array([bool(question.answers) for question in data.questions])
    for name, measure in (("f1", f1), ("exact", exact)):
        chosen = np.array([_best(measure, answers.chosen, question) for answers, question in pairs])
        figures[name] = float(chosen.mean())
        if has_answer.all() or any(answers.null_odds is None for answers in ranked):
            continue
        for group, rows in (("HasAns", has_answer), ("NoAns", ~has_answer)):
            if rows.any():
                figures[f"{group}_{name}"] = float(chosen[rows].mean())
        kept = [_best(measure, answers.text, question) for answers, question in pairs]
        gains = np.where(has_answer, kept, [-float(answers.text != "") for answers in ranked])
        odds = np.array([answers.null_odds for answers in ranked])
        figures[f"best_{name}"], figures[f"best_{name}_thresh"] = _best_threshold(gains, odds, has_answer)
    return figures


def _best(measure, answer, question):
    """By whichever right answer fits best; those of which normalizing leaves nothing are none."""
    rights = [text for text, _ in question.answers if normalized(text)] or [""]
    return max(measure(answer, right) for right in rights)


def _best_threshold(gains, odds, has_answer):
    """(the best mean score, the threshold of null_odds above which "" is answered to get it); gains: what each question
    adds when its answer stands, instead of ""."""
    order = np.argsort(odds, kind="stable")
    # First all are "", then one answer after the other stands, as a rising threshold lets it.
    totals = np.count_nonzero(~has_answer) + np.concatenate([[0.0], np.cumsum(gains[order])])
    best = int(totals.argmax())
    return float(totals[best] / len(odds)), float(odds[order[best - 1]]) if best else 0.0
