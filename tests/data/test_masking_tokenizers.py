"""Case B4: the same text through WordPiece, SentencePiece and byte-level BPE: words are masked wholly or not at all."""

import functools
import io

import jax
import numpy as np
import pytest
import sentencepiece
import tokenizers

from bert_jax.data.masking import MaskingConfig, mask_tokens, max_predictions_for
from bert_jax.randomness import Purpose, row_keys
from bert_jax.text.tokenizer import load_tokenizer
from tests.data.masking_rows import chosen_of

TEXT = (
    "The words were there, and antidisestablishmentarianism stood on the page with electroencephalography. "
    "They said that photosynthesising bacteriologists misunderstood their hydroxychloroquine. "
    "It is said that the forty-two thermodynamicists on that page were incomprehensible, and it is so there. "
)
TRAINING = "The words were there, and their names and numbers stood on the page. It is that which they said then. "
LENGTH, ROWS = 256, 400


@pytest.fixture
def wordpiece(shared_data):
    return load_tokenizer(shared_data / "vocab" / "bert-base-uncased-vocab.txt")


@pytest.fixture
def byte_level_bpe(tmp_path):
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([TRAINING * 20], trainer)
    (tmp_path / "tokenizer.json").write_text(bpe.to_str(), encoding="utf-8")
    return load_tokenizer(tmp_path)


@pytest.fixture
def sentence_piece(tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TRAINING, TEXT] * 20),
        model_writer=model,
        model_type="unigram",
        vocab_size=70,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        pad_piece="[PAD]",
        unk_piece="[UNK]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        user_defined_symbols=["[MASK]"],
        minloglevel=2,
    )
    (tmp_path / "spm.model").write_bytes(model.getvalue())
    return load_tokenizer(tmp_path / "spm.model")


def words_by_name(pieces, kind):
    """Lists of positions, told by the pieces' own marks: ## continues a word, ▁ and Ġ begin one."""
    continues = {
        "wordpiece": lambda piece: piece.startswith("##"),
        "byte_level_bpe": lambda piece: not piece.startswith("Ġ"),
        "sentence_piece": lambda piece: not piece.startswith("▁"),
    }[kind]
    words, previous = [], False
    for position, piece in enumerate(pieces):
        ordinary = piece not in ("[CLS]", "[SEP]", "[PAD]", "[MASK]")
        if ordinary and previous and continues(piece):
            words[-1].append(position)
        elif ordinary:
            words.append([position])
        previous = ordinary
    return words


@pytest.mark.parametrize("unit", ["word", "span"])
@pytest.mark.parametrize("kind", ["wordpiece", "byte_level_bpe", "sentence_piece"])
def test_words_of_every_kind_of_tokenizer_stay_whole(kind, unit, request):
    tokenizer = request.getfixturevalue(kind)
    assert tokenizer.is_word_start is not None
    text_ids = tokenizer.encode([TEXT])[0].astype(np.int32)
    half = len(text_ids) // 3
    row = [tokenizer.cls_id, *text_ids[:half], tokenizer.sep_id, *text_ids[half:], tokenizer.sep_id]
    ids = np.full((ROWS, LENGTH), tokenizer.pad_id, np.int32)
    ids[:, : len(row)] = row
    config = MaskingConfig(max_predictions_for(LENGTH, 0.3), rate=0.3, unit=unit)
    masked = jax.jit(
        functools.partial(
            mask_tokens,
            config,
            pad_id=tokenizer.pad_id,
            mask_id=tokenizer.mask_id,
            special_ids=(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id),
            ordinary_ids=tokenizer.ordinary_ids,
            word_starts=tokenizer.is_word_start,
        )
    )(ids, row_keys(1, Purpose.TRAIN_MASKS, np.arange(ROWS, dtype=np.uint32)))
    chosen = chosen_of(jax.device_get(masked))
    words = words_by_name(tokenizer.tokens(row), kind)
    sizes = np.array([len(word) for word in words])
    assert len(words) > 15 and (sizes > 1).sum() > 5, "a test of words of several pieces"
    for word in words:
        assert len(np.unique(chosen[:, word].sum(1))) <= 2 and set(chosen[:, word].sum(1)) <= {0, len(word)}
        assert chosen[:, word[0]].any() or len(word) > 0.3 * len(row), "each is masked in some row"
    assert chosen.sum() == sum(chosen[:, word].sum() for word in words), "and nothing that is no word"
    assert chosen.sum(1).max() <= round(0.3 * len(row)) and chosen.sum(1).mean() > 0.9 * round(0.3 * len(row))
