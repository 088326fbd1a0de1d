"""Reads the metrics of each step, writes them every `log_every` steps, and counts the bad ones."""

import time
import zlib

import jax
import numpy as np

from bert_jax import flops, losses
from bert_jax.errors import UserError
from bert_jax.runlog import in_words
from bert_jax.step import SENTENCE_LABELS

STEPS_BEFORE_SPEED = 5  # the first steps of a process are slower; after so many its speed is told


class Meter:
    """The figures of one phase, in the steps that this process makes of it.

    run_log: RunLog. loader: its `wait_seconds` are read. progress: counts bad steps in `bad_streak`.
    """

    def __init__(self, config, phase, phase_start, loader, run_log, progress, mesh):
        self._config, self._phase, self._phase_start = config, phase, phase_start
        self._loader, self._log, self._progress = loader, run_log, progress
        self._devices = mesh.size
        self._peak, self._peak_source = flops.peak_flops(jax.local_devices()[0])
        c = phase.config
        slots = [field.size for field in phase.data.layout.fields if field.name in SENTENCE_LABELS.values()]
        self.step_flops = flops.step_flops(
            config.model, c.batch_size, c.length, c.masking.max_predictions, pieces=max(slots, default=1)
        )
        self._steps_read = 0
        self.open_window()

    def open_window(self):
        """Starts measuring speed from now: after a line was written, or after an evaluation."""
        self._since, self._steps, self._real_tokens = time.perf_counter(), 0, 0.0
        self._waited = self._loader.wait_seconds

    def read(self, step, examples, metrics):
        """Takes the metrics of update `step`, after which `examples` were consumed.

        Waits for the devices to finish that step. Raises UserError after too many bad steps in a row.
        """
        metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
        self._steps_read += 1
        self._steps += 1
        self._real_tokens += metrics["real_tokens"]
        ids = self._example_ids(examples)
        if metrics.pop("bad"):
            self._note_bad(step, ids, metrics)
        else:
            self._progress.bad_streak = 0
        if self._steps_read == STEPS_BEFORE_SPEED:
            self._log.say(f"{self._steps / self._seconds():.2f} steps/s; MFU is of the {self._peak_source}")
        if step % self._config.log_every == 0 or step == self._phase.end_step:
            self._write(step, examples, ids, metrics)
            self.open_window()

    def _seconds(self):
        return time.perf_counter() - self._since

    def _example_ids(self, examples):
        end = examples - self._phase_start
        batch = np.arange(end - self._phase.config.batch_size, end)
        return self._phase.data.order(batch, self._config.seed)

    def _note_bad(self, step, ids, metrics):
        self._progress.bad_streak += 1
        figures = {name: repr(metrics[name]) for name in ("loss", "gradient_norm")}
        self._log.write("bad", step, figures | {"example_ids": ids.tolist()})
        shown = ", ".join(map(str, ids[:8])) + (", ..." if len(ids) > 8 else "")
        self._log.say(
            f"step {step}: loss {figures['loss']}, gradient norm {figures['gradient_norm']}: the update is skipped; "
            f"train examples {shown} of {self._phase.data.path}"
        )
        if self._progress.bad_streak >= self._config.max_bad_steps:
            raise UserError(
                f"{self._progress.bad_streak} steps in a row up to step {step} were not finite "
                f"(config.max_bad_steps): stopped; earlier checkpoints are intact"
            )

    def _write(self, step, examples, ids, metrics):
        seconds = self._seconds() / self._steps
        c = self._phase.config
        figures = metrics | {
            "phase": self._phase.number,
            "examples": examples,
            "example_ids_crc32": zlib.crc32(ids.tobytes()),
            "step_seconds": seconds,
            "tokens_per_second": c.batch_size * c.length / seconds,
            "real_tokens_per_second": self._real_tokens / self._steps / seconds,
            "data_wait_seconds": (self._loader.wait_seconds - self._waited) / self._steps,
            "model_flops_per_second": self.step_flops / seconds,
            "mfu": self.step_flops / seconds / (self._peak * self._devices),
        }
        self._log.write("train", step, figures)
        left = (self._config.total_steps - step) * seconds
        self._log.say(
            f"step {step}/{self._config.total_steps}: loss {metrics['loss']:.4f}: {losses.in_words(metrics)}; "
            f"lr {metrics['learning_rate']:.3g}, "
            f"{figures['tokens_per_second']:,.0f} tokens/s, MFU {figures['mfu']:.0%}, {in_words(left)} left"
        )
