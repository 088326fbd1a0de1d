"""The same run on any number of devices and processes: the same examples, and losses but for the order of sums."""

import shutil
import signal
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from bert_jax import step as steps
from bert_jax.checkpoint import Checkpoints, committed_steps
from tests.e2e.conftest import (
    REPOSITORY,
    Process,
    environment,
    finished_run,
    flags,
    metrics,
    pretrain,
    run_here,
    settings,
)

EXACT = ("split", "step", "phase", "examples", "example_ids_crc32", "learning_rate", "real_tokens")
CLOSE = ("loss", "mlm_loss", "nsp_loss", "gradient_norm", "parameter_norm")


def assert_same_but_for_rounding(workdir, expected=None):
    """Each line of metrics once, with the same examples; losses to float32's tolerance (dropout on: case C12)."""
    lines, others = metrics(workdir), metrics(expected or finished_run())
    assert len(lines) == len(others)
    for line, other in zip(lines, others, strict=True):
        assert [line.get(name) for name in EXACT] == [other.get(name) for name in EXACT]
        for name in CLOSE:
            if name in other:
                np.testing.assert_allclose(line[name], other[name], rtol=2e-5, err_msg=f"{name} of {other}")


def without_later_steps(workdir, step, copy):
    """A copy of a run as it was after that step."""
    shutil.copytree(workdir, copy)
    for later in committed_steps(copy / "checkpoints"):
        if later > step:
            shutil.rmtree(copy / "checkpoints" / str(later))
    return copy


def restored(workdir):
    """Parameters and optimizer state of the newest checkpoint, on the one device here."""
    shapes = jax.eval_shape(lambda: steps.init_state(settings()))
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    wanted = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here), shapes)
    checkpoints = Checkpoints(workdir)
    try:
        return checkpoints.restore(checkpoints.newest_intact(print), wanted)
    finally:
        checkpoints.close()


@pytest.fixture(scope="module")
def on_eight(tmp_path_factory):
    """The tiny run on a mesh of 2 x 2 x 2 devices."""
    workdir = tmp_path_factory.mktemp("eight")
    process = pretrain(workdir, *flags(mesh__data=2, mesh__fsdp=2, mesh__tensor=2), devices=8)
    assert "mesh data 2 x fsdp 2 x tensor 2" in process.out
    return workdir


def test_eight_devices_give_the_losses_of_one(on_eight):
    assert_same_but_for_rounding(on_eight)


def test_what_eight_devices_saved_goes_on_on_one(on_eight, tmp_path, capsys):
    """Case D4; and the checkpoint predicts here."""
    workdir = without_later_steps(on_eight, 4, tmp_path / "one")
    assert run_here("pretrain", *flags(), f"--workdir={workdir}") == 0
    assert "resuming after step 4 and 32 examples" in capsys.readouterr().out
    assert_same_but_for_rounding(workdir)
    assert run_here("predict", "--task=fill-mask", f"--checkpoint={on_eight}", "[MASK] ba") == 0


RESTORE = """
import sys
import jax, numpy as np
from bert_jax import config, parallel, step
from bert_jax.checkpoint import Checkpoints

workdir, out, *arguments = sys.argv[1:]
settings = config.load(arguments)
shapes = jax.eval_shape(lambda: step.init_state(settings))
checkpoints = Checkpoints(workdir)
for devices, sizes in [(8, (2, 2, 2)), (8, (1, 8, 1)), (4, (1, 2, 2)), (4, (4, 1, 1)), (2, (1, 2, 1)), (1, (1, 1, 1))]:
    mesh = parallel.make_mesh(parallel.MeshConfig(*sizes), jax.devices()[:devices])
    wanted = jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        parallel.state_shardings(shapes, mesh),
    )
    state = checkpoints.restore(checkpoints.newest_intact(print), wanted)
    assert all(len(leaf.sharding.device_set) == devices for leaf in jax.tree.leaves(state))
    np.savez(f"{out}/{'x'.join(map(str, sizes))}.npz", *(np.asarray(leaf) for leaf in jax.tree.leaves(state)))
checkpoints.close()
"""


