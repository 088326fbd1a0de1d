"""The verb `vocab extend`: a domain's words for a vocabulary that spells them in many pieces."""

from pathlib import Path

from bert_jax.errors import UserError
from bert_jax.text.added_words import (
    AddedWord,
    extend_tokenizer,
    frequent_words,
    piece_of_word,
    require_extensible,
    word_of_piece,
)
from bert_jax.text.counts import split_words
from bert_jax.text.tokenizer import Tokenizer, load_tokenizer
from bert_jax.text.vocab import add_source_arguments, count_source, measure

DESCRIPTION = """Adds words to a WordPiece or byte-level BPE vocabulary, each as one piece.

They take the ids of [unusedN] pieces while there are some, which keeps the size, then new ids at the end; every other
id keeps its piece. A word is one that the tokenizer does not split ("covid-19" is three to BERT). The words come from
a file, one a line, and from the text: its N most frequent words that take several pieces or are unknown."""

EXAMPLE = "bert-jax vocab extend --tokenizer=vocab.txt --source=papers/ --add=500 --out=vocab-papers/"

SHOWN = 10  # words named in full of each kind of remark


def add_arguments(parser):
    parser.add_argument(
        "--tokenizer", required=True, help="what `prepare` takes: a vocab.txt, tokenizer.json or folder"
    )
    parser.add_argument("--words", help="file of words, one a line")
    parser.add_argument("--add", type=int, default=0, metavar="N", help="add the N most frequent words of the text")
    parser.add_argument("--out", required=True, help="folder for the extended tokenizer")
    add_source_arguments(parser, required=False)


def run(args):
    """Writes the extended tokenizer to `args.out` and prints which word went where, and what that changes."""
    if args.add < 0:
        raise UserError(f"--add={args.add}: expected a positive number")
    if not args.words and not args.add:
        raise UserError("nothing to add: expected --words=FILE, --add=N with --source, or both")
    if args.add and not args.source:
        raise UserError(f"--add={args.add}: expected --source, the text to take words from")
    tokenizer = load_tokenizer(args.tokenizer)
    backend = require_extensible(tokenizer)
    pieces = words_of_file(Path(args.words), tokenizer) if args.words else []
    source = count_source(args) if args.source else {}
    own = split_words(source, backend.splitter, args.workers) if source else {}
    if args.add:
        given = set(pieces)
        found = frequent_words(tokenizer, {piece: n for piece, n in own.items() if piece not in given}, args.add)
        pieces += found
        if len(found) < args.add:
            print(f"fewer than --add={args.add}: the text has {len(found)} words that take several pieces")
    if not pieces:
        raise UserError("nothing to add: the vocabulary has all these words")
    extended, added = extend_tokenizer(tokenizer, pieces)
    extended.save(args.out)
    _tell(added, tokenizer, extended, args.out)
    texts = source if backend.byte_level else own  # as `vocab` measures each kind
    if not texts:
        texts = dict.fromkeys((word_of_piece(tokenizer, piece) for piece in pieces), 1)
    before, after = measure(tokenizer, texts), measure(extended, texts)
    what = "tokens a word" if source else "tokens an added word"
    print(f"{before[0]:.3f} {what} before, {after[0]:.3f} now")
    print(f"{100 * before[1]:.4f} % of characters in unknown words before, {100 * after[1]:.4f} % now")


def words_of_file(path: Path, tokenizer: Tokenizer) -> list[str]:
    """Pieces for the words of a file, one a line, without those that are there already; says what it changed.

    Blank lines are passed over. UserError, with the line, for what can be no word of this tokenizer.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}): expected one word a line") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 (offset {error.start}): expected one word a line") from error
    known = set(tokenizer.tokens(range(tokenizer.size)))
    pieces: dict[str, None] = {}
    present, repeated, changed = [], [], []
    for number, line in enumerate(text.split("\n"), 1):
        word = line.strip()
        if not word:
            continue
        try:
            piece = piece_of_word(tokenizer, word)
        except UserError as error:
            raise UserError(f"{path}: line {number}: {error}") from error
        read_as = word_of_piece(tokenizer, piece)
        if read_as != word:
            changed.append(f"{word} as {read_as}")
        if piece in known:
            present.append(read_as)
        elif piece in pieces:
            repeated.append(read_as)
        else:
            pieces[piece] = None
    if not (pieces or present):
        raise UserError(f"{path}: is empty: expected one word a line")
    for remark, words in (
        ("read as the tokenizer writes them", changed),
        ("in the vocabulary already, skipped", present),
        ("given more than once", repeated),
    ):
        if words:
            print(f"{len(words)} {remark}: {_some(words)}")
    return list(pieces)


def _tell(added: list[AddedWord], old: Tokenizer, new: Tokenizer, out: str) -> None:
    placed = [word for word in added if word.placeholder]
    appended = [word for word in added if not word.placeholder]
    print(f"vocabulary of {new.size} tokens (before: {old.size}): {out}")
    if placed:
        slots = [f"{word_of_piece(new, word.piece)} ({word.placeholder}, id {word.id})" for word in placed]
        print(f"{len(placed)} in [unused] places: {_some(slots)}")
    if appended:
        ends = [f"{word_of_piece(new, word.piece)} (id {word.id})" for word in appended]
        print(f"{len(appended)} at the end, ids {appended[0].id} to {appended[-1].id}: {_some(ends)}")


def _some(words: list[str]) -> str:
    return ", ".join(words[:SHOWN]) + (", ..." if len(words) > SHOWN else "")
