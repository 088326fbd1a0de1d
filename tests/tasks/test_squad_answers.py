"""Answers out of scores: against the definition, by hand, and by the figures of the official scripts."""

import itertools
import json
import time

import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.tasks import squad
from bert_jax.tasks.squad_answers import ANSWER_TOKENS, N_BEST, Answers, exact, f1, official_scores, ranked_answers
from bert_jax.tasks.squad_data import Question, SquadData
from bert_jax.tasks.squad_windows import make_windows
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer
from tests.tasks.test_squad import SQUAD2, XQUAD, outputs_of, written


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return load_tokenizer(minilm)


@pytest.fixture(scope="module")
def words(tokenizer):
    """Words of one token, no two alike: a word's number in a text is its token's."""
    pieces = tokenizer.tokens(range(3000, 6000))
    return [piece for piece in pieces if piece.isalpha() and piece.isascii()]


def validation(shared_data, tokenizer, file, length=384):
    return squad.load(TaskConfig("squad", validation=str(shared_data / file)), tokenizer, length).splits["validation"]


def asked(words, first=0, last=0):
    """One question about the words, answered by those from `first` to `last`."""
    text = " ".join(words[first : last + 1])
    start = len(" ".join(words[:first])) + (first > 0)
    return SquadData("a file", [" ".join(words)], [Question("q", "what", 0, ((text, start),))])


def nothing_scored(windows):
    return np.zeros((len(windows.features.ids), 2), np.float32)


def by_definition(windows, outputs, number):
    """(score, first, last) of the answers of a question, best first, as google-research/bert defines them."""
    own = [window for window, question in enumerate(windows.question) if question == number]
    extents = {window: (windows.start[window], windows.start[window] + windows.size[window] - 1) for window in own}

    def home(token):
        """The window in which a token has most context."""
        holding = [window for window in own if extents[window][0] <= token <= extents[window][1]]
        return max(holding, key=lambda n: min(token - extents[n][0], extents[n][1] - token) + 0.01 * windows.size[n])

    found = []
    for window in own:
        begin = windows.features.offsets[window] + windows.place[window]
        scores = outputs[begin : begin + windows.size[window]]
        tried = [sorted(range(len(scores)), key=lambda n, side=side: -scores[n, side])[:N_BEST] for side in (0, 1)]
        for first, last in itertools.product(*tried):
            token = extents[window][0] + first
            if first <= last < first + ANSWER_TOKENS and home(token) == window:
                found.append((float(scores[first, 0] + scores[last, 1]), int(token), int(token + last - first)))
    return sorted(found, key=lambda answer: -answer[0])


def test_answers_are_those_of_the_definition(words, tokenizer):
    """Over texts of one to five windows, which overlap."""
    lengths = (1, 7, 90, 300, 381, 640, 800)
    contexts = [" ".join(words[:length]) for length in lengths]
    questions = [Question(str(n), "what", n, None) for n in range(len(lengths))]
    windows = make_windows(tokenizer, SquadData("a file", contexts, questions), 384)
    assert np.bincount(windows.question).tolist() == [1, 1, 1, 1, 2, 4, 5]
    outputs = np.random.default_rng(0).normal(size=(len(windows.features.ids), 2)).astype(np.float32)
    for number, answers in enumerate(ranked_answers(windows, outputs, False)):
        expected = by_definition(windows, outputs, number)[:N_BEST]
        texts = [" ".join(words[first : last + 1]) for _, first, last in expected]
        assert [answer["text"] for answer in answers.n_best] == texts and answers.chosen == texts[0]
        weights = np.exp([score for score, _, _ in expected])
        probabilities = [answer["probability"] for answer in answers.n_best]
        np.testing.assert_allclose(probabilities, weights / weights.sum(), rtol=1e-5)


