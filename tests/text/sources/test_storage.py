"""Local and remote files look alike: fsspec's own memory file system stands for a bucket."""

import os

import fsspec
import pytest

from bert_jax.errors import UserError
from bert_jax.text.documents import find_files, read_documents
from bert_jax.text.sources import storage
from tests.text.sources.corpora import COMPRESS


@pytest.fixture
def bucket():
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


def test_a_remote_folder_reads_like_a_local_one(bucket, tmp_path):
    contents = {
        "b.txt": b"b one\n\nb two",
        "a/z.jsonl": b'{"text": "z"}\n',
        "a/y.md.bz2": COMPRESS["bz2"](b"y"),
        ".hidden/x.txt": b"x",
        "c.csv": b"1,2",
        "empty.txt": b"",
    }
    for name, content in contents.items():
        bucket.pipe(f"/corpus/{name}", content)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    remote, local = find_files(["memory://corpus"]), find_files([str(tmp_path)])
    assert [file.path.removeprefix("memory://") for file in remote] == [
        "/corpus/" + os.path.relpath(file.path, tmp_path) for file in local
    ]
    assert [(file.size, file.kind) for file in remote] == [(file.size, file.kind) for file in local]
    documents = [document for file in remote for document in read_documents(file)]
    assert documents == ["y", "z", "b one", "b two"]


def test_remote_globs_and_parts(bucket):
    lines = [f'{{"text": "{i}"}}' for i in range(100)]
    bucket.pipe("/c/one.jsonl", "\n".join(lines).encode())
    bucket.pipe("/c/two.txt", b"two")
    assert [file.path for file in find_files(["memory://c/*.txt"])] == ["memory:///c/two.txt"]
    parts = find_files(["memory://c/one.jsonl"], part_bytes=300)
    assert len(parts) > 3
    assert [int(document) for part in parts for document in read_documents(part)] == list(range(100))


def test_remote_mistakes_are_one_line(bucket):
    for source, message in [
        ("memory://nowhere", "memory://nowhere: no such file or folder"),
        ("memory://nowhere/*.txt", "matches no file"),
        ("nonsense://a/b", "nonsense://a/b: .*nonsense"),
        ("gs://bucket/file.txt", r"gs://bucket/file.txt: reading gs:// needs .*bert-jax\[gcs\]"),
    ]:
        if source.startswith("gs://") and _installed("gcsfs"):
            continue  # what is said then depends on the network
        with pytest.raises(UserError, match=message):
            find_files([source])


def test_a_file_that_vanishes_between_finding_and_reading(bucket):
    bucket.pipe("/c/two.txt", b"two")
    (file,) = find_files(["memory://c"])
    bucket.rm("/c/two.txt")
    with pytest.raises(UserError, match=r"two\.txt: cannot be read"):
        list(read_documents(file))


def test_links_do_not_lead_round_for_ever(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "file").write_text("x")
    assert storage.files_under(str(tmp_path)) == [str(tmp_path / "a" / "file")]


def _installed(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None
