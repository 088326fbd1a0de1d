"""A folder that is made whole or not at all, with nothing in its way written over."""

import contextlib
import shutil
from pathlib import Path

from bert_jax.data.output_folder import is_taken
from bert_jax.errors import UserError


def check_new(out):
    """The absolute path of a folder that may be made; UserError for one that is in the way, and for a bucket's."""
    if "://" in str(out):
        raise UserError(f"--out {out}: expected a folder of this machine")
    out = Path(out).absolute()
    if is_taken(out):
        raise UserError(f"--out {out}: exists and is not empty: name a new folder")
    return out


@contextlib.contextmanager
def new_folder(out):
    """Yields a folder beside `out` to write into, which is renamed to `out` if no error comes, and removed if one does.

    UserError as of `check_new`, and for what the file system refuses.
    """
    out = check_new(out)
    partial = out.with_name(out.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of one that was killed
        partial.mkdir(parents=True)
        yield partial
        partial.rename(out)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