def test_of_ties_the_earlier_and_then_the_shorter_answer_comes_first(words, tokenizer):
    windows = make_windows(tokenizer, asked(words[:50]), 384)
    (answers,) = ranked_answers(windows, nothing_scored(windows), True)
    expected = [" ".join(words[: last + 1]) for last in range(N_BEST)]
    assert [answer["text"] for answer in answers.n_best] == [*expected, ""]  # and before none
    assert answers.chosen == words[0] and answers.null_odds == 0


def test_a_token_with_as_much_context_in_two_windows_counts_in_the_first(words, tokenizer):
    """Windows of 379 words begin at 0 and 128: word 253 is 125 from the poorer end of either."""
    data = SquadData("a file", [" ".join(words[:507])], [Question("q", "what is", 0, None)])
    windows = make_windows(tokenizer, data, 384)
    assert windows.start.tolist() == [0, 128] and windows.size.tolist() == [379, 379]
    for window, found in ((0, True), (1, False)):
        outputs = nothing_scored(windows)
        outputs[windows.features.offsets[window] + windows.place[window] + 253 - windows.start[window]] = 9
        (answers,) = ranked_answers(windows, outputs, False)
        assert (answers.chosen == words[253]) == found


def test_no_answer_is_worth_its_least_score_in_any_window(words, tokenizer):
    """And is given where that is more than the best answer's score, not where it is as much."""
    windows = make_windows(tokenizer, asked(words[:500]), 384)
    outputs, (first, second) = nothing_scored(windows), windows.features.offsets[:2]
    outputs[first], outputs[second] = (1, 5), (2, 0.5)  # 6 and 2.5
    place = first + windows.place[0] + 9
    for score, chosen in ((2.0, ""), (2.5, words[9]), (3.0, words[9])):
        outputs[place] = score / 2
        (answers,) = ranked_answers(windows, outputs, True)
        assert (answers.chosen, answers.text, answers.null_odds) == (chosen, words[9], 2.5 - score)
        assert "" in [answer["text"] for answer in answers.n_best]
    (answers,) = ranked_answers(windows, outputs - 100 * (outputs == 0), False)
    assert answers.null_odds is None and all(answer["text"] for answer in answers.n_best)


def test_an_answer_at_the_edge_of_a_window_is_held_by_the_right_ones(words, tokenizer):
    """Windows of 380 words begin at 0, 128 and 256; the first ends with word 379."""
    held = {
        (0, 0): [0],
        (127, 128): [0],
        (378, 379): [0, 1, 2],
        (379, 380): [1, 2],
        (507, 508): [2],
        (599, 599): [2],
        (0, 599): [],
    }
    for (first, last), expected in held.items():
        windows = make_windows(tokenizer, asked(words[:600], first, last), 384)
        assert windows.start.tolist() == [0, 128, 256]
        labels = windows.labels()
        assert np.flatnonzero(labels[:, 0]).tolist() == expected, (first, last)
        for window in expected:
            row = tokenizer.tokens(windows.features.ids[windows.features.offsets[window] :][:384])
            assert row[slice(*(labels[window] + [0, 1]))] == words[first : last + 1]
        assert not labels[np.setdiff1d(range(3), expected)].any()


def test_training_examples_of_1_1_that_no_window_holds_are_refused(tmp_path, tokenizer):
    path = written(tmp_path / "a.json", ("A \u200b cat", "Which?", [("\u200b", 2)]))  # a character of no token
    with pytest.raises(UserError, match=r"a\.json: none of 1 windows holds its answer: expected some that do"):
        squad.load(TaskConfig("squad", data=path), tokenizer, 384)


