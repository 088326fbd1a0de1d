"""The fine-tuning loop, top to bottom.

How a run starts:
1. resume: `workdir` holds an intact checkpoint; weights, moments, step and data position go on, on any mesh.
2. from scratch: it holds none; the encoder's weights are the checkpoint's, the head is drawn from the seed.

Whenever a score on the first held-out split is the best so far, the weights go to `workdir/best`, a model of its own.
"""

import dataclasses
import json
import threading
import time

import jax
import jax.numpy as jnp
from etils import epath

from bert_jax import parallel
from bert_jax.checkpoint import (
    BEST,
    Checkpoints,
    describe_difference,
    read_record,
    resolve,
    restore_params,
    save_weights,
)
from bert_jax.errors import Preempted, UserError
from bert_jax.randomness import Purpose, purpose_key
from bert_jax.runlog import RunLog, in_words
from bert_jax.schedules import make_schedule
from bert_jax.tasks import step as steps
from bert_jax.tasks.batches import epoch_batch, make_batcher, to_devices, training_examples
from bert_jax.tasks.load import load_task
from bert_jax.tasks.metrics import is_degenerate
from bert_jax.tasks.outputs import Forward

SUMMARY = "summary.json"


class Programs:
    """What is compiled once for all runs that differ in learning rate, epochs, seed and number of examples."""

    def __init__(self, config, model, task):
        """model: a models.Model. task: a Task whose texts fit it."""
        self.config, self.model, self.task = config, model, task
        self.architecture = training_architecture(config, model.config)
        self.mesh = parallel.make_mesh(config.mesh)
        for name in ("batch_size", "eval_batch_size"):
            parallel.check_batch(f"config.{name}", getattr(config, name), self.mesh)
        if config.length > model.config.max_positions:
            raise UserError(
                f"config.length is {config.length}: {model.path} has {model.config.max_positions} positions"
            )
        self.shapes = jax.eval_shape(lambda: self._init(model.params, 0))
        self.shardings = parallel.state_shardings(self.shapes, self.mesh)
        factors = steps.rate_factors(config, self.shapes["params"])
        step = steps.make_train_step(config, self.architecture, task.head, factors, task.loss)
        self.train_step = jax.jit(
            step, donate_argnums=0, out_shardings=(self.shardings, parallel.replicated(self.mesh))
        )
        ways = self.mesh.shape["data"] * self.mesh.shape["fsdp"]
        if "train" not in task.splits:
            raise UserError(f"{task.name}: there are no training examples in {config.task.data}")
        sizes = config.batch_size, ways, model.tokenizer.pad_id, model.config.max_positions
        self.batcher = make_batcher(task.head, task.splits["train"], *sizes)
        self.forward = Forward(
            config.compute, model.config, task.head, self.mesh, config.eval_batch_size, model.tokenizer.pad_id
        )

    def _init(self, params, seed):
        return steps.init_state(self.config, self._init_params(params, seed)[0])

    def _init_params(self, params, seed):
        task = self.task
        return steps.init_params(self.model.config, self.config.compute, task.head, params, seed, task.loss)

    def init_state(self, seed):
        """The state before the first update, laid out over the mesh; no part of it is shared with the model."""
        return jax.device_put(jax.tree.map(jnp.copy, self._init(self.model.params, seed)), self.shardings)

    def fresh_parts(self):
        """Names of the parts that are drawn anew."""
        return self._init_params(self.model.params, 0)[1]


def training_architecture(config, model):
    """The EncoderConfig with the dropout of the config, where it gives one."""
    if config.dropout == -1:
        return model
    return dataclasses.replace(model, dropout=config.dropout, attention_dropout=config.dropout)


@dataclasses.dataclass
class Progress:
    """What the host knows of a run; saved with each checkpoint."""

    step: int = 0  # updates made
    examples: int = 0  # examples consumed
    bad_streak: int = 0  # steps in a row, up to this one, that were not finite
    scores: dict = dataclasses.field(default_factory=dict)  # of the best weights: split -> figures
    best_step: int = -1
    loss_sum: float = 0.0  # of the training loss since the last evaluation
    loss_steps: int = 0
    loss: float | None = None  # its mean up to the last evaluation
    seconds: float = 0.0  # spent training and evaluating


def finetune(config, model, workdir, *, stop=None):
    """Fine-tunes a models.Model as the FinetuneConfig says, or goes on with it; returns the summary.

    stop: a threading.Event; once set, the run saves and raises Preempted. The best weights are in workdir/best, the
    summary (also summary.json) holds their scores, predictions/<split>.jsonl what they predict. Raises UserError for a
    mistake in data, config or workdir.
    """
    parallel.check_platform(config.platform)
    task = load_task(config.task, model.tokenizer, config.length)
    run = Run(config, Programs(config, model, task), workdir, stop or threading.Event())
    try:
        return run.to_the_end()
    finally:
        run.close()


