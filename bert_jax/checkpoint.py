"""Save, verify, restore: Orbax writes the arrays, a manifest of sha256 says that they are whole.

A checkpoint is the folder `checkpoints/<step>` with the items `params` and `optimizer` and, written last, the file
`manifest.json`: its presence is the commit, its hashes are checked before anything is restored (Orbax alone restores
a flipped bit without a word). Nothing that could hold training is ever deleted except by the retention rule: what
stands in the way of a save is moved aside.
"""

import concurrent.futures
import hashlib
import json
import logging
import re
import shutil

import jax
import orbax.checkpoint as ocp
from etils import epath
from jax.experimental import multihost_utils

from bert_jax.errors import UserError

MANIFEST = "manifest.json"
BEST = "best"  # in the folder of a fine-tuning run: a folder of the same kind with its best weights alone
FORMAT = 1
_ITEMS = ("params", "optimizer")

# What a checkpoint takes besides its arrays: Orbax's tables, and file system blocks that are not full.
OVERHEAD_BYTES = 1 << 20

# Orbax tells each step of its own work, and of an error all tracebacks; the errors themselves are raised too.
for _name in ("absl", "asyncio"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class Checkpoints:
    """The checkpoints of one run: asynchronous saves, the newest `keep` kept and the best by held-out loss."""

    def __init__(self, workdir, keep=3):
        self.folder = _absolute(workdir) / "checkpoints"
        self.keep = keep
        # Folders are made before `save` returns: where Orbax fails to make them in the background, threads of it wait
        # for them, and Python for these threads when it ends, for 20 minutes.
        options = ocp.AsyncOptions(create_directories_asynchronously=False)
        handler = ocp.CompositeCheckpointHandler(*_ITEMS, composite_options=ocp.CompositeOptions(async_options=options))
        self._orbax = ocp.AsyncCheckpointer(handler, async_options=options)
        self._executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending = None
        if jax.process_index() == 0:
            with _writing(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                for unfinished in self.folder.glob("*.orbax-checkpoint-tmp*"):
                    unfinished.rmtree()  # of a save that was killed; Orbax renames it when it is whole

    def save(self, state, record):
        """Starts a save of `state` and of `record` (JSON) under its step; training may go on when this returns.

        Raises UserError if an earlier save failed, naming the reason, or if the disk has no room for this one.
        """
        self.wait()
        folder = self.folder / str(record["step"])
        if jax.process_index() == 0:
            with _writing(folder):
                _check_room(folder, sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
                if folder.exists():
                    _move_aside(folder)
        optimizer = {"opt_state": state["opt_state"], "step": state["step"], "examples": state["examples"]}
        items = ocp.args.Composite(
            params=ocp.args.StandardSave(state["params"]), optimizer=ocp.args.StandardSave(optimizer)
        )
        with _writing(folder):
            self._orbax.save(folder, items)
        self._pending = self._executor.submit(self._commit, folder, record)

    def check(self):
        """Raises the error of a failed background save, if there is one."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self):
        """Waits for the save under way, if any. Raises UserError if it failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self):
        self.wait()
        self._orbax.close()
        self._executor.shutdown()

    def _commit(self, folder, record):
        with _writing(folder):
            self._orbax.wait_until_finished()  # after this the data of every process is in place
            if jax.process_index() == 0:
                _write_manifest(folder, record)
                self._retire()

    def _retire(self):
        """Deletes what is neither among the newest nor the best; the manifest first, so that no half looks whole.

        One whose manifest is damaged does not count and stays: what it was is not known.
        """
        manifests = {step: _read_manifest(self.folder / str(step)) for step in committed_steps(self.folder)}
        records = {step: body["record"] for step, body in manifests.items() if body is not None}
        kept = set(sorted(records)[-self.keep :])
        phase = max(record["phase"] for record in records.values())  # losses of two phases do not compare
        scored = [
            (record["heldout_loss"], step)
            for step, record in records.items()
            if record["phase"] == phase and record["heldout_loss"] is not None
        ]
        if scored:
            kept.add(min(scored)[1])
        for step in set(records) - kept:
            (self.folder / str(step) / MANIFEST).unlink()
            (self.folder / str(step)).rmtree()

    def newest_intact(self, log):
        """The step of the newest checkpoint whose files equal its manifest; None where none was ever committed.

        Each damaged one is told by `log`. Raises UserError when all are damaged: starting over is the user's to say.
        """
        step = -1
        if jax.process_index() == 0:
            step = self._newest_intact_here(log)
        step = int(multihost_utils.broadcast_one_to_all(step))
        if step == -2:
            raise UserError(f"{self.folder}: no checkpoint there is intact; move the folder away to start from scratch")
        return None if step == -1 else step

    def _newest_intact_here(self, log):
        steps = committed_steps(self.folder)
        for path in self.folder.iterdir():
            if path.name.isdigit() and int(path.name) not in steps:
                log(f"checkpoint {path.name}: its save was not finished; not used")
        for step in reversed(steps):
            damage = find_damage(self.folder / str(step))
            if damage is None:
                return step
            log(f"checkpoint {step}: {damage}; trying the one before it")
        return -2 if steps else -1

    def restore(self, step, shapes, resizable=None):
        """The state saved at `step`; `shapes` is the state as ShapeDtypeStructs with the shardings wanted now.

        The device count may differ from the one that saved. Arrays whose path matches the regex `resizable` may have
        another number of rows: then the last ones are cut off, or rows of 0 are added. Raises UserError where the trees
        do not fit.
        """
        folder = self.folder / str(step)
        if not (folder / "optimizer").exists():
            raise UserError(
                f"checkpoint {folder} holds weights alone and cannot be resumed: start from it in another folder, "
                f"--config.init_from={folder.parent.parent}"
            )
        optimizer = {name: shapes[name] for name in ("opt_state", "step", "examples")}
        wanted = {"params": shapes["params"], "optimizer": optimizer}
        _check_fit(folder, wanted, resizable)
        # What is not strict cuts and pads any array: `_check_fit` has seen to it that these alone differ.
        items = {name: ocp.args.StandardRestore(tree, strict=resizable is None) for name, tree in wanted.items()}
        restored = self._orbax.restore(folder, args=ocp.args.Composite(**items))
        return {"params": restored["params"], **restored["optimizer"]}


def save_weights(workdir, params, record):
    """Writes a checkpoint of parameters alone, workdir/checkpoints/<record["step"]>: `restore_params` reads it, and no
    training resumes from it. The folder must not exist; it is there whole or not at all."""
    folder = _absolute(workdir) / "checkpoints" / str(record["step"])
    partial = folder.with_name(folder.name + ".partial")
    with _writing(folder):
        if partial.exists():
            partial.rmtree()
        partial.mkdir(parents=True)
        with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as writer:
            writer.save(partial / "params", args=ocp.args.StandardSave(params))
        _write_manifest(partial, record)
        partial.rename(folder)


def restore_params(folder):
    """The parameters alone of the checkpoint in `folder` (a step's): a nested dict on this process's first device."""
    damage = find_damage(folder)
    if damage:
        raise UserError(f"checkpoint {folder}: {damage}")
    here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
        saved = _saved_shapes(reader, folder, "params")
        # Without a place to put them Orbax looks for the devices that they were saved from.
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here), saved)
        return reader.restore(_absolute(folder) / "params", args=ocp.args.StandardRestore(shapes))


