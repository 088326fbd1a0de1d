"""Held-out scores: every example once, always under the same masks, on any number of devices."""

import jax
import numpy as np

from bert_jax import losses, parallel
from bert_jax import step as steps
from bert_jax.data.loader import eval_batches


def compile_eval_step(config, phase, params, mesh):
    """The jitted evaluation step (params, batch, position) -> sums."""
    return jax.jit(
        steps.make_eval_step(config, phase.config, phase.vocabulary),
        in_shardings=(parallel.param_shardings(params, mesh), parallel.batch_sharding(mesh), None),
        out_shardings=parallel.replicated(mesh),
    )


def heldout_size(config, data):
    """How many held-out examples are scored."""
    size = data.size("validation")
    return min(size, config.eval_examples) if config.eval_examples else size


def evaluate(config, phase, params, mesh, eval_step):
    """Metrics (`losses.finish`, as floats) over the first `heldout_size` examples of the validation split."""
    batches = eval_batches(
        phase.data,
        config.eval_batch_size,
        parallel.batch_sharding(mesh),
        n_examples=heldout_size(config, phase.data),
        vocab_size=config.model.vocab_size,
    )
    sums = [eval_step(params, batch, np.uint32(position)) for batch, position in batches]
    # Added in double precision on the host: a float32 sum over a large split loses digits.
    totals = {name: np.float64(sum(float(one[name]) for one in jax.device_get(sums))) for name in sums[0]}
    return {name: float(value) for name, value in losses.finish(totals).items()}
