"""The folder a preparation makes: it appears whole or not at all, and nothing in the way is written over."""

import fcntl
import os
import shutil
from contextlib import contextmanager

from bert_jax.data import storage
from bert_jax.data.journal import has_finished_tasks
from bert_jax.errors import UserError

WORK = "work"  # in the partial folder: what the finished one does not keep


@contextmanager
def partial_folder(out, log):
    """Yields a folder beside `out` to work in.

    Nothing is in it but the folder WORK, and there what an interrupted preparation has finished (journal.py). With
    finished work in it, it stays for the next run, unless it has been renamed. A preparation that still runs is a
    UserError. So is, naming the file, whatever the file system refuses in between: no permission, a full disk.
    """
    folder = out.with_name(out.name + ".partial")
    lock_path = folder.with_name(folder.name + ".lock")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(lock_path, "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(f"{out}: another preparation is writing it now ({lock_path} is locked)") from error
            try:
                _enter(folder, log)
                yield folder
            finally:
                if not has_finished_tasks(folder / WORK):
                    shutil.rmtree(folder, ignore_errors=True)
                lock_path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{error.filename or out}: cannot be written ({error.strerror or error})") from error


def _enter(folder, log):
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    if has_finished_tasks(folder / WORK):
        log(f"{folder}: an interrupted preparation was here: what it finished is not done again where it fits")
    for path in folder.iterdir():
        if path.is_dir() and path.name != WORK:
            shutil.rmtree(path)
        elif path.name != WORK:
            path.unlink()


def is_taken(out):
    """Whether there is anything at `out`: a file, or a folder that is not empty."""
    return out.exists() and not (out.is_dir() and not any(out.iterdir()))


def reuse(out, origin):
    """The Prepared data at `out`, if made from the same text and tokenizer with the same settings (`origin`).

    Raises UserError, naming the differences, if not.
    """
    if not (out / "preparation.json").is_file():
        raise UserError(f"{out}: exists and is not prepared data; name another --out, or remove it")
    shutil.rmtree(out / WORK, ignore_errors=True)  # of a preparation that was killed just before it did so
    prepared = storage.open_prepared(out)
    there = prepared.preparation["origin"]
    differences = [
        f"{name} {there['settings'].get(name)!r} there, {value!r} asked for"
        for name, value in origin["settings"].items()
        if there["settings"].get(name) != value
    ]
    if _digests(there) != _digests(origin):
        differences.append("the text of the sources is another")
    if there["tokenizer_sha256"] != origin["tokenizer_sha256"]:
        differences.append("the tokenizer is another")
    if differences:
        raise UserError(f"{out}: holds other prepared data: {'; '.join(differences)}; name another --out, or remove it")
    return prepared


def publish(folder, out):
    """Gives the finished folder its final name, once its files are safely on disk, and removes the work in it."""
    for path in folder.rglob("*"):
        if path.is_file() and WORK not in path.relative_to(folder).parts:
            with open(path, "rb") as stream:
                os.fsync(stream.fileno())
    os.rename(folder, out)
    shutil.rmtree(out / WORK)


def _digests(origin):
    return [source["sha256"] for source in origin["sources"]]
