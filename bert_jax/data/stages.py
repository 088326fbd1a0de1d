"""The two stages of preparation over worker processes: text -> runs of documents -> shards of examples.

Neither stage knows how many workers there are, so the output does not depend on it. Each finished task is recorded, so
that an interrupted preparation goes on with the others.
"""

import collections
from dataclasses import dataclass, field, replace

import numpy as np

from bert_jax.data import storage
from bert_jax.data.beam import beam_pool
from bert_jax.data.blocks import BlockTask, use_tokenizer, write_block
from bert_jax.data.duplicates import mark_duplicates
from bert_jax.data.journal import Journal, key_of
from bert_jax.data.output_folder import WORK
from bert_jax.data.report import Tally
from bert_jax.data.selection import WHOLE, Selection, cut_blocks, source_rates, split_threshold
from bert_jax.data.spill import ReadTask, group_files, spill
from bert_jax.data.workers import Progress, worker_pool
from bert_jax.errors import UserError

RUNNERS = ("local", "beam")
MEGABYTE = 1 << 20
# So many blocks, to share among workers, where the text is enough for blocks of LEAST_BLOCK_BYTES.
SPREAD = 8
LEAST_BLOCK_BYTES = 2 * MEGABYTE
# Sentences looked at for duplicates: about so many, however long the text.
SENTENCE_SAMPLE = 1 << 18
BYTES_A_SENTENCE = 80
SKIPPED_TOLD = 100


@dataclass
class TextSummary:
    """What is known of the text besides the examples; left_out counts documents by the reason."""

    files: int
    input_bytes: int
    left_out: dict[str, int]
    skipped: list[str]  # messages on what could not be read, the first SKIPPED_TOLD
    source_words: dict[str, int]  # by the source as the user named it
    # The share taken of each, where weights ask for it.
    source_rates: dict[str, float] = field(default_factory=dict)
    sentence_sample_share: float = 1.0
    seconds: float = 0.0


@dataclass
class Made:
    """What both stages gave: a Tally of each split, hashes of sampled sentences, and what is known of the text."""

    text: TextSummary
    tallies: dict[str, Tally] = field(default_factory=lambda: {split: Tally() for split in storage.SPLITS})
    sentence_hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))


def make_shards(config, sources, files, origin, folder, tokenizer, log):
    """Writes the shards into `folder`/WORK, under names to be changed once all are known; returns what was Made.

    origin: settings and digests of text and tokenizer, which decide whether work finished earlier fits.
    """
    work = folder / WORK
    spilled, paths = work / "spilled", [source.path for source in sources]
    spilled.mkdir(exist_ok=True)
    input_bytes = sum(file.size for file in files)
    run_bytes = max(config.block_bytes // 4, 1)
    read_tasks = [
        ReadTask(
            files=tuple(group), first_file=first, folder=str(spilled), separator=config.separator, seed=config.seed,
            run_bytes=run_bytes, skip_errors=config.on_error == "skip", filters=config.filters,
            duplicates=config.duplicates,
        )
        for first, group in group_files(files, run_bytes)
    ]  # fmt: skip
    least_bytes = min(LEAST_BLOCK_BYTES, config.block_bytes)
    workers = max(1, min(config.workers, max(len(read_tasks), input_bytes // least_bytes)))
    journal = Journal(work)
    if config.runner == "beam":
        pool = beam_pool(config.beam_options, use_tokenizer, tokenizer)
    else:
        pool = worker_pool(workers, use_tokenizer, tokenizer)
    with pool as run_all:
        sizes = [sum(file.size for file in task.files) for task in read_tasks]
        digest_of = {source["path"]: source["sha256"] for source in origin["sources"]}
        # What could not be read does not belong into the key: a task without such text gives the same either way.
        keys = [
            key_of(origin["versions"], replace(task, skip_errors=False), [digest_of[file.path] for file in task.files])
            for task in read_tasks
        ]
        fits = lambda result: result.is_whole() and (config.on_error == "skip" or not result.skipped)  # noqa: E731
        progress = Progress("reading", sizes, log)
        read = dict(journal.run(run_all, "read", spill, read_tasks, keys, progress, fits))
        runs = tuple(run for index in sorted(read) for run in read[index].runs)
        made = Made(_summary(config, sources, files, [read[index] for index in sorted(read)]))
        if not runs:
            reasons = ", ".join(f"{n} {reason}" for reason, n in made.text.left_out.items())
            told = f" ({reasons})" if reasons else ""
            raise UserError(f"{', '.join(paths)}: no document with text in {made.text.files} files{told}")
        if config.duplicates != "keep":
            made.text.left_out |= mark_duplicates(runs, config.duplicates, log)
        selection = Selection(
            split_threshold(runs, config.held_out),
            source_rates(runs, [source.weight for source in sources]),
            config.duplicates != "keep",
        )
        made.text.source_rates = dict(zip(paths, selection.rates, strict=False))
        blocks = cut_blocks(runs, selection, config.block_bytes, least_bytes, SPREAD)
        sizes = [block.n_bytes for block in blocks]
        made.text.sentence_sample_share = min(1.0, SENTENCE_SAMPLE * BYTES_A_SENTENCE / max(sum(sizes), 1))
        template = BlockTask(
            block=blocks[0], runs=runs, selection=selection, folder=str(work), examples=config.examples,
            language=config.language, sentence_per_line=config.sentence_per_line, seed=config.seed,
            sentence_sample_limit=min(int(made.text.sentence_sample_share * WHOLE), WHOLE - 1),
        )  # fmt: skip
        tasks = [replace(template, block=block) for block in blocks]
        common = key_of(origin["versions"], replace(template, block=None), origin["tokenizer_sha256"])
        keys = [key_of(common, block) for block in blocks]
        fits = lambda result: result.is_whole(work)  # noqa: E731
        progress = Progress("preparing", sizes, log)
        hashes = []
        for index, result in journal.run(run_all, "write", write_block, tasks, keys, progress, fits):
            made.tallies[blocks[index].split].add(blocks[index].index, result)
            hashes.append(result.sentence_hashes)
    made.sentence_hashes = np.concatenate(hashes)
    return made


def _summary(config, sources, files, read):
    left_out, words = collections.Counter(), collections.Counter()
    for result in read:
        left_out.update(result.left_out)
        for run in result.runs:
            words[sources[run.source].path] += run.words
    return TextSummary(
        files=len({file.path for file in files}),
        input_bytes=sum(file.size for file in files),
        left_out=dict(left_out),
        skipped=[message for result in read for message in result.skipped][:SKIPPED_TOLD],
        source_words=dict(words),
    )
