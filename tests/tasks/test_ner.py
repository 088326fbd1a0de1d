"""Words with tags: each keeps its own, whatever the tokenizer makes of it."""

import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks import ner
from bert_jax.tasks.ner import encode_words, read_columns
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return load_tokenizer(minilm)


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def perfect(split, head):
    """Outputs that say what the labels say; of the tokens without one anything."""
    outputs = np.random.default_rng(0).normal(size=(len(split.labels), len(head.labels))).astype(np.float32)
    scored = np.flatnonzero(split.labels >= 0)
    outputs[scored, split.labels[scored]] = 9
    return outputs


def test_a_word_of_nothing_keeps_its_label(tmp_path, tokenizer):
    """Case F14."""
    train = written(tmp_path / "a.conll", "EU\tB-ORG\n\u200d\tO\nrejects\tO\n\nGerman\tB-MISC\n")
    task = ner.load(TaskConfig("ner", data=train), tokenizer, 16)
    split = task.splits["train"]
    assert task.head.labels == ("O", "B-MISC", "B-ORG")
    places = split.source.first_tokens
    assert tokenizer.tokens(split.features.ids[places]) == ["eu", "[UNK]", "rejects", "german"]
    assert split.labels[places].tolist() == [2, 0, 0, 1] and (split.labels >= 0).sum() == 4
    outputs = perfect(split, task.head)
    assert task.score(split, outputs) == {"f1": 1.0, "precision": 1.0, "recall": 1.0, "accuracy": 1.0}
    first, second = task.predictions(split, outputs)
    assert first["tags"] == ["B-ORG", "O", "O"] and second["words"] == ["German"]
    assert first["entities"] == [{"type": "ORG", "first": 0, "last": 0, "text": "EU"}]


def test_long_sentences_take_several_rows_and_lose_no_word(tokenizer):
    words = ["unbelievably", "a", "cat", "1,234", "electroencephalographically", "x"] * 3
    features, first_tokens, cut = encode_words(tokenizer, [words, ["yes"]], 9)
    assert cut == 1 and features.lengths.max() <= 9 and len(first_tokens) == len(words) + 1
    for row, (start, end) in enumerate(zip(features.offsets[:-1], features.offsets[1:], strict=True)):
        row = features.ids[start:end].tolist()
        assert row[0] == tokenizer.cls_id and row[-1] == tokenizer.sep_id and row.count(tokenizer.sep_id) == 1
    firsts = [tokenizer.encode([word])[0][0] for word in [*words, "yes"]]
    assert features.ids[first_tokens].tolist() == firsts
    whole, _, none_cut = encode_words(tokenizer, [words, ["yes"]], 128)
    assert none_cut == 0 and len(whole) == 2
    pieces = [id for id in features.ids if id not in (tokenizer.cls_id, tokenizer.sep_id)]
    in_one = [id for id in whole.ids if id not in (tokenizer.cls_id, tokenizer.sep_id)]
    assert len(in_one) >= len(pieces) and pieces[-1] == in_one[-1]
    short, places, _ = encode_words(tokenizer, [["electroencephalographically"]], 4)  # no room for all of its pieces
    assert short.lengths.tolist() == [4] and places.tolist() == [1]


def test_real_files_are_read_whole(shared_data):
    """Counts: the publisher's."""
    folder = shared_data / "ner" / "wnut17"
    counts = {"wnut17train.conll": (3394, 62730), "emerging.dev.conll": (1009, 15733)}
    for name, (sentences, tokens) in counts.items():
        found = read_columns(folder / name)
        assert (len(found.words), sum(map(len, found.words))) == (sentences, tokens)
        assert sum(tag.startswith("B-") for tags in found.tags for tag in tags) == {3394: 1975, 1009: 836}[sentences]
    wikiann = read_columns(shared_data / "ner" / "wikiann-en" / "test")
    assert len(wikiann.words) == 10000 and wikiann.words[0][0] != "" and not wikiann.words[0][0].startswith("en:")


def test_other_layouts(tmp_path, tokenizer):
    text = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n\nPeter NNP B-NP B-PER\r\n"
    assert read_columns(written(tmp_path / "conll03", text)).tags == [["B-ORG"], ["B-PER"]]
    assert read_columns(written(tmp_path / "words", "EU\n\nPeter\n"), tags_optional=True).tags is None
    pos = written(tmp_path / "pos", "A DET\ncat NOUN\n\ncats NOUN\nsleep VERB\n")
    task = ner.load(TaskConfig("ner", data=pos), tokenizer, 16)
    assert task.main == "accuracy" and "entities" not in next(
        task.predictions(task.splits["train"], perfect(task.splits["train"], task.head))
    )
    assert task.score(task.splits["train"], perfect(task.splits["train"], task.head)) == {"accuracy": 1, "macro_f1": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EU B-ORG\nrejects\n", "line 2: 1 columns ('rejects'): expected 2, none empty"),
        ("EU B-ORG\nrejects \n", "line 2: 2 columns ('rejects '): expected 2, none empty"),
        ("\n\n", "has no words"),
        ("EU\n", "has one column: expected words and, in the last column, their tags"),
    ],
)
def test_files_that_are_no_columns_are_refused(tmp_path, text, message):
    with pytest.raises(UserError) as told:
        read_columns(written(tmp_path / "x.conll", text))
    assert message in str(told.value) and "x.conll" in str(told.value)


def test_tags_and_heads_that_do_not_fit_are_refused(tmp_path, tokenizer):
    train, dev = (
        written(tmp_path / name, f"EU {tag}\n\na O\n") for name, tag in (("train", "B-ORG"), ("dev", "B-PER"))
    )
    with pytest.raises(UserError, match="dev: the tag 'B-PER': expected one of O, B-ORG"):
        ner.load(TaskConfig("ner", data=train, validation=dev), tokenizer, 16)
    with pytest.raises(UserError, match="ner needs a head of kind 'tag': the model has 'answer'"):
        ner.load(TaskConfig("ner", validation=dev), tokenizer, 16, HeadConfig("answer"))
    with pytest.raises(UserError, match="without training examples there are no tags"):
        ner.load(TaskConfig("ner", validation=dev), tokenizer, 16)