class Run:
    """One run in its own folder. With `keeps_state` False it saves no checkpoints and cannot be resumed."""

    def __init__(self, config, programs, workdir, stop, keeps_state=True):
        self.config, self.programs, self.task = config, programs, programs.task
        self.workdir, self.stop = epath.Path(workdir), stop
        self.split = self.task.splits["train"]
        self.examples = training_examples(self.split, config.train_examples, config.seed)
        self.total_steps = config.total_steps(len(self.examples))
        self.schedule = make_schedule(config.schedule_of(len(self.examples)))
        self.dropout_key = purpose_key(config.seed, Purpose.DROPOUT)
        steps_an_epoch = self.total_steps // config.epochs
        self.eval_every = max(1, steps_an_epoch // config.evals_per_epoch)
        self.log, self.progress = RunLog(workdir), Progress()
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.checkpoints = Checkpoints(workdir, keep=1) if keeps_state else None
        self.state = self._start()

    # How it starts.

    def _start(self):
        task, model = self.task, self.programs.model
        self.log.say(f"{task.name}: {len(self.examples):,} training examples, {self.total_steps:,} updates")
        for remark in task.remarks:
            self.log.say(remark)
        for name, split in task.splits.items():
            if split.features.truncated:
                rows = len(split.features)
                self.log.say(
                    f"{name}: {split.features.truncated:,} of {rows:,} rows cut to {self.config.length} tokens"
                )
        step = self.checkpoints.newest_intact(self.log.say) if self.checkpoints else None
        if step is None:
            fresh = self.programs.fresh_parts()
            drawn = f"; drawn from seed {self.config.seed}: {', '.join(fresh)}" if fresh else ""
            self.log.say(f"encoder of {model.path}{drawn}")
            self._save_inputs()
            self.log.start(0)
            return self.programs.init_state(self.config.seed)
        record = read_record(self.checkpoints.folder / str(step))
        self._check_same_run(record)
        self.progress = Progress(**{field.name: record[field.name] for field in dataclasses.fields(Progress)})
        self.log.say(f"resuming after step {step} of {self.total_steps}")
        self.log.start(step)
        wanted = jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            self.programs.shapes,
            self.programs.shardings,
        )
        return self.checkpoints.restore(step, wanted)

    def _settings(self):
        """What the checkpoints of one run have in common, as it reads back from JSON."""
        settings = {
            "model": dataclasses.asdict(self.programs.model.config),
            "finetune": dataclasses.asdict(self.config),
            "examples": len(self.split),
        }
        return json.loads(json.dumps(settings))

    def _check_same_run(self, record):
        different = describe_difference(record["config"], self._settings())
        if different:
            raise UserError(f"{self.workdir} holds a run of other settings ({different}): use a new --workdir")

    def _save_inputs(self):
        self.programs.model.tokenizer.save(self.workdir / "tokenizer")
        (self.workdir / "config.json").write_text(json.dumps(self._settings(), indent=1) + "\n")

    # The loop.

    def to_the_end(self):
        progress = self.progress
        while progress.step < self.total_steps:
            self._to_next_evaluation()
            if self.stop.is_set() and progress.step < self.total_steps:
                if self.checkpoints:
                    self.checkpoints.wait()
                    raise Preempted(f"saved after step {progress.step}; the same command resumes")
                raise Preempted(f"stopped after step {progress.step}")
        return self._finish()

    def _to_next_evaluation(self):
        """Trains up to the next evaluation and makes it, or up to a stop; then saves. Step N is dispatched before the
        metrics of step N - 1 are read, so that the devices do not wait for the host."""
        progress, started, unread = self.progress, time.perf_counter(), None
        while True:
            batch, count = self._batch()
            rate = jnp.float32(self.schedule(progress.step))
            self.state, metrics = self.programs.train_step(self.state, batch, rate, self.dropout_key)
            progress.step, progress.examples = progress.step + 1, progress.examples + count
            if unread:
                self._read(*unread)
            unread = progress.step, metrics
            evaluates = progress.step % self.eval_every == 0 or progress.step == self.total_steps
            if evaluates or self.stop.is_set():
                break
        self._read(*unread)
        if evaluates:
            progress.loss = progress.loss_sum / progress.loss_steps if progress.loss_steps else float("nan")
            progress.loss_sum, progress.loss_steps = 0.0, 0
            self._evaluate()
        progress.seconds += time.perf_counter() - started
        if self.checkpoints:
            self.checkpoints.save(self.state, self._record())

    def _batch(self):
        config = self.config
        examples = epoch_batch(self.examples, self.progress.examples, config.batch_size, config.seed)
        batch = self.programs.batcher(examples)
        return to_devices(batch, parallel.batch_sharding(self.programs.mesh)), len(examples)

    def _read(self, step, metrics):
        """Writes the metrics of a step; raises UserError after too many bad steps in a row."""
        metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
        if metrics.pop("bad"):
            self.progress.bad_streak += 1
            self.log.say(f"step {step}: loss {metrics['loss']!r}: the update is skipped")
            if self.progress.bad_streak >= self.config.max_bad_steps:
                raise UserError(f"{self.progress.bad_streak} steps in a row up to step {step} were not finite: stopped")
        else:
            self.progress.bad_streak = 0
            self.progress.loss_sum += metrics["loss"]
            self.progress.loss_steps += 1
        self.log.write("train", step, metrics)
        if step % self.config.log_every == 0:
            self.log.say(
                f"step {step}/{self.total_steps}: loss {metrics['loss']:.4f}; lr {metrics['learning_rate']:.3g}"
            )

    def _evaluate(self):
        progress, scores = self.progress, {}
        for name in self.task.scored_splits():
            outputs = self.programs.forward(self.state["params"], self.task.splits[name])
            scores[name] = self.task.score(self.task.splits[name], outputs)
            self.log.write(name, progress.step, scores[name])
        self.log.say(f"step {progress.step}: training loss {progress.loss:.4f}; {scores_in_words(scores)}")
        # Where nothing is scored the last weights are the best.
        if not scores or progress.best_step < 0 or self._height(scores) > self._height(progress.scores):
            progress.best_step, progress.scores = progress.step, scores
            self._save_best()

    def _height(self, scores):
        """What the best weights are chosen by."""
        return next(iter(scores.values()))[self.task.main]

    def _save_best(self):
        """The new ones are there before the old ones go: of several steps the last is the best."""
        folder, step = self.workdir / BEST / "checkpoints", str(self.progress.step)
        if (folder / step).exists():  # of a run that was killed here, and went on from before
            (folder / step).rmtree()
        self.programs.model.tokenizer.save(self.workdir / BEST / "tokenizer")
        params = self.state["params"]
        if not self.task.head.outputs:  # what an embed head was trained through has no use afterwards
            params = {name: values for name, values in params.items() if name != "task"}
        save_weights(self.workdir / BEST, params, self._record())
        for path in folder.iterdir():
            if path.name != step:
                path.rmtree()

    def _record(self):
        head = dataclasses.asdict(self.task.head)
        return dataclasses.asdict(self.progress) | {
            "phase": 1,
            "heldout_loss": None,
            "config": self._settings(),
            "head": head,
            "task": self.task.name,
        }

    # The end.

    def _finish(self):
        """Scores and predicts with the best weights once more, from disk, and writes what came out."""
        if self.checkpoints:
            self.checkpoints.wait()
        params = restore_params(resolve(self.workdir)[1])
        params = jax.device_put(params, parallel.param_shardings(params, self.programs.mesh))
        scores, flags = {}, []
        for name, split in self.task.splits.items():
            if name == "train":
                continue
            outputs = self.programs.forward(params, split)
            if split.labels is not None:
                scores[name] = self.task.score(split, outputs)
                if self.task.head.kind == "classify" and is_degenerate(outputs.argmax(-1)):
                    flags.append(name)
            write_predictions(self.workdir / "predictions", name, self.task.predictions(split, outputs))
        progress = self.progress
        summary = {
            "task": self.task.name,
            "scores": scores,
            "main": self.task.main,
            "best_step": progress.best_step,
            "steps": self.total_steps,
            "train_examples": len(self.examples),
            "train_loss": progress.loss,
            "seconds": progress.seconds,
            "degenerate": flags,  # splits of which all examples get one label
        }
        (self.workdir / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n")
        self.log.say(f"best after step {progress.best_step}: {scores_in_words(scores)}; {in_words(progress.seconds)}")
        for name in flags:
            self.log.say(f"degenerate: every example of {name} gets the same label")
        return summary

    def close(self):
        try:
            if self.checkpoints:
                self.checkpoints.close()
        finally:
            self.log.close()


def write_predictions(folder, split, predictions):
    """Writes folder/<split>.jsonl, a line a prediction."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in predictions)
    (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")


def scores_in_words(scores):
    """The figures of each split as a line: "validation: accuracy 0.8500, f1 0.8000"."""
    return "; ".join(
        f"{name}: "
        + ", ".join(
            f"{metric} {value:.4f}" if isinstance(value, float) else f"{metric} {value}"
            for metric, value in figures.items()
        )
        for name, figures in scores.items()
    )
