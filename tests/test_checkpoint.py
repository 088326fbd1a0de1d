"""A checkpoint comes back bit for bit, or the run says what is wrong with it and takes the one before."""

import contextlib
import gc
import re
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax import checkpoint
from bert_jax.checkpoint import Checkpoints, committed_steps, describe_difference, find_damage, read_record, resolve
from bert_jax.errors import UserError
from tests.e2e.conftest import contents, failing_saves

pytestmark = failing_saves


def state_at(step, width=8, layers=2):
    """A state of a training run in small, of numbers that depend on the step."""
    draw = np.random.default_rng(step)
    params = {
        "embeddings": {"word": {"embedding": draw.normal(size=(30, width)).astype(np.float32)}},
        "layers": {"bias": draw.normal(size=(layers, width)).astype(np.float32)},
    }
    moments = {name: jax.tree.map(lambda p: draw.normal(size=p.shape).astype(np.float32), params) for name in "mn"}
    opt_state = {"count": np.int32(step), "mu": moments["m"], "nu": moments["n"]}
    state = {"step": np.int32(step), "examples": np.uint32(8 * step), "params": params, "opt_state": opt_state}
    return jax.tree.map(jnp.asarray, state)


def record_at(step, loss=None, phase=1):
    return {"step": step, "phase": phase, "heldout_loss": loss}


def shapes_of(state):
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here), state)


def saved(workdir, *steps, keep=3, **record):
    with contextlib.closing(Checkpoints(workdir, keep)) as checkpoints:
        for step in steps:
            checkpoints.save(state_at(step), record_at(step, **record))
    return workdir / "checkpoints"


def opened(workdir):
    """(the newest intact step, what was said of the others)."""
    said = []
    with contextlib.closing(Checkpoints(workdir)) as checkpoints:
        return checkpoints.newest_intact(said.append), said


