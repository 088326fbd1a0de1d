"""The verb `vocab`: trains a vocabulary from text, the same file from the same text at every run."""

import collections
import sys
import tempfile
from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.text.byte_level import byte_level_splitter, train_byte_level
from bert_jax.text.counts import count_words, default_workers, split_words
from bert_jax.text.documents import ON_ERROR, SEPARATORS, find_files, parse_source
from bert_jax.text.output import write_once
from bert_jax.text.sampling import set_quotas
from bert_jax.text.sentencepiece_trainer import train_sentencepiece
from bert_jax.text.tokenizer import Tokenizer, load_tokenizer
from bert_jax.text.wordpiece import bert_splitter
from bert_jax.text.wordpiece_trainer import train_wordpiece

DESCRIPTION = """Trains a vocabulary: WordPiece (BERT's), SentencePiece unigram or BPE, byte-level BPE (ModernBERT's).

Text is read as by `prepare`, a sample of it where there is more than --sample_bytes; weights of the sources are shares
of the sample. The result depends on the text and the options, never on the run or the number of workers. An existing
output is kept: it is an error unless it is the same."""

EXAMPLE = "bert-jax vocab --source=corpus/ --size=8192 --out=vocab/"

SAMPLE_BYTES = 300_000_000
SHOWN_ERRORS = 10
# kind: name of the file that is trained
KINDS = {
    "wordpiece": "vocab.txt",
    "sentencepiece": "spiece.model",
    "sentencepiece_bpe": "spiece.model",
    "bytelevel_bpe": "tokenizer.json",
}


def add_arguments(parser):
    add_source_arguments(parser, required=True)
    parser.add_argument("--size", type=int, default=8192, help="tokens, special ones included (default: 8192)")
    parser.add_argument(
        "--out",
        required=True,
        help="a folder, or a file: vocab.txt (wordpiece), .model (sentencepiece), .json (bytelevel)",
    )
    parser.add_argument("--kind", choices=tuple(KINDS), default="wordpiece")
    parser.add_argument(
        "--cased",
        action="store_true",
        help="keep upper case (sentencepiece: keep text as it is; bytelevel_bpe always does)",
    )
    parser.add_argument("--keep_accents", action="store_true", help="wordpiece: lower-case, but keep accents")


def add_source_arguments(parser, required: bool):
    """What text is counted, for every verb that counts words."""
    parser.add_argument(
        "--source",
        action="append",
        required=required,
        metavar="PATH[,weight=W][,kind=K][,column=C][,split=S]",
        help="what `prepare` reads: folder, file, glob, URL or tfds:NAME; can be repeated",
    )
    parser.add_argument(
        "--sample_bytes", type=int, default=SAMPLE_BYTES, help="text used (default: 300 MB), evenly taken"
    )
    parser.add_argument("--separator", choices=SEPARATORS, default="blank_line", help="what ends a document")
    parser.add_argument("--text_field", default="text", help="field or column that holds the text, if not 'text'")
    parser.add_argument("--on_error", choices=ON_ERROR, default="fail", help="skip: leave out what is unreadable")
    parser.add_argument("--workers", type=int, default=default_workers(), help="processes (default: the cores)")


def run(args):
    """Trains, writes `args.out` and prints size, tokens a word and the share of unknown characters."""
    if args.size < 1:
        raise UserError(f"--size={args.size}: expected a positive number")
    is_file = _names_a_file(args.out, args.kind)
    if args.keep_accents and (args.cased or args.kind != "wordpiece" or is_file):
        raise UserError("--keep_accents: expected --kind=wordpiece without --cased, and a folder as --out to record it")
    strip_accents = False if args.keep_accents else None
    words = count_source(args)
    if args.kind == "wordpiece":  # measured by BERT's words, the others by those between spaces
        words = split_words(words, bert_splitter(not args.cased, strip_accents), args.workers)
    content = _train(args, words)
    tokenizer = _write(content, args.kind, args.out, is_file, not args.cased, strip_accents)
    tokens_a_word, unknown = measure(tokenizer, words)
    print(f"vocabulary of {tokenizer.size} tokens: {args.out}")
    print(f"{tokens_a_word:.3f} tokens a word, {100 * unknown:.4f} % of characters in unknown words")
    if tokenizer.size < args.size:
        print(f"smaller than --size={args.size}: the text has no more pieces that occur twice (more text gives more)")


def count_source(args) -> collections.Counter:
    """Counts of the whitespace-separated words of what `add_source_arguments` tells."""
    for option in ("sample_bytes", "workers"):
        if getattr(args, option) < 1:
            raise UserError(f"--{option}={getattr(args, option)}: expected a positive number")
    sources = [parse_source(source, args.text_field) for source in args.source]
    quotas = set_quotas(find_files(sources), sources, args.sample_bytes)
    skipped: list[str] = []
    words = count_words(quotas, args.separator, args.workers, skipped.append if args.on_error == "skip" else None)
    for line in skipped[:SHOWN_ERRORS]:
        print(f"skipped: {line}", file=sys.stderr)
    if skipped:
        print(f"skipped {len(skipped)} unreadable parts of the text", file=sys.stderr)
    return words


def _train(args, words: collections.Counter) -> bytes:
    if args.kind == "wordpiece":
        return "".join(token + "\n" for token in train_wordpiece(words, args.size)).encode()
    if args.kind == "bytelevel_bpe":
        return train_byte_level(split_words(words, byte_level_splitter(), args.workers), args.size).encode()
    return train_sentencepiece(words, args.size, args.cased, "bpe" if args.kind == "sentencepiece_bpe" else "unigram")


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
    suffix = Path(KINDS[kind]).suffix
    if path.is_dir() or not path.suffix:
        return False
    if path.suffix != suffix:
        raise UserError(f"--out={out}: expected a folder, or a file that ends in {suffix}")
    return True


def _write(content: bytes, kind: str, out: str, is_file: bool, lower_case: bool, strip_accents) -> Tokenizer:
    """Loads what was trained, as any user will, and puts it where it belongs."""
    with tempfile.TemporaryDirectory() as folder:
        trained = Path(folder) / KINDS[kind]
        trained.write_bytes(content)
        options = {"lower_case": lower_case, "strip_accents": strip_accents} if kind == "wordpiece" else {}
        tokenizer = load_tokenizer(trained, **options)
        if is_file:
            write_once(Path(out).parent, {Path(out).name: content})
        else:
            tokenizer.save(out)
    return tokenizer
