"""Questions on real and made-up texts: windows, answers, figures and what is wrong with a file."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.tasks import squad
from bert_jax.tasks.squad_answers import ANSWER_TOKENS, exact, f1, official_scores, ranked_answers
from bert_jax.tasks.squad_data import read_squad
from bert_jax.tasks.squad_windows import STRIDE, make_windows, window_starts
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer

XQUAD, SQUAD2 = "qa/xquad-en/xquad.en.json", "qa/squad-v2-cs224n/dev-v2.0.json"


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return load_tokenizer(minilm)


def written(path, *questions):
    """A file of questions: (context, text, answers as (text, start), or None for is_impossible)."""
    paragraphs = []
    for number, (context, text, answers) in enumerate(questions):
        question = {"id": str(number), "question": text, "is_impossible": answers is None}
        question["answers"] = [{"text": text, "answer_start": start} for text, start in answers or ()]
        paragraphs.append({"context": context, "qas": [question]})
    path.write_text(json.dumps({"version": "x", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return str(path)


def outputs_of(split, height=50.0, seed=0):
    """Scores that are noise, but for the labels."""
    outputs = np.random.default_rng(seed).normal(size=(len(split.features.ids), 2)).astype(np.float32)
    for side in (0, 1):
        outputs[split.features.offsets[:-1] + split.labels[:, side], side] += height
    return outputs


@pytest.mark.parametrize(("file", "questions"), [(XQUAD, 1190), (SQUAD2, 6078)])
def test_what_is_labelled_is_answered(shared_data, tokenizer, file, questions):
    """But for answers that begin or end within a token, and those of more tokens than an answer may have."""
    task = squad.load(TaskConfig("squad", validation=str(shared_data / file)), tokenizer, 384)
    split = task.splits["validation"]
    windows, outputs = split.source, outputs_of(split)
    assert len(windows.data.questions) == questions and task.head.null == (file == SQUAD2)
    ranked = ranked_answers(windows, outputs, task.head.null)
    spans = {}
    for window, (first, last) in enumerate(split.labels):
        if first:
            tokens = windows.spans_of(windows.data.questions[windows.question[window]].context)
            before = windows.start[window] - windows.place[window]
            spans[windows.question[window]] = tokens[before + first, 0], tokens[before + last, 1], last - first
    for number, (question, answers) in enumerate(zip(windows.data.questions, ranked, strict=True)):
        context = windows.data.contexts[question.context]
        assert answers.chosen in context
        if not question.answers:
            assert answers.chosen == ""
            continue
        text, start = question.answers[0]
        begin, end, more = spans[number]
        if (begin, end) == (start, start + len(text)) and more < ANSWER_TOKENS:
            assert answers.chosen == text and answers.n_best[0]["start"] == start
    scores = task.score(split, outputs)
    assert scores["exact"] > 0.998 and scores["f1"] > 0.999
    if file == SQUAD2:
        assert scores["NoAns_f1"] == 1 and scores["best_f1"] >= scores["f1"] - 1e-9
        # A model that answers nothing is right where there is no answer; the best threshold knows that.
        noise = np.zeros_like(outputs)
        noise[split.features.offsets[:-1]] = 1
        scores = task.score(split, noise)
        assert scores["exact"] == scores["f1"] == scores["best_f1"] == pytest.approx(3168 / 6078)
        assert scores["HasAns_f1"] == 0 and scores["NoAns_f1"] == 1


def test_figures_are_those_of_the_official_script(shared_data, tokenizer):
    """evaluate-v2.0.py gave these, in percent, for the predictions of these scores, which are partly wrong."""
    split = squad.load(TaskConfig("squad", validation=str(shared_data / SQUAD2)), tokenizer, 384).splits["validation"]
    ranked = ranked_answers(split.source, outputs_of(split, height=2.5, seed=3), True)
    scores = official_scores(split.source.data, ranked)
    expected = {
        **{"exact": 45.68937150378414, "HasAns_exact": 38.76288659793814, "NoAns_exact": 52.051767676767675},
        **{"f1": 51.925096155942306, "HasAns_f1": 51.7871939641986, "NoAns_f1": 52.051767676767675},
        **{"best_exact": 69.36492267193155, "best_f1": 75.15128450540784},
    }
    thresholds = {name: scores.pop(name) for name in ("best_exact_thresh", "best_f1_thresh")}
    assert thresholds == pytest.approx(
        {"best_exact_thresh": -3.4276928901672363, "best_f1_thresh": -3.2048912048339844}
    )
    assert {name: 100 * value for name, value in scores.items()} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("answer", "right", "is_exact", "overlap"),
    [
        ("The Cat!", "cat", 1, 1),
        ("a cat and a dog", "cat and dogs", 0, 2 * 2 / 6),
        ("", "", 1, 1),
        ("", "cat", 0, 0),
        ("the", "", 1, 1),  # nothing is left of it
        ("Beyonc\u00e9's", "Beyonc\u00e9s", 1, 1),
        ("cat cat", "cat", 0, 2 / 3),
        ("22 \u2013 23", "22\u201323", 0, 0),  # the dash is no ASCII punctuation
    ],
)
def test_the_official_rules_of_words(answer, right, is_exact, overlap):
    assert exact(answer, right) == is_exact and f1(answer, right) == pytest.approx(overlap)


@settings(max_examples=60, deadline=None)
@given(tokens=st.integers(0, 900), room=st.integers(1, 317))
def test_windows_cover_every_token(tokens, room):
    starts = window_starts(tokens, room)
    covered = np.zeros(tokens, bool)
    for start in starts:
        covered[start : start + room] = True
    assert covered.all() and max(np.diff(starts), default=0) <= STRIDE
    assert all(start + room < tokens for start in starts[:-1])


def test_an_answer_is_found_in_the_window_with_most_context(tmp_path, tokenizer):
    context = " ".join(f"word{n}" for n in range(150)) + " the answer stands here . " + "more text " * 200
    start = context.index("answer")
    path = written(tmp_path / "a.json", (context, "What stands?", [("answer", start)]))
    split = squad.load(TaskConfig("squad", validation=path), tokenizer, 384).splits["validation"]
    windows = split.source
    holding = np.flatnonzero(split.labels[:, 0])
    assert len(windows.question) > 3 and len(holding) > 1
    assert (split.features.lengths <= 384).all()
    outputs = outputs_of(split)
    (answers,) = ranked_answers(windows, outputs, False)
    assert answers.chosen == "answer" and answers.n_best[0]["start"] == start
    # Where it has less context it does not count: only the best window's score does.
    middles = windows.start[holding] + windows.size[holding] // 2
    place = windows.start[holding[0]] + split.labels[holding[0], 0] - windows.place[holding[0]]
    best = holding[np.argmin(np.abs(middles - place))]
    rows = slice(windows.features.offsets[best], windows.features.offsets[best + 1])
    outputs[rows] = 0
    (answers,) = ranked_answers(windows, outputs, False)
    assert answers.chosen != "answer"


def test_windows_without_the_answer_are_left_out_of_1_1_and_kept_in_2_0(tmp_path, tokenizer):
    """Case F12."""
    context = "start " + "filling " * 600
    path = written(tmp_path / "a.json", (context, "What?", [("start", 0)]))
    task = squad.load(TaskConfig("squad", data=path, validation=path), tokenizer, 384)
    assert len(task.splits["train"]) == 1 and len(task.splits["validation"]) > 1
    count = len(task.splits["validation"])
    assert task.remarks == (f"train: {count - 1} of {count} windows do not hold their answer and are left out",)
    path = written(tmp_path / "b.json", (context, "What?", [("start", 0)]), ("Text.", "Why?", None))
    task = squad.load(TaskConfig("squad", data=path), tokenizer, 384)
    assert len(task.splits["train"]) == count + 1 and task.head.null and task.remarks == ()
    assert task.splits["train"].labels[1:].max() == 0


ODD_TEXTS = [
    "Caf\u00e9\u00a0au lait\u202f\u2013 \U0001f600 e\u0301t\u00e9 \u200b\u4e2d\u6587 \u2022 x",
    "a\u0300b\u0001c  d\n\ne\tf",
    "\u0130stanbul \ufb01x \u1e9e \u00df",
]


@pytest.mark.parametrize("context", ODD_TEXTS)
def test_answers_are_parts_of_odd_texts(tmp_path, tokenizer, context):
    """Cases F11 and F13: spaces of other kinds, emoji, combining marks, characters that are dropped."""
    words = context.split()
    answers = [(context, word, context.index(word)) for word in words if tokenizer.encode([word])[1][-1]]
    path = written(tmp_path / "a.json", *((text, "Which?", [(word, start)]) for text, word, start in answers))
    split = squad.load(TaskConfig("squad", validation=path), tokenizer, 384).splits["validation"]
    for (_, word, _), found in zip(answers, ranked_answers(split.source, outputs_of(split), False), strict=True):
        assert found.chosen in context and found.chosen.strip() == found.chosen
        assert found.chosen in word or word in found.chosen
    noise = np.random.default_rng(1).normal(size=(len(split.features.ids), 2)).astype(np.float32)
    for found in ranked_answers(split.source, noise, True):
        assert all(answer["text"] in context for answer in found.n_best) and found.n_best
        assert sum(answer["probability"] for answer in found.n_best) == pytest.approx(1)


def test_a_text_of_nothing_has_no_answer(tmp_path, tokenizer):
    path = written(tmp_path / "a.json", ("\u200b\u200b", "What?", None), (" ", "word " * 90, None))
    task = squad.load(TaskConfig("squad", validation=path), tokenizer, 384)
    split = task.splits["validation"]
    assert split.features.lengths[1] == 64 + 3  # of a long question the beginning
    assert task.score(split, outputs_of(split))["exact"] == 1
    assert [line["answer"] for line in task.predictions(split, outputs_of(split))] == ["", ""]


def test_folders_and_files_without_answers(tmp_path, tokenizer, shared_data):
    squad2 = shared_data / "qa" / "squad-v2-cs224n"
    task = squad.load(TaskConfig("squad", str(squad2)), tokenizer, 384)
    assert list(task.splits) == ["validation", "test"] and task.splits["test"].labels is None
    assert task.scored_splits() == ["validation"]
    with pytest.raises(UserError, match="has no answers: expected training examples"):
        squad.load(TaskConfig("squad", str(squad2 / "test-v2.0.json")), tokenizer, 384)
    with pytest.raises(UserError, match=r"has none of train\*.json"):
        squad.load(TaskConfig("squad", str(tmp_path)), tokenizer, 384)
    for version in "12":
        written(tmp_path / f"dev-v{version}.json", ("a", "b", None))
    with pytest.raises(UserError, match=r"has dev-v1.json, dev-v2.json: expected one"):
        squad.load(TaskConfig("squad", str(tmp_path)), tokenizer, 384)
    with pytest.raises(UserError, match="a length of 40 tokens: expected 68 or more"):
        make_windows(tokenizer, read_squad(tmp_path / "dev-v1.json"), 40)


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([("A cat.", "?", [("cat", 1)])], "question '0': the answer 'cat' is not at 1, where ' ca' stands"),
        ([("A cat.", "?", [("cat", -4)])], "question '0': the answer 'cat' is not at -4, where 'A c' stands"),
        ([("A cat.", "?", [("", 0)])], "question '0': the answer '' is not at 0"),
        ([("A.", "?", [("A", 0)]), ("B.", "?", [])], "question '1' has no answers and is not is_impossible"),
        ([], "has no questions"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, questions, message):
    with pytest.raises(UserError) as told:
        read_squad(written(tmp_path / "a.json", *questions))
    assert message in str(told.value) and str(tmp_path / "a.json") in str(told.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no SQuAD file: expected a JSON object with 'data'"),
        ("[]", "is no SQuAD file"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "7"}]}]}]}', "at or after question '7'"),
        ('{"data": [{"paragraphs": [{"context": null, "qas": []}]}]}', "'context' is None: expected text"),
        ('{"data": [{"paragraphs": [{"context": "\\ud83d", "qas": []}]}]}', "has half of a surrogate pair"),
        ('{"data": [{"title": "a"}]}', "at or after the first article: is no SQuAD file (KeyError: 'paragraphs')"),
    ],
)
def test_other_layouts_are_told(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError) as told:
        read_squad(tmp_path / "a.json")
    assert message in str(told.value)


def test_contradictions_are_told(tmp_path):
    path = written(tmp_path / "a.json", ("A.", "?", [("A", 0)]), ("B.", "?", [("B", 0)]))
    content = json.loads((tmp_path / "a.json").read_text())
    paragraphs = content["data"][0]["paragraphs"]
    paragraphs[1]["qas"][0]["is_impossible"] = True
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="question '1' is_impossible, and has the answer 'B'"):
        read_squad(path)
    paragraphs[1]["qas"][0] |= {"id": "0", "is_impossible": False}
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="question '0' stands twice"):
        read_squad(path)