def _saved_shapes(reader, folder, item):
    """The tree of one item of a checkpoint, of leaves with `shape` and `dtype`; reads no array."""
    return reader.metadata(_absolute(folder) / item).item_metadata.tree


def _check_fit(folder, wanted, resizable):
    """Raises UserError where the saved trees differ from the wanted ones in a name, shape or dtype, but for the rows of
    what is resizable.

    Orbax finds out in the middle of reading, with a page of tracebacks.
    """
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
        saved = {name: _saved_shapes(reader, folder, name) for name in wanted}

    def in_words(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        any_rows = resizable is not None and re.fullmatch(resizable, name)
        return f"{leaf.dtype}{['rows', *leaf.shape[1:]] if any_rows else list(leaf.shape)}"

    told = (
        {name: jax.tree_util.tree_map_with_path(in_words, tree[name]) for name in wanted} for tree in (saved, wanted)
    )
    differences = describe_difference(*told)
    if differences:
        raise UserError(f"checkpoint {folder} does not fit this run: {differences}")


def _absolute(path):
    """Orbax takes no relative path; a bucket's is absolute as it is."""
    return epath.Path(path) if "://" in str(path) else epath.Path(path).absolute()


def committed_steps(folder):
    """Steps with a manifest, ascending."""
    folder = epath.Path(folder)
    if not folder.is_dir():
        return []
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit() and (p / MANIFEST).exists())


