"""Where in a text each id comes from, for every kind of tokenizer."""

import numpy as np
import pytest
import tokenizers

from bert_jax.text.adversarial import ADVERSARIAL_SAMPLE
from bert_jax.text.tokenizer import load_tokenizer

TEXTS = [
    "A small cat sat.", "", " two  spaces ", "\u200b", "a [SEP] b",
    "Ein Caf\u00e9, e\u0301t\u00e9 \u4e2d\u6587 \U0001f600!",
]  # fmt: skip
SENTENCES = ["the cat sat on the mat", "a dog barked at the small cat", "caf\u00e9 \u4e2d\u6587 and more words"] * 20


@pytest.fixture(scope="module", params=["wordpiece", "bpe", "sentencepiece"])
def tokenizer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if request.param == "sentencepiece":
        import io

        import sentencepiece

        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=90, hard_vocab_limit=False,
            pad_id=0, pad_piece="[PAD]", unk_id=1, unk_piece="[UNK]", bos_id=2, bos_piece="[CLS]", eos_id=3,
            eos_piece="[SEP]", control_symbols=["[MASK]"], minloglevel=2,
        )  # fmt: skip
        (folder / "spiece.model").write_bytes(model.getvalue())
        return load_tokenizer(folder / "spiece.model")
    if request.param == "bpe":
        made = tokenizers.ByteLevelBPETokenizer()
        made.train_from_iterator(SENTENCES, vocab_size=400, special_tokens=special, show_progress=False)
    else:
        made = tokenizers.BertWordPieceTokenizer()
        made.train_from_iterator(SENTENCES, vocab_size=120, special_tokens=special, show_progress=False)
    made.save(str(folder / "tokenizer.json"))
    return load_tokenizer(folder / "tokenizer.json")


def test_ids_are_those_of_encode_and_spans_lie_in_their_text(tokenizer):
    texts = [*TEXTS, *ADVERSARIAL_SAMPLE]
    ids, offsets, spans = tokenizer.encode_with_spans(texts)
    expected_ids, expected_offsets = tokenizer.encode(texts)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(offsets, expected_offsets)
    assert spans.shape == (len(ids), 2)
    for n, text in enumerate(texts):
        own = spans[offsets[n] : offsets[n + 1]]
        assert (own[:, 0] <= own[:, 1]).all() and (np.diff(own, axis=0) >= 0).all()
        assert not len(own) or (own.min() >= 0 and own.max() <= len(text))


def test_a_word_is_found_where_it_stands(tokenizer):
    for text, word in (("A small cat sat.", "cat"), ("Ein Caf\u00e9, \u4e2d\u6587 cat!", "cat"), (" two  cat ", "cat")):
        ids, _, spans = tokenizer.encode_with_spans([text])
        start = text.index(word)
        own = np.flatnonzero((spans[:, 0] < start + len(word)) & (spans[:, 1] > start))
        assert text[spans[own[0], 0] : spans[own[-1], 1]].strip() == word
        assert "".join(tokenizer.tokens(ids[own])).replace("##", "").strip("\u0120\u2581") == word


def test_no_texts_have_no_spans(tokenizer):
    ids, offsets, spans = tokenizer.encode_with_spans([])
    assert len(ids) == 0 and offsets.tolist() == [0] and spans.shape == (0, 2)
