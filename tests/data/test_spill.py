"""Documents to blocks: every document in exactly one, blocks of about equal size and never of one document alone."""

import itertools

import numpy as np
import pytest

from bert_jax.data.selection import WHOLE, Selection, cut_blocks, read_block, split_threshold
from bert_jax.data.spill import ReadTask, group_files, spill
from bert_jax.text.documents import find_files


@pytest.fixture
def runs(tmp_path):
    """200 documents of very different sizes, in 5 files read as 3 tasks."""
    rng = np.random.default_rng(0)
    (tmp_path / "in").mkdir()
    (tmp_path / "runs").mkdir()
    for number in range(5):
        documents = (f"document {number} {i} " + "x" * int(rng.pareto(1) * 100) for i in range(40))
        (tmp_path / "in" / f"{number}.txt").write_text("\n\n".join(documents))
    files = find_files([str(tmp_path / "in")])
    groups = group_files(files, sum(file.size for file in files) // 3)
    assert 2 <= len(groups) <= 4
    tasks = [ReadTask(tuple(group), first, str(tmp_path / "runs"), "blank_line", 0, 5000) for first, group in groups]
    return tuple(run for task in tasks for run in spill(task).runs)


def documents_of(runs, blocks, threshold):
    return [
        [text for batch in read_block(runs, block, Selection(threshold), 1000) for text in batch] for block in blocks
    ]


def test_each_document_is_in_one_block_of_its_split(runs):
    threshold = split_threshold(runs, 0.2)
    blocks = cut_blocks(runs, Selection(threshold), 6000, 1000, 4)
    contents = documents_of(runs, blocks, threshold)
    names = sorted(text.rstrip("x").strip() for block in contents for text in block)
    assert names == sorted(f"document {number} {i}" for number in range(5) for i in range(40))
    for block, texts in zip(blocks, contents, strict=True):
        assert (block.n_bytes, block.documents) == (sum(map(len, texts)), len(texts))
    held_out = sum(block.documents for block in blocks if block.split == "validation")
    assert 20 <= held_out <= 60


def test_blocks_are_about_equal_and_have_two_documents(runs):
    for most_bytes in (1, 2000, 20_000, 10**9):
        blocks = cut_blocks(runs, Selection(0), most_bytes, 1000, 4)
        assert all(block.documents >= 2 for block in blocks)
        assert blocks[0].start == 0 and blocks[-1].stop == WHOLE
        assert all(before.stop == after.start for before, after in itertools.pairwise(blocks))
        sizes = [block.n_bytes for block in blocks]
        largest_document = max(len(text) for part in documents_of(runs, blocks, 0) for text in part)
        assert max(sizes) <= sum(sizes) / len(sizes) + 2 * largest_document or most_bytes == 1
    assert len(cut_blocks(runs, Selection(0), 10**9, 1000, 4)) == 4  # to share among workers
    assert len(cut_blocks(runs, Selection(0), 10**9, 10**9, 4)) == 1  # not worth sharing


def test_where_a_document_goes_does_not_depend_on_how_files_are_read(runs, tmp_path):
    files = find_files([str(tmp_path / "in")])
    (tmp_path / "again").mkdir()
    spilled = spill(ReadTask(tuple(files), 0, str(tmp_path / "again"), "blank_line", 0, 10**9))
    again = spilled.runs
    assert len(again) == 1 and not spilled.left_out
    threshold = split_threshold(runs, 0.1)
    assert split_threshold(again, 0.1) == threshold
    blocks = cut_blocks(runs, Selection(threshold), 6000, 1000, 4)
    assert cut_blocks(again, Selection(threshold), 6000, 1000, 4) == blocks
    for mine, theirs in zip(documents_of(runs, blocks, threshold), documents_of(again, blocks, threshold), strict=True):
        assert sorted(mine) == sorted(theirs)


def test_nothing_is_held_out_of_copies_of_one_document(tmp_path):
    (tmp_path / "in.txt").write_text("the same\n\n" * 20)
    files = tuple(find_files([str(tmp_path / "in.txt")]))
    runs = spill(ReadTask(files, 0, str(tmp_path), "blank_line", 0, 50)).runs
    assert len(runs) > 1
    assert split_threshold(runs, 0.5) == 0
