"""The pretraining loop, top to bottom.

How a run starts:
1. resume: `workdir` holds an intact checkpoint; weights, moments, step and data position go on, on any mesh.
2. from weights: it holds none, and the config names a model to go on from (`initial.py`); step 0 of a new schedule.
3. from scratch: neither; weights are drawn from the seed.
"""

import contextlib
import dataclasses
import json
import threading
import time

import jax
import numpy as np
from etils import epath
from jax.experimental import multihost_utils

from bert_jax import losses, parallel
from bert_jax import step as steps
from bert_jax.checkpoint import Checkpoints, describe_difference, read_record
from bert_jax.data.loader import Loader
from bert_jax.data.masking import cap_warning
from bert_jax.errors import Preempted, UserError
from bert_jax.evaluate import compile_eval_step, evaluate, heldout_size
from bert_jax.initial import initial_params
from bert_jax.meter import Meter
from bert_jax.model.heads import PADDED_ROWS, parameter_count
from bert_jax.model.presets import EncoderConfig
from bert_jax.phases import fingerprint, open_phases
from bert_jax.runlog import RunLog
from bert_jax.text.tokenizer import load_tokenizer


@dataclasses.dataclass
class Progress:
    """What the host knows of a run; saved with each checkpoint, so that a resumed run knows it too."""

    step: int = 0  # optimizer updates made
    examples: int = 0  # examples consumed
    phase_starts: list[int] = dataclasses.field(default_factory=list)  # examples consumed when each phase began
    bad_streak: int = 0  # steps in a row, up to this one, that were not finite
    heldout_loss: float | None = None  # of an evaluation at this very step
    best_loss: float | None = None  # the lowest held-out loss of this phase


def train(config, workdir, *, stop=None, profile=None):
    """Runs or resumes a pretraining run to its last step; returns the held-out metrics at the end.

    config: PretrainConfig. stop: a threading.Event; once set, the run saves and raises Preempted. profile: (first
    step, steps) to trace. Raises UserError for a mistake in data, config or workdir, with nothing written over.
    """
    try:
        run = Run(config, workdir, stop or threading.Event(), profile)
        try:
            return run.to_the_end()
        finally:
            run.close()
    except OSError as error:  # a full disk, say
        raise UserError(f"{error.filename or workdir}: {error.strerror or error}") from error


