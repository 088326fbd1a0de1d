"""Text -> prepared data, for programs; the verb is bert_jax/prepare.py.

Two stages (stages.py), each in parallel over worker processes and in bounded memory: documents are spilled to disk in a
random order, then each block of them becomes one shard. All is written into OUT.partial, which takes its final name
when it is whole; what an interrupted run has finished there is not done again.
"""

import hashlib
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

from bert_jax.data import storage
from bert_jax.data.duplicates import DUPLICATES
from bert_jax.data.filters import Filters
from bert_jax.data.kinds import ExampleConfig, example_fields
from bert_jax.data.output_folder import WORK, is_taken, partial_folder, publish, reuse
from bert_jax.data.records import Layout
from bert_jax.data.report import make_report
from bert_jax.data.stages import MEGABYTE, RUNNERS, make_shards
from bert_jax.errors import UserError
from bert_jax.text.documents import ON_ERROR, SEPARATORS, Source, check_weights, find_files, parse_source
from bert_jax.text.sources.storage import open_file
from bert_jax.text.tokenizer import load_tokenizer

VERSIONS = ("numpy", "tokenizers", "sentencex", "array_record")
PART_BYTES = 64 * MEGABYTE  # larger files are read in parts, by several workers


@dataclass(frozen=True)
class PrepareConfig:
    """What to prepare. The fields of `settings()` decide the output, the others only how soon it is there."""

    sources: tuple[str | Source, ...]
    tokenizer: str
    out: str
    length: int
    kind: str = "pairs"
    pieces: str = "documents"
    piece_length: int = 0
    passes: int = 1
    held_out: float = 0.01
    short_probability: float = 0.1
    separator: str = "blank_line"
    sentence_per_line: bool = False
    language: str = "en"
    text_field: str = "text"
    on_error: str = "fail"
    duplicates: str = "keep"
    least_characters: int = 0
    most_characters: int = 0
    languages: tuple[str, ...] = ()
    seed: int = 0
    lower_case: bool | None = None
    strip_accents: bool | None = None
    block_bytes: int = 64 * MEGABYTE  # of text, at most about so much in a block
    workers: int = 1
    runner: str = "local"
    beam_options: str = ""
    fast: bool | None = None  # nanotoken: None uses it where it is installed

    @property
    def examples(self):
        return ExampleConfig(
            self.kind, self.length, self.passes, self.short_probability, self.pieces, self.piece_length
        )

    @property
    def filters(self):
        return Filters(self.least_characters, self.most_characters, self.languages)

    def settings(self):
        """All that decides the output, besides text and tokenizer."""
        others = ("sources", "tokenizer", "out", "workers", "runner", "beam_options", "fast")
        return {name: value for name, value in asdict(self).items() if name not in others}

    def check(self):
        """Raises UserError for a value that makes no sense, naming it."""
        self.examples.check()
        self.filters.check()
        limits = [("held_out", 0, 0.9), ("seed", 0, 2**32 - 1), ("workers", 1, 1024), ("block_bytes", 1, 2**31)]
        for name, least, most in limits:
            value = getattr(self, name)
            if not least <= value <= most:
                raise UserError(f"{name}: found {value}, expected {least} to {most}")
        choices = [("separator", SEPARATORS), ("on_error", ON_ERROR), ("duplicates", DUPLICATES), ("runner", RUNNERS)]
        for name, known in choices:
            if getattr(self, name) not in known:
                raise UserError(f"{name}: found {getattr(self, name)!r}, expected one of {', '.join(known)}")
        if "://" in str(self.out):
            raise UserError(f"out: found {self.out}, expected a local folder; copy it to the bucket when it is done")


def prepare(config, log=lambda line: None):
    """Prepares the data and returns it, opened (storage.Prepared); if it is there already, returns what is there.

    config: a PrepareConfig. With workers > 1, processes are spawned: a script needs `if __name__ == "__main__"`.
    log: called with lines of progress. Raises UserError for missing or empty text, text that yields no example, an
    `out` that holds something else or cannot be written.
    """
    started = time.monotonic()
    config.check()
    sources = [
        parse_source(source, config.text_field) if isinstance(source, str) else source for source in config.sources
    ]
    check_weights(sources)
    files = find_files(sources, PART_BYTES, config.separator)
    tokenizer = load_tokenizer(config.tokenizer, config.lower_case, config.strip_accents, config.fast)
    out, origin = Path(config.out), _origin(config, sources, files, tokenizer)
    with partial_folder(out, log) as folder:
        if is_taken(out):
            prepared = reuse(out, origin)
            log(f"{out}: prepared already from this text with these settings; nothing to do")
            return prepared
        tokenizer.save(folder / "tokenizer")
        made = make_shards(config, sources, files, origin, folder, tokenizer, log)
        made.text.seconds = time.monotonic() - started
        report = make_report(made, config.settings())
        _finish(config, sources, folder, tokenizer, made.tallies, report, origin)
        publish(folder, out)
    megabytes, seconds = made.text.input_bytes / 1e6, time.monotonic() - started
    log(f"prepared {megabytes:.1f} MB in {seconds:.1f} s, {megabytes / seconds:.1f} MB/s")
    return storage.open_prepared(out)


def _origin(config, sources, files, tokenizer):
    """Everything that decides the output: settings, versions, the sha256 of each file of text and of the tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        of_tokenizer = {path.name: digest for path, digest in _digests(Path(folder).iterdir())}
    readings = [{name: value for name, value in asdict(source).items() if name != "path"} for source in sources]
    paths = dict.fromkeys(file.path for file in files)
    return {
        "settings": config.settings() | {"languages": list(config.languages), "readings": readings},
        "sources": [{"path": path, "sha256": digest} for path, digest in _digests(paths)],
        "tokenizer_sha256": of_tokenizer,
        "versions": {name: metadata.version(name) for name in VERSIONS},
    }


def _finish(config, sources, folder, tokenizer, tallies, report, origin):
    """Shards get their final names, which tell how many there are; then all the other files are written."""
    if not report["splits"]["train"]["examples"]:
        paths = ", ".join(source.path for source in sources)
        raise UserError(
            f"{paths}: too little text for one example: {report['documents']} documents, {report['sentences']} "
            f"sentences, {report['tokens']} tokens; a pair takes two sentences of a document, or two documents "
            f"(--held_out={config.held_out} may have taken one: 0 keeps all for training)"
        )
    shards = []
    for split in storage.SPLITS:
        of_split = [shard for _, shard in sorted(tallies[split].shards.items())]
        for index, shard in enumerate(of_split):
            name = storage.shard_name(config.kind, split, index, len(of_split))
            os.rename(folder / WORK / shard.name, folder / name)
            shards.append(replace(shard, name=name))
    roles = ("pad", "unk", "cls", "sep", "mask")
    preparation = {
        "kind": config.kind,
        "length": config.length,
        "vocab_size": tokenizer.size,
        "special_ids": {role: int(getattr(tokenizer, f"{role}_id")) for role in roles},
        "origin": origin,
    }
    layout = Layout(example_fields(config.examples, tokenizer.size))
    storage.write_folder(folder, config.kind, layout, shards, preparation, report, tallies["train"].unigram)


def _digests(paths):
    """Each path with the sha256 of its content; threads suffice, hashing holds no lock."""
    paths = list(paths)

    def digest(path):
        with open_file(str(path)) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    with ThreadPoolExecutor() as threads:
        return list(zip(paths, threads.map(digest, paths), strict=True))
