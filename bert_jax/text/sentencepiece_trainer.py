"""A SentencePiece model, unigram or BPE, from word counts, the same one every time."""

import collections
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from bert_jax.errors import UserError
from bert_jax.text.wordpiece_trainer import CHARACTER_COVERAGE, SPECIAL_TOKENS

# SentencePiece's result depends on this number, so it is not the machine's; and it drops longer lines than the limit.
SENTENCEPIECE_THREADS = 4
SENTENCEPIECE_MAX_CHARS = 1000


def train_sentencepiece(word_counts: Mapping[str, int], size: int, cased: bool, model_type: str = "unigram") -> bytes:
    """A .model ("unigram" or "bpe") with the special tokens as ids 0 to 4, none of which text can spell.

    word_counts: whitespace-separated words, all that either model looks at: lines may be of any length. Cased
    keeps text as it is (identity: zero-width joiners survive); otherwise SentencePiece's nmt_nfkc_cf folds it.
    The size is smaller where the text has no more pieces; UserError where it is too small for the characters.
    """
    pieces: collections.Counter = collections.Counter()
    for word, count in word_counts.items():
        for start in range(0, len(word), SENTENCEPIECE_MAX_CHARS):
            pieces[word[start : start + SENTENCEPIECE_MAX_CHARS]] += count
    if not pieces:
        raise UserError("the corpus holds no words to train a vocabulary on")
    rows = sorted(pieces.items(), key=lambda item: (-item[1], item[0]))
    pad, unk, cls, sep, mask = SPECIAL_TOKENS
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "words.tsv"
        table.write_text("".join(f"{word}\t{count}\n" for word, count in rows if "\0" not in word), newline="\n")
        try:
            sentencepiece.SentencePieceTrainer.train(
                input=str(table),
                input_format="tsv",
                model_prefix=str(Path(folder) / "trained"),
                model_type=model_type,
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=CHARACTER_COVERAGE,
                normalization_rule_name="identity" if cased else "nmt_nfkc_cf",
                max_sentence_length=4 * SENTENCEPIECE_MAX_CHARS + 16,
                num_threads=SENTENCEPIECE_THREADS,
                pad_id=0, unk_id=1, bos_id=2, eos_id=3,
                pad_piece=pad, unk_piece=unk, bos_piece=cls, eos_piece=sep, control_symbols=mask,
                minloglevel=2,
            )  # fmt: skip
        except (RuntimeError, OSError) as error:
            needed = re.search(r"Vocabulary size is smaller than required_chars. (\d+) vs (\d+)", str(error))
            reason = f"{needed[2]} characters and special tokens" if needed else " ".join(str(error).split())
            raise UserError(f"vocabulary size {size} does not fit this text: {reason}") from error
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString((Path(folder) / "trained.model").read_bytes())
    # The model records the paths it was trained from and to, which are temporary: the same text gives the same file.
    model.trainer_spec.ClearField("input")
    model.trainer_spec.ClearField("model_prefix")
    return model.SerializeToString(deterministic=True)
