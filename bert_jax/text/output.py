"""Files that are written whole or not at all, and never over something else."""

import os
from collections.abc import Mapping
from pathlib import Path

from bert_jax.errors import UserError


def write_once(folder: str | os.PathLike, files: Mapping[str, bytes]) -> None:
    """Writes the files (name: content) by a temporary name and a rename; those that hold the same already stay.

    Raises UserError before it writes anything if one holds something else, or where one cannot be written.
    """
    folder = Path(folder)
    path = folder
    try:
        missing = []
        for name, content in files.items():
            path = folder / name
            if not path.exists():
                missing.append(path)
            elif not path.is_file() or path.read_bytes() != content:
                raise UserError(f"{path}: exists and holds something else: remove it or name another output")
        for path in missing:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, files[path.name])
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