@pytest.mark.parametrize("length", [384, 100])
def test_rows_of_real_texts_have_every_token_of_the_text(shared_data, tokenizer, length):
    windows = validation(shared_data, tokenizer, XQUAD, length).source
    context_ids, offsets = tokenizer.encode(windows.data.contexts)
    question_lengths = np.diff(tokenizer.encode([question.text for question in windows.data.questions])[1])
    text_lengths = np.diff(offsets)[[question.context for question in windows.data.questions]]
    too_long = np.minimum(question_lengths, 64) + text_lengths + 3 > length
    assert too_long.any() and np.array_equal(np.bincount(windows.question) > 1, too_long)
    covered = [np.zeros(len(windows.spans_of(question.context)), bool) for question in windows.data.questions]
    for window, number in enumerate(windows.question):
        row = windows.features.ids[slice(*windows.features.offsets[window : window + 2])]
        start, size, place = windows.start[window], windows.size[window], windows.place[window]
        text = context_ids[offsets[windows.data.questions[number].context] :]
        assert row[0] == tokenizer.cls_id and row[place - 1] == row[-1] == tokenizer.sep_id and len(row) <= length
        assert len(row) == place + size + 1 and np.array_equal(row[place:-1], text[start : start + size])
        covered[number][start : start + size] = True
    assert len(covered) == 1190 and all(tokens.all() for tokens in covered)


@pytest.mark.parametrize(
    ("file", "exceptions"),
    [
        (XQUAD, {"5729e2316aef0514001550c5"}),  # "7,000,000 square kilometres (2,70", of which "2,700" is cut
        (
            SQUAD2,  # whose first answer has more than 30 tokens
            {
                *("b07c3e3a3ead327db68c4ca24", "cdeabc262d2f5f2dcc8f6b4ea", "f761634efae4cc2d9bfa3a1aa"),
                *("a73ce8bcd2ae5abbaf2a276ad", "c470cf0b892d0caffbaddc70b", "270b45de6c8bea28d5fd80ce4"),
            },
        ),
    ],
)
def test_of_all_real_answers_these_alone_cannot_be_given(shared_data, tokenizer, file, exceptions):
    split = validation(shared_data, tokenizer, file)
    ranked = ranked_answers(split.source, outputs_of(split), file == SQUAD2)
    pairs = zip(split.source.data.questions, ranked, strict=True)
    missed = {
        question.id
        for question, answers in pairs
        if not any(exact(answers.chosen, right) for right, _ in question.answers or [("", 0)])
    }
    assert missed == exceptions


def test_figures_of_1_1_are_those_of_the_official_script(shared_data, tokenizer):
    """evaluate-v1.1.py gave these, in percent, for the predictions of these scores, which are mostly wrong."""
    split = validation(shared_data, tokenizer, XQUAD)
    ranked = ranked_answers(split.source, outputs_of(split, height=2.5, seed=3), False)
    scores = official_scores(split.source.data, ranked)
    assert scores == pytest.approx({"exact": 0.380672268907563, "f1": 0.50945089206714655}, abs=1e-12)


def test_predictions_are_parts_of_their_text_in_the_order_of_the_file(shared_data, tokenizer):
    path = str(shared_data / XQUAD)
    task = squad.load(TaskConfig("squad", validation=path), tokenizer, 384)
    split = task.splits["validation"]
    noise = np.random.default_rng(2).normal(size=(len(split.features.ids), 2)).astype(np.float32)
    lines = [json.loads(json.dumps(line)) for line in task.predictions(split, noise)]
    assert [line["id"] for line in lines] == [question.id for question in split.source.data.questions]
    for line, question in zip(lines, split.source.data.questions, strict=True):
        context, n_best = split.source.data.contexts[question.context], line["n_best"]
        assert line["answer"] == n_best[0]["text"] and len({answer["text"] for answer in n_best}) == len(n_best)
        for answer in n_best:
            assert answer["text"] and context[answer["start"] :].startswith(answer["text"])
        probabilities = [answer["probability"] for answer in n_best]
        assert probabilities == sorted(probabilities, reverse=True) and sum(probabilities) == pytest.approx(1)