def read_record(folder):
    """The JSON record that was saved with a checkpoint; UserError if its manifest is damaged."""
    body = _read_manifest(folder)
    if body is None:
        raise UserError(f"checkpoint {folder}: {MANIFEST} is damaged")
    return body["record"]


def find_damage(folder):
    """What differs between a checkpoint's files and its manifest, in words; None for an intact one."""
    folder = epath.Path(folder)
    body = _read_manifest(folder)
    if body is None:
        return f"{MANIFEST} is missing or damaged"
    present = {str(path.relative_to(folder)) for path in _files(folder)}
    for name, digest in body["files"].items():
        if name not in present:
            return f"the file {name} is missing"
        if _sha256(folder / name) != digest:
            return f"the file {name} differs from its manifest"
    return None


def is_run(folder):
    """Whether a folder is a run's workdir, its `checkpoints`, or one of its checkpoints."""
    folder = epath.Path(folder)
    inside = any((folder / name / "checkpoints").is_dir() for name in ("", BEST))
    return inside or folder.name == "checkpoints" or (folder / MANIFEST).exists()


def resolve(path):
    """The (run folder, step folder) that `--checkpoint=PATH` names: a run, its `checkpoints`, or one step of it.

    Of a run that chose its best weights (fine-tuning) these, in its folder BEST; else the newest checkpoint.
    """
    path = epath.Path(path)
    if not path.exists():
        raise UserError(f"--checkpoint {path}: no such folder")
    if (path / MANIFEST).exists():
        return path.parent.parent, path
    if (path / BEST / "checkpoints").is_dir():
        path = path / BEST
    checkpoints = path if path.name == "checkpoints" else path / "checkpoints"
    steps = committed_steps(checkpoints)
    if not steps:
        raise UserError(
            f"--checkpoint {path}: found no checkpoint there; expected a run's workdir, one of its steps, "
            f"or a Hugging Face folder"
        )
    return checkpoints.parent, checkpoints / str(steps[-1])


def describe_difference(saved, wanted):
    """How two settings (nested dicts) differ: "layers 12 -> 24, ..."; empty where they are equal.

    What is on one side only reads None on the other; of many differences the first ten are told.
    """
    flat_saved, flat_wanted = (dict(_flatten(settings)) for settings in (saved, wanted))
    names = [name for name in {**flat_saved, **flat_wanted} if flat_saved.get(name) != flat_wanted.get(name)]
    told = [f"{name} {flat_saved.get(name)} -> {flat_wanted.get(name)}" for name in names[:10]]
    return ", ".join(told + [f"and {len(names) - 10} more"] * (len(names) > 10))


def _flatten(settings, prefix=""):
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _write_manifest(folder, record):
    files = {str(path.relative_to(folder)): _sha256(path) for path in _files(folder)}
    body = {"format": FORMAT, "record": record, "files": files}
    text = json.dumps({"body": body, "sha256": _digest(body)}, indent=1)
    partial = folder / (MANIFEST + ".partial")
    partial.write_text(text)
    partial.replace(folder / MANIFEST)


def _read_manifest(folder):
    try:
        manifest = json.loads((epath.Path(folder) / MANIFEST).read_text())
        return manifest["body"] if _digest(manifest["body"]) == manifest["sha256"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(body):
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def _files(folder):
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path)
        elif not path.name.startswith(MANIFEST):
            yield path


def _check_room(folder, n_bytes):
    """Refuses a save that the disk has no room for. Orbax finds out in the middle, with a page of tracebacks."""
    if "://" in str(folder):
        return
    needed, free = n_bytes + OVERHEAD_BYTES, shutil.disk_usage(folder.parent).free
    if free < needed:
        raise UserError(
            f"cannot write checkpoint {folder}: No space left on device: "
            f"{needed / 2**20:,.1f} MiB needed, {free / 2**20:,.1f} MiB free"
        )


def _move_aside(folder):
    taken = [path.name for path in folder.parent.iterdir()]
    number = next(n for n in range(1, len(taken) + 2) if f"{folder.name}.aside{n}" not in taken)
    folder.rename(folder.parent / f"{folder.name}.aside{number}")


class _writing:
    """Turns a failed write into one line that names the folder and the reason."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, UserError):
            return  # told already
        # TensorStore reports the system's error as a ValueError with the reason in words.
        reason = error and re.search(r"No space left on device|Read-only file system|Permission denied", str(error))
        if error is not None and (reason or isinstance(error, OSError)):
            raise UserError(f"cannot write checkpoint {self.folder}: {reason[0] if reason else error}") from error