def test_a_checkpoint_is_restored_bit_for_bit_on_any_mesh(on_eight, tmp_path):
    """Case D4: parameters and moments, saved on eight devices, on 8, 4, 2 and 1."""
    command = [sys.executable, "-c", RESTORE, on_eight, tmp_path, *flags()]
    subprocess.run(command, env=environment(8), cwd=REPOSITORY, check=True, timeout=300)
    expected = jax.tree.leaves(restored(on_eight))
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) == 6
    for file in files:
        with np.load(file) as found:
            for name, array in zip(found.files, expected, strict=True):
                np.testing.assert_array_equal(found[name], array, err_msg=file.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "mesh"),
    [
        (2, {}),
        (4, {"mesh__fsdp": 4}),
        (8, {}),
        (2, {"mesh__tensor": 2}),
        (8, {"mesh__data": 4, "mesh__tensor": 2, "compute__remat": "full"}),
    ],
)
def test_any_mesh_gives_the_losses_of_one_device(tmp_path, devices, mesh):
    pretrain(tmp_path, *flags(**mesh), devices=devices)
    assert_same_but_for_rounding(tmp_path)


# Several processes.


def started_together(workdirs, *arguments):
    """A Process for each workdir, of one run."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    group = [f"--coordinator=localhost:{port}", f"--processes={len(workdirs)}"]
    return [
        Process("pretrain", *arguments, *group, f"--process={number}", f"--workdir={workdir}")
        for number, workdir in enumerate(workdirs)
    ]


def statuses(processes):
    return [process.wait() for process in processes]


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """The tiny run by two processes; stopped, by a signal to one of them, and gone on with."""
    workdir = tmp_path_factory.mktemp("two")
    processes = started_together([workdir] * 2, *flags())
    processes[0].wait_for(lambda: "step 2/6" in processes[0].out)
    processes[1].popen.send_signal(signal.SIGTERM)
    assert set(statuses(processes)) <= {0, 75}
    if committed_steps(workdir / "checkpoints")[-1] < 6:
        processes = started_together([workdir] * 2, *flags())
        assert statuses(processes) == [0, 0], processes[0].out + processes[0].err + processes[1].err
    return workdir, processes


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one(of_two):
    """Cases D5, D10 and D11: written once, the same numbers, also of held-out text that the batch does not divide."""
    workdir, processes = of_two
    assert_same_but_for_rounding(workdir)
    assert "2 process(es)" in processes[0].out and "step" not in processes[1].out


@pytest.mark.slow
def test_one_process_goes_on_from_two(of_two, tmp_path, capsys):
    workdir = without_later_steps(of_two[0], 4, tmp_path / "one")
    assert run_here("pretrain", *flags(), f"--workdir={workdir}") == 0
    assert "resuming after step 4 and 32 examples" in capsys.readouterr().out
    assert_same_but_for_rounding(workdir)


@pytest.mark.slow
def test_two_processes_go_on_from_one(tmp_path):
    workdir = without_later_steps(finished_run(), 4, tmp_path / "two")
    processes = started_together([workdir] * 2, *flags())
    assert statuses(processes) == [0, 0], processes[0].out + processes[0].err
    assert "resuming after step 4 and 32 examples" in processes[0].out
    assert_same_but_for_rounding(workdir)


@pytest.mark.slow
def test_processes_that_see_different_folders_are_refused(tmp_path):
    """Case D6: before step 1, as half a checkpoint each would be none."""
    processes = started_together([tmp_path / "here", tmp_path / "there"], *flags())
    assert statuses(processes) == [2, 2], processes[0].err + processes[1].err
    assert all("some processes see another folder" in process.err for process in processes)
    assert not (tmp_path / "here" / "metrics.jsonl").exists()
