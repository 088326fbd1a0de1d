"""The verb `vocab`: trains a vocabulary from text, the same file from the same text at every run."""

import collections
import re
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from bert_jax.errors import UserError
from bert_jax.text.counts import bert_words, count_words, default_workers
from bert_jax.text.documents import SEPARATORS, find_files
from bert_jax.text.output import write_once
from bert_jax.text.tokenizer import Tokenizer, load_tokenizer
from bert_jax.text.wordpiece_trainer import CHARACTER_COVERAGE, SPECIAL_TOKENS, train_wordpiece

DESCRIPTION = """Trains a WordPiece or SentencePiece vocabulary from text.

Text: folders of *.txt, *.md, *.text, *.jsonl files, single files, or globs; how documents are told apart does not
matter to a vocabulary, but JSON lines have their text in one field. The result depends on the text and the options,
never on the run or the number of workers. An existing output is kept: it is an error unless it is the same."""

EXAMPLE = "bert-jax vocab --source=corpus/ --size=8192 --out=vocab/"

SAMPLE_BYTES = 300_000_000
# SentencePiece's result depends on this number, so it is not the machine's; and it drops longer lines than the limit.
SENTENCEPIECE_THREADS = 4
SENTENCEPIECE_MAX_CHARS = 1000


def add_arguments(parser):
    parser.add_argument("--source", action="append", required=True, help="folder, file or glob; can be repeated")
    parser.add_argument("--size", type=int, default=8192, help="tokens, special ones included (default: 8192)")
    parser.add_argument(
        "--out", required=True, help="a folder, or a file: vocab.txt (wordpiece), .model (sentencepiece)"
    )
    parser.add_argument("--kind", choices=("wordpiece", "sentencepiece"), default="wordpiece")
    parser.add_argument("--cased", action="store_true", help="keep upper case (sentencepiece: keep text as it is)")
    parser.add_argument("--keep_accents", action="store_true", help="wordpiece: lower-case, but keep accents")
    parser.add_argument(
        "--sample_bytes", type=int, default=SAMPLE_BYTES, help="text used (default: 300 MB), evenly taken"
    )
    parser.add_argument("--separator", choices=SEPARATORS, default="blank_line", help="what ends a document")
    parser.add_argument("--text_field", default="text", help="field of JSON lines that holds the text")
    parser.add_argument("--workers", type=int, default=default_workers(), help="processes (default: the cores)")


def run(args):
    """Trains, writes `args.out` and prints size, tokens a word and the share of unknown characters."""
    for option in ("size", "sample_bytes", "workers"):
        if getattr(args, option) < 1:
            raise UserError(f"--{option}={getattr(args, option)}: expected a positive number")
    is_file = _names_a_file(args.out, args.kind)
    if args.keep_accents and (args.cased or args.kind != "wordpiece" or is_file):
        raise UserError("--keep_accents: expected --kind=wordpiece without --cased, and a folder as --out to record it")
    words = count_words(
        find_files(args.source), args.separator, args.text_field, args.sample_bytes, workers=args.workers
    )
    strip_accents = False if args.keep_accents else None
    if args.kind == "wordpiece":
        words = bert_words(words, not args.cased, strip_accents, workers=args.workers)
        name, content = "vocab.txt", "".join(token + "\n" for token in train_wordpiece(words, args.size)).encode()
    else:
        name, content = "spiece.model", train_sentencepiece(words, args.size, args.cased)
    tokenizer = _write(content, name, args.out, is_file, not args.cased, strip_accents)
    tokens_a_word, unknown = measure(tokenizer, words)
    print(f"vocabulary of {tokenizer.size} tokens: {args.out}")
    print(f"{tokens_a_word:.3f} tokens a word, {100 * unknown:.4f} % of characters in unknown words")
    if tokenizer.size < args.size:
        print(f"smaller than --size={args.size}: the text has no more pieces that occur twice (more text gives more)")


def train_sentencepiece(word_counts: collections.Counter, size: int, cased: bool) -> bytes:
    """A unigram .model with the special tokens as ids 0 to 4, none of which text can spell.

    word_counts: whitespace-separated words, all that the unigram model looks at: lines may be of any length. Cased
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
                model_type="unigram",
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


def measure(tokenizer: Tokenizer, word_counts: collections.Counter) -> tuple[float, float]:
    """(mean tokens a word, share of all characters that stand in words with an unknown token)."""
    words = list(word_counts)
    counts = np.fromiter(word_counts.values(), np.int64, len(words))
    chars = np.fromiter(map(len, words), np.int64, len(words)) * counts
    ids, offsets = tokenizer.encode(words)
    rows = np.repeat(np.arange(len(words)), np.diff(offsets))
    unknown = np.unique(rows[ids == tokenizer.unk_id])
    return float((np.diff(offsets) * counts).sum() / counts.sum()), float(chars[unknown].sum() / chars.sum())


def _names_a_file(out: str, kind: str) -> bool:
    path = Path(out)
    suffix = ".txt" if kind == "wordpiece" else ".model"
    if path.is_dir() or not path.suffix:
        return False
    if path.suffix != suffix:
        raise UserError(f"--out={out}: expected a folder, or a file that ends in {suffix}")
    return True


def _write(content: bytes, name: str, out: str, is_file: bool, lower_case: bool, strip_accents) -> Tokenizer:
    """Loads what was trained, as any user will, and puts it where it belongs."""
    with tempfile.TemporaryDirectory() as folder:
        trained = Path(folder) / name
        trained.write_bytes(content)
        options = {} if name == "spiece.model" else {"lower_case": lower_case, "strip_accents": strip_accents}
        tokenizer = load_tokenizer(trained, **options)
        if is_file:
            write_once(Path(out).parent, {Path(out).name: content})
        else:
            tokenizer.save(out)
    return tokenizer
