"""Text -> prepared data: `bert-jax prepare`, and `prepare` for programs.

Two stages, each in parallel over worker processes and in bounded memory: documents are spilled to disk in a random
order (spill.py), then each block of them becomes one shard (blocks.py). Neither stage knows how many workers there are,
so the output does not depend on it. All is written into OUT.partial, which takes its final name when it is whole.
"""

import hashlib
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np
from etils import epath

from bert_jax.data import storage
from bert_jax.data.blocks import BlockTask, use_tokenizer, write_block
from bert_jax.data.output_folder import is_taken, partial_folder, publish, reuse
from bert_jax.data.records import Layout, pairs_fields
from bert_jax.data.report import Tally, make_report
from bert_jax.data.spill import WHOLE, ReadTask, cut_blocks, group_files, spill, split_threshold
from bert_jax.data.workers import Progress, worker_pool
from bert_jax.errors import UserError
from bert_jax.text.documents import SEPARATORS, find_files
from bert_jax.text.tokenizer import load_tokenizer

DESCRIPTION = """Turns text into training examples, the paper's sentence pairs, in a folder that `pretrain` reads.

A source is a folder of *.txt, *.md or *.jsonl files, a file, or a glob. In text files a blank line ends a document
(--separator); sentences are found unless each line is one (--sentence_per_line). What a row cannot hold is cut off at a
token, also inside a sentence. OUT/report.json tells what came out. A second run with the same text and settings finds
the work done; with others it refuses to touch OUT."""
EXAMPLE = "bert-jax prepare --source=books/ --tokenizer=vocab.txt --out=prepared/books-128 --length=128"

KIND = "pairs"
MEGABYTE = 1 << 20
# So many blocks, to share among workers, where the text is enough for blocks of LEAST_BLOCK_BYTES.
SPREAD = 8
LEAST_BLOCK_BYTES = 2 * MEGABYTE
# Sentences looked at for duplicates: about so many, however long the text.
SENTENCE_SAMPLE = 1 << 18
BYTES_A_SENTENCE = 80


@dataclass(frozen=True)
class PrepareConfig:
    """What to prepare. The fields of `settings()` decide the output; workers and fast only how soon it is there."""

    sources: tuple[str, ...]
    tokenizer: str
    out: str
    length: int
    passes: int = 1
    held_out: float = 0.01
    short_probability: float = 0.1
    separator: str = "blank_line"
    sentence_per_line: bool = False
    language: str = "en"
    text_field: str = "text"
    seed: int = 0
    lower_case: bool | None = None
    strip_accents: bool | None = None
    block_bytes: int = 64 * MEGABYTE  # of text, at most about so much in a block
    workers: int = 1
    fast: bool | None = None  # nanotoken: None uses it where it is installed

    def settings(self):
        """All that decides the output, besides text and tokenizer."""
        others = ("sources", "tokenizer", "out", "workers", "fast")
        return {name: value for name, value in asdict(self).items() if name not in others} | {"kind": KIND}

    def check(self):
        """Raises UserError for a value that makes no sense, naming it."""
        limits = [
            ("length", 8, 2**16), ("passes", 1, 1000), ("held_out", 0, 0.9), ("short_probability", 0, 1),
            ("seed", 0, 2**32 - 1), ("workers", 1, 1024), ("block_bytes", 1, 2**31),
        ]  # fmt: skip
        for name, least, most in limits:
            value = getattr(self, name)
            if not least <= value <= most:
                raise UserError(f"{name}: found {value}, expected {least} to {most}")
        if self.separator not in SEPARATORS:
            raise UserError(f"separator: found {self.separator!r}, expected one of {', '.join(SEPARATORS)}")
        if "://" in str(self.out):
            raise UserError(f"out: found {self.out}, expected a local folder; copy it to the bucket when it is done")