def assert_same(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert jax.tree.map(lambda x: x.dtype, found) == jax.tree.map(lambda x: x.dtype, expected)


@pytest.fixture(scope="module")
def _three(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("three"), 2, 4, 6).parent


@pytest.fixture
def three(_three, tmp_path):
    """A workdir with the checkpoints 2, 4 and 6."""
    return shutil.copytree(_three, tmp_path / "three")


def test_what_was_saved_comes_back_bit_for_bit(tmp_path):
    record = record_at(3, loss=1 / 3) | {"config": {"seed": 5}}
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        assert checkpoints.newest_intact(print) is None
        checkpoints.save(state_at(3), record)
        checkpoints.wait()
        assert checkpoints.newest_intact(print) == 3
        assert_same(checkpoints.restore(3, shapes_of(state_at(0))), state_at(3))
    folder = tmp_path / "checkpoints" / "3"
    assert read_record(folder) == record
    assert_same(checkpoint.restore_params(folder), state_at(3)["params"])


def test_training_may_overwrite_the_state_while_it_is_saved(tmp_path):
    """The next step takes over the state's buffers as soon as `save` returns."""
    big = jax.tree.map(lambda x: jnp.tile(x, (1,) * (x.ndim - 1) + (20_000,)) if x.ndim else x, state_at(1))
    expected = jax.tree.map(np.array, big)
    overwrite = jax.jit(lambda s: jax.tree.map(lambda x: x * 0 + 7, s), donate_argnums=0)
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(big, record_at(1))
        jax.block_until_ready(overwrite(big))
        checkpoints.wait()
        assert_same(checkpoints.restore(1, shapes_of(expected)), expected)


@pytest.mark.parametrize("rows", [24, 37])
def test_rows_can_be_cut_and_added_where_that_is_allowed(tmp_path, rows):
    """The optimizer's moments too; all else comes back as it was, and still has to fit."""
    words = r"(.*/)?embeddings/word/embedding"

    def resized(leaf):
        is_words = leaf.shape == (30, 8)
        return jnp.pad(leaf[:rows], ((0, max(0, rows - 30)), (0, 0))) if is_words else leaf

    expected = jax.tree.map(resized, state_at(2))
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(state_at(2), record_at(2))
        checkpoints.wait()
        assert_same(checkpoints.restore(2, shapes_of(expected), words), expected)
        assert_same(checkpoints.restore(2, shapes_of(state_at(0)), words), state_at(2))
        with pytest.raises(UserError, match=rf"embeddings.word.embedding float32\[30, 8\] -> float32\[{rows}, 8\]"):
            checkpoints.restore(2, shapes_of(expected))
        for other in (state_at(2, width=4), state_at(2, layers=3)):
            with pytest.raises(UserError, match="does not fit this run"):
                checkpoints.restore(2, shapes_of(other), words)


def test_a_relative_workdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(Checkpoints("run")) as checkpoints:
        checkpoints.save(state_at(1), record_at(1))
    assert committed_steps("run/checkpoints") == [1]
    assert_same(checkpoint.restore_params("run/checkpoints/1"), state_at(1)["params"])


def test_a_flipped_bit_in_any_file_is_found_and_the_one_before_is_taken(three):
    """Also in the manifest. Orbax alone restores most of these silently wrong (DESIGN section 10)."""
    newest = three / "checkpoints" / "6"
    files = [path for path in newest.rglob("*") if path.is_file()]
    assert {"params", "optimizer", "manifest.json", "_CHECKPOINT_METADATA"} <= {path.name for path in newest.iterdir()}
    draw = np.random.default_rng(0)
    for path in files:
        if not (whole := path.read_bytes()):
            continue
        damaged = bytearray(whole)
        damaged[draw.integers(len(whole))] ^= 1 << draw.integers(8)
        path.write_bytes(damaged)
        step, said = opened(three)
        name = str(path.relative_to(newest))
        assert (step, len(said)) == (4, 1) and said[0].startswith("checkpoint 6: ") and name in said[0], said
        path.write_bytes(whole)
    assert opened(three) == (6, [])


@pytest.mark.parametrize("how", ["truncated", "missing", "empty manifest"])
def test_a_torn_checkpoint_is_found(three, how):
    newest = three / "checkpoints" / "6"
    data = max((newest / "params").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    if how == "truncated":
        data.write_bytes(data.read_bytes()[:-1])
    elif how == "missing":
        data.unlink()
    else:
        (newest / "manifest.json").write_text("")
    before = contents(three)
    step, said = opened(three)
    assert step == 4 and len(said) == 1 and "trying the one before it" in said[0]
    assert contents(three) == before


def test_where_all_are_damaged_nothing_is_deleted(three):
    for step in (2, 4, 6):
        (three / "checkpoints" / str(step) / "params" / "_METADATA").write_bytes(b"{}")
    before = contents(three)
    with contextlib.closing(Checkpoints(three)) as checkpoints:
        with pytest.raises(UserError, match="no checkpoint there is intact; move the folder away"):
            checkpoints.newest_intact(print)
    assert contents(three) == before


def test_a_folder_without_manifest_is_neither_used_nor_deleted(three):
    """That of a run that was killed between the data and the manifest; what is in its way is moved aside."""
    (three / "checkpoints" / "6" / "manifest.json").unlink()
    before = contents(three / "checkpoints" / "6")
    step, said = opened(three)
    assert step == 4 and said == ["checkpoint 6: its save was not finished; not used"]
    saved(three, 6)
    assert opened(three) == (6, [])
    assert contents(three / "checkpoints" / "6.aside1") == before


def test_what_a_killed_save_left_is_removed(three):
    unfinished = three / "checkpoints" / "8.orbax-checkpoint-tmp"
    shutil.copytree(three / "checkpoints" / "6", unfinished)
    assert opened(three) == (6, []) and not unfinished.exists()


def test_a_copy_elsewhere_is_as_good(three, tmp_path):
    """Case D8: neither taken for unfinished and deleted, nor refused."""
    copy = tmp_path / "elsewhere" / "run"
    shutil.copytree(three, copy, copy_function=shutil.copyfile)
    before = contents(copy)
    with contextlib.closing(Checkpoints(copy)) as checkpoints:
        assert checkpoints.newest_intact(print) == 6
        assert_same(checkpoints.restore(6, shapes_of(state_at(0))), state_at(6))
    assert contents(copy) == before


def test_the_newest_and_the_best_are_kept(tmp_path):
    losses = {1: 5.0, 2: 3.0, 3: 4.0, 4: None, 5: 3.5, 6: 3.25}
    with contextlib.closing(Checkpoints(tmp_path, keep=2)) as checkpoints:
        for step, loss in losses.items():
            checkpoints.save(state_at(step), record_at(step, loss))
            checkpoints.wait()
            if step == 3:
                assert committed_steps(tmp_path / "checkpoints") == [2, 3]
    assert committed_steps(tmp_path / "checkpoints") == [2, 5, 6]


def test_the_best_is_that_of_the_phase(tmp_path):
    """Losses at another length do not compare: the low one of phase 1 does not count in phase 2."""
    with contextlib.closing(Checkpoints(tmp_path, keep=1)) as checkpoints:
        for step, loss, phase in [(1, 1.0, 1), (2, 3.0, 2), (3, 4.0, 2), (4, 5.0, 2)]:
            checkpoints.save(state_at(step), record_at(step, loss, phase))
    assert committed_steps(tmp_path / "checkpoints") == [2, 4]


def test_a_damaged_manifest_of_an_old_checkpoint_does_not_stop_the_run(three):
    """Nor is it deleted: what it held is not known."""
    (three / "checkpoints" / "2" / "manifest.json").write_text("{")
    saved(three, 8, 10, keep=2)
    assert committed_steps(three / "checkpoints") == [2, 8, 10]


def test_a_checkpoint_that_does_not_fit_is_refused(three, monkeypatch):
    """Case E8: a shape, a dtype or a name that is another one, in one line, before anything is read."""
    word, bias = "params.embeddings.word.embedding", "params.layers.bias"
    more, fewer, other = (shapes_of(state_at(0)) for _ in range(3))
    more["params"]["extra"] = more["params"]["layers"]["bias"]
    del fewer["params"]["layers"]
    other["params"]["layers"]["bias"] = jax.ShapeDtypeStruct((2, 8), jnp.bfloat16)
    refused = [
        (shapes_of(state_at(0, layers=3)), f"{bias} float32[2, 8] -> float32[3, 8], optimizer.opt_state.mu"),
        (shapes_of(state_at(0, width=16)), f"{word} float32[30, 8] -> float32[30, 16], {bias} float32[2, 8] -> float"),
        (more, "params.extra None -> float32[2, 8]"),
        (fewer, f"{bias} float32[2, 8] -> None"),
        (other, f"{bias} float32[2, 8] -> bfloat16[2, 8]"),
    ]
    with contextlib.closing(Checkpoints(three)) as checkpoints:
        monkeypatch.setattr(checkpoints._orbax, "restore", lambda *args, **kwargs: pytest.fail("arrays were read"))
        for wanted, difference in refused:
            with pytest.raises(UserError, match=re.escape(difference)) as caught:
                checkpoints.restore(6, wanted)
            assert str(caught.value).startswith(f"checkpoint {three / 'checkpoints' / '6'} does not fit this run: ")


def test_a_failed_save_in_the_background_stops_the_run(tmp_path, request):
    """Case D7: the folder is replaced by a file while the run goes on."""
    request.addfinalizer(gc.collect)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state_at(1), record_at(1))
    checkpoints.wait()
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(UserError, match=r"cannot write checkpoint .*2") as caught:
        checkpoints.save(state_at(2), record_at(2))
        checkpoints.wait()
    assert "\n" not in str(caught.value)


def test_check_raises_only_what_has_failed(tmp_path, monkeypatch):
    def fail(folder, record):
        raise OSError(5, "Input/output error")

    checkpoints = Checkpoints(tmp_path)
    checkpoints.check()
    monkeypatch.setattr(checkpoint, "_write_manifest", fail)
    checkpoints.save(state_at(1), record_at(1))
    checkpoints._pending.exception()  # waits, and keeps it
    with pytest.raises(UserError, match=r"cannot write checkpoint .*1: .*Input/output error"):
        checkpoints.check()
    checkpoints.check()  # told once
    checkpoints.close()
    assert committed_steps(tmp_path / "checkpoints") == []


@pytest.mark.parametrize("noticed", ["before", "in the middle"])
def test_a_full_disk(small_disk, monkeypatch, noticed):
    """The checkpoint before it stays as good as it was."""
    if noticed == "in the middle":  # the room is gone between the check and the write
        monkeypatch.setattr(checkpoint, "_check_room", lambda *arguments: None)
    checkpoints = Checkpoints(small_disk)
    checkpoints.save(state_at(1), record_at(1))
    checkpoints.wait()
    filled = small_disk / "filling"
    with contextlib.suppress(OSError):
        filled.write_bytes(bytes(8 << 20))
    with pytest.raises(UserError, match=r"cannot write checkpoint .*: No space left on device") as caught:
        checkpoints.save(state_at(2), record_at(2))
        checkpoints.wait()
    assert "\n" not in str(caught.value)
    filled.unlink()
    assert opened(small_disk)[0] == 1


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"no small file system: {mount.stderr.strip()}")
    yield folder
    gc.collect()
    subprocess.run(["umount", folder], check=True)


