"""The verb `prepare`: text -> training examples in a folder that `pretrain` reads."""

import argparse
import sys
from dataclasses import fields

from bert_jax.data.duplicates import DUPLICATES
from bert_jax.data.kinds import KINDS, PIECES
from bert_jax.data.prepare import PrepareConfig, prepare
from bert_jax.data.stages import RUNNERS
from bert_jax.errors import UserError
from bert_jax.text.counts import default_workers
from bert_jax.text.documents import ON_ERROR, SEPARATORS

DESCRIPTION = """Turns text into training examples in a folder that `pretrain` reads.

A source is a folder, a file, a glob or tfds:NAME: text, JSON lines, Parquet, Arrow, WikiExtractor output, MediaWiki
dumps, books, TFDS data sets, also compressed. PATH,weight=W,kind=KIND,column=NAME says more of one: with weights, so
many documents are taken of each source that their words are as the weights. In text files a blank line ends a document
(--separator); sentences are found unless each line is one (--sentence_per_line). OUT/report.json tells what came out.
Run again with the same text and settings, it goes on where it was interrupted, or finds the work done; with others it
refuses to touch OUT.

kinds of example (--kind):
  pairs           [CLS] A [SEP] B [SEP] with next-sentence labels, as in BERT; what a row cannot hold is cut off
  sop             two segments of a document in order or swapped, as in ALBERT
  full_sentences  rows full of sentences, across documents, as in RoBERTa
  doc_sentences   rows of sentences of one document
  packed          several pieces (--pieces) in each row, kept apart by segment ids, with little padding"""
EXAMPLE = "bert-jax prepare --source=books/ --tokenizer=vocab.txt --out=prepared/books-128 --length=128"


def add_arguments(parser):
    def add(name, help, **settings):
        """Flags left out are not in the result: then the recipe's value holds, or PrepareConfig's."""
        parser.add_argument(*name.split(), default=argparse.SUPPRESS, help=help, **settings)

    add("--config", "a recipe, such as configs/data/wikibooks_128.py: flags go before what it sets")
    add("--source", "where text is (repeatable)", action="append", dest="sources", metavar="SOURCE")
    add("--tokenizer", "vocab.txt, tokenizer.json, a .model, or a folder of one")
    add("--out", "folder to make")
    add("--length", "tokens a row, special tokens included", type=int)
    add("--kind", "kind of example (default: pairs)", choices=KINDS)
    add("--pieces", "packed: what is packed (default: documents)", choices=PIECES)
    add("--piece_length", "packed: tokens a piece at most (default: --length)", type=int)
    add("--passes", "times to pair the text anew (dupe_factor; default: 1)", type=int)
    add("--held_out", "share of documents for the validation split (default: 0.01)", type=float)
    add("--short_probability", "share of documents with shorter rows (default: 0.1)", type=float)
    add("--separator", "what ends a document of text (default: blank_line)", choices=SEPARATORS)
    add("--sentence_per_line", "each line is a sentence: split no further", action="store_true")
    add("--language", "ISO 639 code, for splitting sentences (default: en)")
    add("--text_field", "field or column that holds the text, if not 'text'")
    add("--on_error --on-error", "skip: leave out and count what is unreadable (default: fail)", choices=ON_ERROR)
    add("--duplicates", "exact: of equal documents keep one; near: also of nearly equal ones", choices=DUPLICATES)
    add("--least_characters", "leave out shorter documents", type=int)
    add("--most_characters", "leave out longer documents (0: no limit)", type=int)
    add("--languages", "leave out documents in others than these: en,de,...", type=_names)
    add("--seed", "decides split, order and pairs (default: 0)", type=int)
    case = parser.add_mutually_exclusive_group()
    settings = {"dest": "lower_case", "default": argparse.SUPPRESS}
    case.add_argument("--lower_case", action="store_true", help="lower-case the text", **settings)
    case.add_argument("--cased", action="store_false", help="keep case (default: the tokenizer's)", **settings)
    add(
        "--keep_accents", "lower-case, but keep letters whole, as Korean, Japanese and others need",
        dest="strip_accents", action="store_false",
    )  # fmt: skip
    add("--workers", "worker processes (default: the cores); the output is the same", type=int)
    add("--runner", "beam: let Apache Beam run the same tasks (default: local)", choices=RUNNERS)
    add("--beam_options", "Beam's own, such as '--runner=FlinkRunner --parallelism=64'")


def run(args):
    """The verb: prints where the data is and what it holds; progress goes to standard error."""
    options = {"workers": default_workers()} | vars(args)
    recipe = options.pop("config", None)
    options = (_read_recipe(recipe) if recipe else {}) | options
    for name, flag in (("sources", "source"), ("tokenizer",) * 2, ("out",) * 2, ("length",) * 2):
        if name not in options:
            raise UserError(f"--{flag}: expected one, found none (bert-jax prepare --help shows an example)")
    config = PrepareConfig(**options | {"sources": tuple(options["sources"])})
    prepared = prepare(config, log=lambda line: print(line, file=sys.stderr, flush=True))
    for split, part in prepared.report["splits"].items():
        print(f"{split}: {part['examples']} examples of {prepared.length} tokens from {part['documents']} documents")
    for warning in prepared.report["warnings"]:
        print(f"warning: {warning}")
    print(f"prepared data: {prepared.path} (report: {prepared.path / 'report.json'})")


def _names(text):
    return tuple(filter(None, text.split(",")))


def _read_recipe(path):
    """The settings of a recipe, each a field of PrepareConfig."""
    from bert_jax.config import read_recipe, unknown_key  # which loads jax: text alone does without

    settings = read_recipe(path)
    known = [field.name for field in fields(PrepareConfig)]
    for name in settings:
        if name not in known:
            raise UserError(f"--config={path}: {unknown_key(name, known)}")
    return dict(settings.items())