class Run:
    """One process's part in a run."""

    def __init__(self, config, workdir, stop, profile):
        self.config, self.workdir, self.stop, self.profile = config, epath.Path(workdir), stop, profile
        parallel.check_platform(config.platform)
        self.mesh = parallel.make_mesh(config.mesh)
        self.phases = open_phases(config, self.mesh)
        self.shapes = jax.eval_shape(lambda: steps.init_state(config))
        self.shardings = parallel.state_shardings(self.shapes, self.mesh)
        _probe_writable(self.workdir)
        self.log = RunLog(workdir)
        self.checkpoints = Checkpoints(workdir, config.keep_checkpoints)
        self.progress = Progress()
        self._tracing = False
        self.state = self._start()

    # How it starts.

    def _start(self):
        """The state to go on from, restored or drawn, laid out over the mesh."""
        parameters = parameter_count(self.config.model)
        mesh = " x ".join(f"{axis} {size}" for axis, size in self.mesh.shape.items())
        kind, processes = jax.devices()[0].device_kind, jax.process_count()
        self.log.say(f"{parameters:,} parameters on {self.mesh.size} x {kind} (mesh {mesh}), {processes} process(es)")
        step = self.checkpoints.newest_intact(self.log.say)
        if step is None:
            self.log.say(f"no checkpoint in {self.workdir}: starting from scratch with seed {self.config.seed}")
            self._save_inputs()
            self.log.start(0)
            return self._first_state()
        record = read_record(self.checkpoints.folder / str(step))
        self._check_same_run(record)
        self._save_inputs()
        self.progress = Progress(**{field.name: record[field.name] for field in dataclasses.fields(Progress)})
        self.progress.heldout_loss = None
        self.log.say(f"resuming after step {step} and {self.progress.examples:,} examples: weights, moments and data")
        self.log.start(step)
        wanted = jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            self.shapes,
            self.shardings,
        )
        return self.checkpoints.restore(step, wanted, resizable=PADDED_ROWS)

    def _first_state(self):
        if not self.config.init_from:
            return jax.jit(lambda: steps.init_state(self.config), out_shardings=self.shardings)()
        tokenizer = load_tokenizer(self.phases[0].data.tokenizer, fast=False)
        params = initial_params(self.config, tokenizer, self.log.say)
        return jax.device_put(steps.init_state(self.config, params), self.shardings)

    def _check_same_run(self, record):
        """Refuses a checkpoint of another architecture or data; says which other settings have changed."""
        saved, settings = record["config"], self._settings()
        different = describe_difference(_architecture(saved["model"]), _architecture(settings["model"]))
        if different:
            raise UserError(f"{self.workdir} holds a run of another architecture ({different}): use a new --workdir")
        for known, phase in zip(record["data"], self.phases, strict=False):
            if known != fingerprint(phase.data):
                raise UserError(f"{phase.data.path} is not the data of the run in {self.workdir}: use a new --workdir")
        changed = describe_difference(saved, settings)
        if changed:
            self.log.say(f"settings changed since that checkpoint: {changed}")

    def _settings(self):
        """The config as it reads back from JSON."""
        return json.loads(json.dumps(dataclasses.asdict(self.config)))

    def _save_inputs(self):
        """Puts beside the checkpoints what is needed to use them."""
        if jax.process_index() == 0:
            load_tokenizer(self.phases[0].data.tokenizer, fast=False).save(self.workdir / "tokenizer")
            (self.workdir / "config.json").write_text(json.dumps(self._settings(), indent=1) + "\n")

    # The phases.

    def to_the_end(self):
        heldout = None
        for phase in self.phases:
            if self.progress.step < phase.end_step:
                heldout = self._run_phase(phase)
        if heldout is None:
            self.log.say(f"all {self.config.total_steps} steps are done")
            phase = self.phases[-1]
            heldout = self._evaluate(phase, self._compile_eval(phase), write=False)  # its last step wrote the line
        return heldout

    def _run_phase(self, phase):
        """Makes what is left of a phase; returns the held-out metrics at its end."""
        if len(self.progress.phase_starts) < phase.number:
            self.progress.phase_starts.append(self.progress.examples)
            self.progress.best_loss = None  # losses at another length or on other data do not compare
        phase_start = self.progress.phase_starts[phase.number - 1]
        loader = Loader(
            phase.data,
            phase.config.batch_size,
            parallel.batch_sharding(self.mesh),
            seed=self.config.seed,
            start_examples=self.progress.examples - phase_start,
            vocab_size=self.config.model.vocab_size,
        )
        c = phase.config
        self.log.say(f"phase {phase.number}: to step {phase.end_step}, batches of {c.batch_size} x {c.length}")
        self.log.say(f"phase {phase.number}: {loader.summary}")
        if warning := cap_warning(c.masking, c.length):
            self.log.say(f"phase {phase.number}: {warning}")
        with contextlib.closing(loader):
            batch, _ = next(loader)
            train_step, eval_step = self._compile_train(phase, batch), self._compile_eval(phase)
            meter = Meter(self.config, phase, phase_start, loader, self.log, self.progress, self.mesh)
            return self._loop(phase, batch, loader, train_step, eval_step, meter)

    def _compile_train(self, phase, batch):
        """The compiled train step. It takes over the buffers of the state that it is given."""
        function = jax.jit(
            steps.make_train_step(self.config, phase.config, phase.vocabulary),
            in_shardings=(self.shardings, parallel.batch_sharding(self.mesh)),
            out_shardings=(self.shardings, parallel.replicated(self.mesh)),
            donate_argnums=0,
        )
        started = time.perf_counter()
        compiled = function.lower(self.state, batch).compile()
        memory = compiled.memory_analysis()
        peak = memory.argument_size_in_bytes + memory.temp_size_in_bytes
        peak += memory.output_size_in_bytes - memory.alias_size_in_bytes
        self.log.say(
            f"train step compiled in {time.perf_counter() - started:.1f} s; "
            f"its peak memory is {peak / 2**30:.2f} GiB a device"
        )
        return compiled

    def _compile_eval(self, phase):
        return compile_eval_step(self.config, phase, self.state["params"], self.mesh)

    # The loop.

    def _loop(self, phase, batch, loader, train_step, eval_step, meter):
        """The order of operations matters. Step N is dispatched before the metrics of step N - 1 are read, so that the
        devices never wait for the host. Evaluation and save come when the metrics of all steps so far are written and
        before the next step takes over the state's buffers."""
        progress, config = self.progress, self.config
        unread, heldout = None, None
        while True:
            self._trace(progress.step)
            self.state, metrics = train_step(self.state, batch)
            progress.step += 1
            progress.examples += phase.config.batch_size
            if unread:
                meter.read(*unread)
            unread = progress.step, progress.examples, metrics
            ends, stops = progress.step == phase.end_step, self._agree_to_stop()
            evaluates = ends or progress.step % config.eval_every == 0
            saves = ends or stops or progress.step % config.checkpoint_every == 0
            if evaluates or saves:
                meter.read(*unread)
                unread = None
            if evaluates:
                heldout = self._evaluate(phase, eval_step)
                progress.heldout_loss = heldout["loss"]
                if progress.best_loss is None or heldout["loss"] < progress.best_loss:
                    progress.best_loss, saves = heldout["loss"], True
            if saves:
                self._save(phase)
            if evaluates or saves:
                progress.heldout_loss = None
                meter.open_window()
            if stops:
                self.checkpoints.wait()
                raise Preempted(f"saved after step {progress.step}; the same command resumes")
            if ends:
                return heldout
            self.checkpoints.check()
            batch, _ = next(loader)

    def _agree_to_stop(self):
        """Whether to stop after this step. Processes must agree, so several ask each other, but only now and then."""
        if jax.process_count() == 1:
            return self.stop.is_set()
        if self.progress.step % self.config.log_every:
            return False
        return bool(multihost_utils.process_allgather(np.array(self.stop.is_set())).any())

    def _save(self, phase):
        record = dataclasses.asdict(self.progress) | {
            "phase": phase.number,
            "config": self._settings(),
            "data": [fingerprint(phase.data) for phase in self.phases],
        }
        self.checkpoints.save(self.state, record)

    def _evaluate(self, phase, eval_step, write=True):
        metrics = evaluate(self.config, phase, self.state["params"], self.mesh, eval_step)
        size, step = heldout_size(self.config, phase.data), self.progress.step
        if write:
            self.log.write("heldout", step, metrics | {"examples": size, "phase": phase.number})
        self.log.say(
            f"step {step}: held-out loss {metrics['loss']:.4f} on {size:,} examples: {losses.in_words(metrics)}"
        )
        return metrics

    def _trace(self, step):
        """Starts or ends the profiler's trace, where one is asked for."""
        if self.profile and step == self.profile[0]:
            jax.profiler.start_trace(str(self.workdir / "profile"))
            self._tracing = True
        elif self._tracing and step == sum(self.profile):
            self._end_trace()

    def _end_trace(self):
        jax.block_until_ready(self.state)  # the last step may still run
        jax.profiler.stop_trace()
        self._tracing = False
        self.log.say(f"trace written to {self.workdir / 'profile'}")

    def close(self):
        try:
            if self._tracing:  # the run ended, or was stopped, within the steps to trace
                self._end_trace()
            self.checkpoints.close()
        finally:
            self.log.close()


def _architecture(model):
    """What of saved settings of a model its parameters depend on.

    Padded rows can be added and cut; a setting that an older version did not save has the default, under which all is
    as it was then.
    """
    settings = dataclasses.asdict(EncoderConfig()) | model
    return {name: value for name, value in settings.items() if name != "vocab_multiple"}


def _probe_writable(workdir):
    """Makes the folder and writes to it, so that a run does not learn hours later that it cannot.

    Raises UserError where that fails, or where several processes do not see the same folder.
    """
    probes = [workdir / f".probe-{process}" for process in range(jax.process_count())]
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        probes[jax.process_index()].write_text("x" * 4096)
        shared = True
        if len(probes) > 1:
            multihost_utils.sync_global_devices("probes written")
            shared = all(probe.exists() for probe in probes)
            shared = multihost_utils.process_allgather(np.array(shared)).all()
        probes[jax.process_index()].unlink()
    except OSError as error:
        raise UserError(f"--workdir {workdir}: cannot write there: {error.strerror or error}") from error
    if not shared:
        raise UserError(f"--workdir {workdir}: some processes see another folder there; expected one that all share")
