"""What a run writes of itself: lines on the terminal, metrics.jsonl and TensorBoard, all by the first process."""

import json
import time

import jax
from etils import epath

METRICS = "metrics.jsonl"
FLUSH_SECONDS = 30  # how long TensorBoard may lag behind


class RunLog:
    """Writer of a run's metrics. A line of metrics.jsonl holds `split` (train or heldout), `step` and the figures.

    `step` counts the updates made, so step 1 is the first; the figures of a train line are those of that one update.
    """

    def __init__(self, workdir):
        self._writes = jax.process_index() == 0
        self._folder = epath.Path(workdir)
        self._metrics = self._board = None

    def start(self, step):
        """Opens the files to go on after `step`: lines of later steps, of a run that was killed, are removed."""
        if not self._writes:
            return
        path = self._folder / METRICS
        kept = [line for line in read_lines(path) if line["step"] <= step]
        partial = self._folder / (METRICS + ".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in kept))
        partial.replace(path)
        self._metrics = open(path, "a", buffering=1)
        self._board = _Board(self._folder / "tensorboard", step + 1)

    def write(self, split, step, figures):
        """One line of figures (name -> number or string)."""
        if not self._writes:
            return
        self._metrics.write(json.dumps({"split": split, "step": step, **figures}) + "\n")
        self._board.write(step, {f"{split}/{name}": v for name, v in figures.items() if isinstance(v, (int, float))})

    def say(self, line):
        """One line for the person who watches, with the time."""
        if self._writes:
            print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

    def close(self):
        if self._metrics is not None:
            try:
                self._metrics.close()
            finally:
                self._board.close()


class _Board:
    """Writer of TensorBoard's events. (tensorboardX's own writes from a thread, where a full disk goes unnoticed.)"""

    def __init__(self, folder, first_step):
        """Tells TensorBoard to forget what earlier files hold of `first_step` and later ones."""
        # Imported here, as tensorboardX imports torch where that is installed, which takes seconds.
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.proto.summary_pb2 import Summary

        self._event, self._summary = Event, Summary
        folder.mkdir(exist_ok=True)
        self._file = EventsWriter(str(folder / "events"))
        self._file.write_event(
            Event(wall_time=time.time(), step=first_step, session_log=SessionLog(status=SessionLog.START))
        )
        self._flushed = time.monotonic()

    def write(self, step, figures):
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._file.write_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._file.flush()
            self._flushed = time.monotonic()

    def close(self):
        self._file.close()


def read_lines(path):
    """The lines of a metrics file as dicts; a last line that was cut off by a kill is left out."""
    path = epath.Path(path)
    if not path.exists():
        return []
    lines = []
    for line in path.read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            break  # cut off by a kill; what follows it cannot be older
    return lines


def in_words(seconds):
    """A duration as 1:02:03, with days in front where there are any."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days} d " if days else "") + f"{hours}:{minutes:02}:{seconds:02}"