def test_a_checkpoint_is_named_by_run_or_folder_or_step(three):
    newest = three / "checkpoints" / "6"
    for path in (three, three / "checkpoints", newest):
        run, step = resolve(path)
        assert (str(run), str(step)) == (str(three), str(newest))
    assert str(resolve(three / "checkpoints" / "2")[1]) == str(three / "checkpoints" / "2")


def test_a_name_that_holds_no_checkpoint(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        resolve(tmp_path / "nowhere")
    with pytest.raises(UserError, match="found no checkpoint there"):
        resolve(tmp_path)


def test_damaged_parameters_are_not_loaded(three):
    folder = three / "checkpoints" / "6"
    (folder / "params" / "_METADATA").unlink()
    assert "_METADATA is missing" in find_damage(folder)
    with pytest.raises(UserError, match=r"_METADATA is missing"):
        checkpoint.restore_params(folder)


def test_differences_are_told_by_path():
    saved, wanted = {"layers": 2, "a": {"b": 1, "c": 2}}, {"layers": 3, "a": {"b": 1, "d": 2}}
    assert describe_difference(saved, wanted) == "layers 2 -> 3, a.c 2 -> None, a.d None -> 2"
    assert describe_difference(saved, saved) == ""
    many = describe_difference(dict.fromkeys("abcdefghijkl", 1), dict.fromkeys("abcdefghijkl", 2))
    assert many.startswith("a 1 -> 2, b 1 -> 2, ") and many.endswith(", j 1 -> 2, and 2 more")