def add_arguments(parser):
    parser.add_argument("--source", action="append", required=True, help="folder, file or glob of text (repeatable)")
    parser.add_argument("--tokenizer", required=True, help="vocab.txt, tokenizer.json, a .model, or a folder of one")
    parser.add_argument("--out", required=True, help="folder to make")
    parser.add_argument("--length", type=int, required=True, help="tokens a row, special tokens included")
    parser.add_argument("--passes", type=int, default=1, help="times to pair the text anew (dupe_factor)")
    parser.add_argument("--held_out", type=float, default=0.01, help="share of documents for the validation split")
    parser.add_argument("--short_probability", type=float, default=0.1, help="share of documents with shorter rows")
    parser.add_argument("--separator", choices=SEPARATORS, default="blank_line", help="what ends a document of text")
    parser.add_argument("--sentence_per_line", action="store_true", help="each line is a sentence: split no further")
    parser.add_argument("--language", default="en", help="ISO 639 code, for splitting sentences")
    parser.add_argument("--text_field", default="text", help="the field of JSON lines that holds the text")
    parser.add_argument("--seed", type=int, default=0, help="decides split, order and pairs")
    case = parser.add_mutually_exclusive_group()
    case.add_argument("--lower_case", dest="lower_case", action="store_true", default=None, help="lower-case the text")
    case.add_argument("--cased", dest="lower_case", action="store_false", help="keep case (default: the tokenizer's)")
    parser.add_argument(
        "--keep_accents", dest="strip_accents", action="store_false", default=None,
        help="lower-case without taking letters apart: for Korean, Japanese and others that uncased BERT garbles",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="worker processes; the output is the same")


def run(args):
    """The verb: prints where the data is and what it holds; progress goes to standard error."""
    options = {name: value for name, value in vars(args).items() if name != "source"}
    config = PrepareConfig(sources=tuple(args.source), **options)
    prepared = prepare(config, log=lambda line: print(line, file=sys.stderr, flush=True))
    for split, part in prepared.report["splits"].items():
        print(f"{split}: {part['examples']} examples of {prepared.length} tokens from {part['documents']} documents")
    for warning in prepared.report["warnings"]:
        print(f"warning: {warning}")
    print(f"prepared data: {prepared.path} (report: {prepared.path / 'report.json'})")


def prepare(config, log=lambda line: None):
    """Prepares the data and returns it, opened (storage.Prepared); if it is there already, returns what is there.

    config: a PrepareConfig. With workers > 1, processes are spawned: a script needs `if __name__ == "__main__"`.
    log: called with lines of progress. Raises UserError for missing or empty text, text that yields no example, an
    `out` that holds something else or cannot be written.
    """
    started = time.monotonic()
    config.check()
    files = find_files(config.sources)
    tokenizer = load_tokenizer(config.tokenizer, config.lower_case, config.strip_accents, config.fast)
    out = Path(config.out)
    with partial_folder(out) as folder:
        tokenizer.save(folder / "tokenizer")
        origin = {
            "settings": config.settings(),
            "sources": [{"path": path, "sha256": digest} for path, digest in _digests(file.path for file in files)],
            "tokenizer_sha256": {path.name: digest for path, digest in _digests((folder / "tokenizer").iterdir())},
        }
        if is_taken(out):
            prepared = reuse(out, origin)
            log(f"{out}: prepared already from this text with these settings; nothing to do")
            return prepared
        tallies, hashes, text = _make_shards(config, files, folder, tokenizer, log)
        text["seconds"] = time.monotonic() - started
        report = make_report(tallies, hashes, config.settings(), text)
        _finish(config, folder, tokenizer, tallies, report, origin)
        publish(folder, out)
    megabytes, seconds = text["input_bytes"] / 1e6, time.monotonic() - started
    log(f"prepared {megabytes:.1f} MB in {seconds:.1f} s, {megabytes / seconds:.1f} MB/s")
    return storage.open_prepared(out)


