"""Files where they lie: local ones through `os`, those of a URL (gs://, s3://, memory://, ...) through fsspec."""

import glob
import os
from typing import BinaryIO

from bert_jax.errors import UserError

# An unreachable bucket would else be asked for ever.
REMOTE_OPTIONS = {"gs": {"requests_timeout": 60}, "gcs": {"requests_timeout": 60}}
REMOTE_BLOCK_BYTES = 4 << 20


def is_remote(path: str) -> bool:
    return "://" in path


def open_file(path: str) -> BinaryIO:
    """The file, opened for reading and seekable. Raises OSError where it cannot be read."""
    if not is_remote(path):
        return open(path, "rb")
    system, inner = _remote(path)
    return system.open(inner, "rb", block_size=REMOTE_BLOCK_BYTES)


def exists(path: str) -> bool:
    if not is_remote(path):
        return os.path.lexists(path)
    system, inner = _remote(path)
    return system.exists(inner)


def is_folder(path: str) -> bool:
    if not is_remote(path):
        return os.path.isdir(path)
    system, inner = _remote(path)
    return system.isdir(inner)


def file_size(path: str) -> int:
    """Bytes of a regular file. Raises UserError for a pipe, a device or a dangling link."""
    if is_remote(path):
        system, inner = _remote(path)
        return int(system.size(inner))
    if not os.path.isfile(path):
        raise UserError(f"{path}: is no regular file")
    return os.path.getsize(path)


def matches(pattern: str) -> list[str]:
    """Files and folders that a glob matches, sorted; `**` goes to the bottom."""
    if not is_remote(pattern):
        return sorted(glob.glob(pattern, recursive=True))
    system, inner = _remote(pattern)
    return sorted(system.unstrip_protocol(path) for path in system.glob(inner))


def files_under(folder: str) -> list[str]:
    """All files of a folder, to the bottom, sorted by their path inside it; hidden names are passed over."""
    found = _remote_files(folder) if is_remote(folder) else _local_files(folder)
    return [path for _, path in sorted(found)]


def join(folder: str, name: str) -> str:
    return folder.rstrip("/") + "/" + name if is_remote(folder) else os.path.join(folder, name)


def _local_files(folder: str) -> list[tuple[tuple[str, ...], str]]:
    found = []
    pending, seen = [((), folder)], {os.path.realpath(folder)}
    while pending:
        parts, directory = pending.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                inside = (*parts, entry.name)
                if not entry.is_dir():
                    found.append((inside, entry.path))
                elif os.path.realpath(entry.path) not in seen:  # a link back up would lead round for ever
                    seen.add(os.path.realpath(entry.path))
                    pending.append((inside, entry.path))
    return found


def _remote_files(folder: str) -> list[tuple[tuple[str, ...], str]]:
    system, inner = _remote(folder)
    found = []
    for path in system.find(inner):
        parts = tuple(path[len(inner) :].strip("/").split("/"))
        if not any(part.startswith(".") for part in parts):
            found.append((parts, system.unstrip_protocol(path)))
    return found


def _remote(path: str):
    """(file system, path inside it). Raises UserError for a scheme that nothing installed reads."""
    import fsspec  # not needed for local files, and slow to import

    scheme = path.split("://", 1)[0]
    try:
        return fsspec.core.url_to_fs(path, **REMOTE_OPTIONS.get(scheme, {}))
    except ImportError as error:
        extra = "pip install 'bert-jax[gcs]'" if scheme in REMOTE_OPTIONS else str(error)
        raise UserError(f"{path}: reading {scheme}:// needs a package that is not installed ({extra})") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
