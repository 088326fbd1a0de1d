"""A shard that turns out corrupt in mid-run is named, and the run goes on from its checkpoint once that is mended."""

import shutil

import numpy as np

from bert_jax.data import storage
from bert_jax.errors import UserError
from tests.e2e.conftest import BATCH, flags, metrics, prepared, run_here

STEPS, SAVE_EVERY = 12, 4


def test_a_corrupt_shard_is_named_and_costs_no_checkpoint(tmp_path, capsys):
    data = shutil.copytree(prepared(), tmp_path / "data")
    shard = damage(data, first=BATCH * (SAVE_EVERY + 1), last=BATCH * STEPS)
    recipe = flags(checkpoint_every=SAVE_EVERY, phases__phase1__data=data, phases__phase1__steps=STEPS)
    capsys.readouterr()
    assert run_here("pretrain", *recipe, f"--workdir={tmp_path / 'run'}") == 2
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert shard.name in line and "record" in line and "corrupt shard" in line
    assert max(figures["step"] for figures in metrics(tmp_path / "run")) >= SAVE_EVERY
    shutil.copy(prepared() / shard.name, shard)
    assert run_here("pretrain", *recipe, f"--workdir={tmp_path / 'run'}") == 0
    assert "resuming after step" in capsys.readouterr().out
    assert max(figures["step"] for figures in metrics(tmp_path / "run")) == STEPS


def damage(data, first, last):
    """Changes bytes of a train shard so that the first example of the run that cannot be read is in [first, last)."""
    opened = storage.open_prepared(data)
    order = opened.order(np.arange(last), seed=0)
    for shard in opened.shards:
        if shard.split != "train":
            continue
        path = data / shard.name
        whole = path.read_bytes()
        for place in range(len(whole) // 4, len(whole), 997):
            path.write_bytes(
                whole[:place] + bytes(255 - byte for byte in whole[place : place + 8]) + whole[place + 8 :]
            )
            if first <= next((p for p, example in enumerate(order) if not readable(opened, example)), 0) < last:
                return path
        path.write_bytes(whole)
    raise AssertionError("no damage hits an example of the run")


def readable(opened, example):
    try:
        opened.reader("train").read([example])
    except UserError:
        return False
    return True