def _make_shards(config, files, folder, tokenizer, log):
    """Both stages; returns a Tally of each split, the hashes of sampled sentences, and what is known of the text."""
    spilled = folder / "spilled"
    spilled.mkdir()
    input_bytes = sum(file.size for file in files)
    run_bytes = max(config.block_bytes // 4, 1)
    read_tasks = [
        ReadTask(tuple(group), first, str(spilled), config.separator, config.text_field, config.seed, run_bytes)
        for first, group in group_files(files, run_bytes)
    ]
    read_sizes = [sum(file.size for file in task.files) for task in read_tasks]
    least_bytes = min(LEAST_BLOCK_BYTES, config.block_bytes)
    workers = max(1, min(config.workers, max(len(read_tasks), input_bytes // least_bytes)))
    with worker_pool(workers, use_tokenizer, tokenizer) as run_all:
        read = dict(run_all(spill, read_tasks, Progress("reading", read_sizes, log)))
        runs = tuple(run for index in sorted(read) for run in read[index][0])
        if not runs:
            raise UserError(f"{', '.join(config.sources)}: no document with text in {len(files)} files")
        threshold = split_threshold(runs, config.held_out)
        blocks = cut_blocks(runs, threshold, config.block_bytes, least_bytes, SPREAD)
        sizes = [block.n_bytes for block in blocks]
        sample_share = min(1.0, SENTENCE_SAMPLE * BYTES_A_SENTENCE / sum(sizes))
        template = BlockTask(
            block=blocks[0], runs=runs, threshold=threshold, folder=str(folder), length=config.length,
            passes=config.passes, short_probability=config.short_probability, language=config.language,
            sentence_per_line=config.sentence_per_line, seed=config.seed,
            sentence_sample_limit=min(int(sample_share * WHOLE), WHOLE - 1),
        )  # fmt: skip
        tasks = [replace(template, block=block) for block in blocks]
        tallies, hashes = {split: Tally() for split in storage.SPLITS}, []
        for index, result in run_all(write_block, tasks, Progress("preparing", sizes, log)):
            tallies[blocks[index].split].add(blocks[index].index, result)
            hashes.append(result.sentence_hashes)
    shutil.rmtree(spilled)
    text = {"files": len(files), "input_bytes": input_bytes, "sentence_sample_share": sample_share}
    return tallies, np.concatenate(hashes), text | {"empty_documents": sum(empty for _, empty in read.values())}


def _finish(config, folder, tokenizer, tallies, report, origin):
    """Shards get their final names, which tell how many there are; then all the other files are written."""
    if not report["splits"]["train"]["examples"]:
        raise UserError(
            f"{', '.join(config.sources)}: too little text for one example: {report['documents']} documents, "
            f"{report['sentences']} sentences, {report['tokens']} tokens; a pair takes two sentences of a document, or "
            f"two documents (--held_out={config.held_out} may have taken one: 0 keeps all for training)"
        )
    shards = []
    for split in storage.SPLITS:
        of_split = [shard for _, shard in sorted(tallies[split].shards.items())]
        for index, shard in enumerate(of_split):
            name = storage.shard_name(KIND, split, index, len(of_split))
            os.rename(folder / shard.name, folder / name)
            shards.append(replace(shard, name=name))
    roles = ("pad", "unk", "cls", "sep", "mask")
    preparation = {
        "kind": KIND,
        "length": config.length,
        "vocab_size": tokenizer.size,
        "special_ids": {role: int(getattr(tokenizer, f"{role}_id")) for role in roles},
        "versions": {name: metadata.version(name) for name in ("numpy", "tokenizers", "sentencex", "array_record")},
        "origin": origin,
    }
    layout = Layout(pairs_fields(config.length, tokenizer.size))
    storage.write_folder(folder, KIND, layout, shards, preparation, report, tallies["train"].unigram)


def _digests(paths):
    """Each path with the sha256 of its content; threads suffice, hashing holds no lock."""
    paths = list(paths)

    def digest(path):
        with epath.Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    with ThreadPoolExecutor() as threads:
        return list(zip(paths, threads.map(digest, paths), strict=True))
