"""Model FLOPs by counting matrix products, and the peak they are held against.

Counted analytically because compilers count the body of a scan once and custom kernels never. A multiply-add is two
FLOPs; the backward pass costs twice the forward; recomputation (remat) is not model work and not counted.
"""

import time

import jax
import jax.numpy as jnp

# Peak dense bfloat16 FLOP/s a chip, by jax's device_kind; source: Google Cloud's TPU system architecture pages.
PEAK_FLOPS = {
    "TPU v3": 123e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v5p": 459e12,
    "TPU v6 lite": 918e12,
    "TPU v6e": 918e12,
}


def forward_flops(model, rows, length, predictions, pieces=1):
    """FLOPs of one forward pass of `rows` rows with the pretraining heads.

    `pieces`: slots of sentence labels in a packed row. Attention counts all length x length scores, in packed rows too:
    so many are computed. The vocabulary counts without padded rows, as those do no work for the model.
    """
    per_token = model.layers * (
        8 * model.hidden**2  # query, key, value, out
        + 4 * model.hidden * model.ffn
        + 4 * length * model.hidden  # scores and mixing
    )
    per_prediction = 2 * model.hidden**2 + 2 * model.hidden * model.vocab_size
    per_piece = 2 * model.hidden**2 + 4 * model.hidden if model.sentence_head != "none" else 0  # pooler, sentence head
    return rows * (length * per_token + predictions * per_prediction + pieces * per_piece)


def step_flops(model, rows, length, predictions, pieces=1):
    """FLOPs of one optimizer update: forward and backward."""
    return 3 * forward_flops(model, rows, length, predictions, pieces)


def peak_flops(device, size=1024, rounds=4):
    """(FLOP/s of one device, where that is from): the table's for a known TPU, else a measured float32 product."""
    if device.device_kind in PEAK_FLOPS:
        return PEAK_FLOPS[device.device_kind], "published bfloat16 peak"
    x = jax.device_put(jnp.ones((size, size), jnp.float32), device)
    product = jax.jit(jnp.matmul)
    product(x, x).block_until_ready()
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        product(x, x).block_until_ready()
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best, f"measured {size} x {size} float32 product"
