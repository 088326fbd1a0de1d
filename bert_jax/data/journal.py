"""What is done already: the results of finished tasks, a file each, so that an interrupted preparation goes on."""

import hashlib
import os
import pickle
from dataclasses import dataclass
from pathlib import Path

FOLDER = "done"


@dataclass(frozen=True)
class Recorded:
    """A task that leaves its result behind; called with (index, key, task) by whichever process runs it."""

    function: object
    folder: str
    stage: str

    def __call__(self, numbered):
        index, key, task = numbered
        result = self.function(task)
        path = self.path(index)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(pickle.dumps((key, result)))
        os.replace(temporary, path)  # the file is there whole or not at all
        return index

    def path(self, index):
        return Path(self.folder) / FOLDER / f"{self.stage}-{index:06d}"


class Journal:
    """The finished tasks of a preparation in `folder`, which all its workers must reach."""

    def __init__(self, folder):
        self._folder = Path(folder)
        (self._folder / FOLDER).mkdir(exist_ok=True)

    def run(self, run_all, stage, function, tasks, keys, progress, is_whole):
        """Yields (index of the task, its result) of all tasks, those finished earlier first.

        run_all: see workers.worker_pool. keys: for each task a text that says all that decides its result: one finished
        under another key is done again. So is one of which is_whole(result) says that what it wrote is gone or changed.
        """
        recorded = Recorded(function, str(self._folder), stage)
        rest = []
        for index, (key, task) in enumerate(zip(keys, tasks, strict=True)):
            found, result = _read(recorded.path(index))
            if found == key and is_whole(result):
                progress.found(index)
                yield index, result
            else:
                rest.append((index, key, task))
        for index in run_all(recorded, rest):
            progress.done(index)
            yield index, _read(recorded.path(index))[1]


def key_of(*parts):
    """One text for all that decides a result; parts: anything whose repr tells it apart."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def has_finished_tasks(folder):
    """Whether there is anything to go on from in the folder."""
    done = Path(folder) / FOLDER
    return done.is_dir() and any(not path.name.startswith(".") for path in done.iterdir())


def _read(path):
    return pickle.loads(path.read_bytes()) if path.exists() else (None, None)