@pytest.mark.parametrize(
    ("answer", "right", "is_exact", "overlap"),
    [
        ("an", "The", 1, 1),  # nothing is left of either
        ("The", "cat", 0, 0),
        ("Theatre", "atre", 0, 0),  # an article is a word
        ("the the cat", "cat, the", 1, 1),
        ("U.S.", "us", 1, 1),
        ("co-operate", "co operate", 0, 0),  # punctuation goes without a space
        ("\u00abcat\u00bb", "cat", 0, 0),  # not of ASCII
        ("CAF\u00c9", "caf\u00e9", 1, 1),
        ("cafe\u0301", "caf\u00e9", 0, 0),  # not composed
        ("\u00a0cat\u2003sat", "cat sat", 1, 1),
        ("cat dog cat", "cat cat fish", 0, 2 / 3),  # as often as in both
    ],
)
def test_what_both_official_scripts_say_of_words(answer, right, is_exact, overlap):
    """Both were run; but where nothing is left, evaluate-v1.1.py gives an F1 of 0, evaluate-v2.0.py one of 1."""
    assert exact(answer, right) == is_exact and f1(answer, right) == pytest.approx(overlap)


def answered(*cases):
    """SquadData and Answers of (right answers, answer, null_odds)."""
    questions = [
        Question(str(n), "?", 0, tuple((right, 0) for right in rights)) for n, (rights, _, _) in enumerate(cases)
    ]
    ranked = [Answers("" if odds is not None and odds > 0 else text, text, [], odds) for _, text, odds in cases]
    return SquadData("a file", ["x"], questions), ranked


def test_the_best_of_several_right_answers_counts():
    scores = official_scores(*answered((["black cat", "cat", "the"], "The cat", None), (["the"], "the", None)))
    assert scores == {"exact": 1, "f1": 1}
    scores = official_scores(*answered((["big black cat", "black cat"], "cat", None)))
    assert scores == {"exact": 0, "f1": pytest.approx(2 / 3)}
    scores = official_scores(*answered((["the", "cat"], "a", None)))  # "the" is nothing, and no right answer
    assert scores == {"exact": 0, "f1": 0}


def test_the_best_threshold_by_hand():
    cases = [(["cat"], "cat", -3.0), ([], "dog", -1.0), (["sat"], "sat", 0.5), ([], "mat", 2.0)]
    scores = official_scores(*answered(*cases))
    assert scores["exact"] == scores["HasAns_exact"] == scores["NoAns_exact"] == 0.5
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (0.75, -3)  # of 0.5, which gives as much, the lower
    scores = official_scores(*answered((["cat"], "cat", 1.0), ([], "dog", 2.0)))
    assert (scores["exact"], scores["HasAns_exact"], scores["NoAns_exact"], scores["best_exact"]) == (0.5, 0, 1, 1)
    # Where no answer is right, none at all is best: the official script then says 0.
    scores = official_scores(*answered((["cat"], "dog", -3.0), ([], "dog", -1.0)))
    assert (scores["best_f1"], scores["best_f1_thresh"], scores["f1"]) == (0.5, 0, 0)


def test_a_text_of_no_tokens_is_answered_with_nothing(tokenizer):
    """Case F11."""
    windows = make_windows(tokenizer, SquadData("a file", ["\u200b"], [Question("q", "what", 0, None)]), 384)
    (answers,) = ranked_answers(windows, nothing_scored(windows), True)
    assert answers.chosen == answers.text == "" and answers.null_odds > 1000
    assert answers.n_best == [{"text": "", "probability": 1, "start": 0}]
    (answers,) = ranked_answers(windows, nothing_scored(windows), False)
    assert answers == Answers("", "", [], None)


def test_half_of_the_dev_set_takes_seconds(shared_data, tokenizer):
    """Measured on two CPU cores: 0.5 s to prepare it, 1 s for its answers."""
    start = time.perf_counter()
    split = validation(shared_data, tokenizer, SQUAD2)
    prepared = time.perf_counter()
    assert len(ranked_answers(split.source, outputs_of(split), True)) == 6078
    assert prepared - start < 10 and time.perf_counter() - prepared < 20
