"""Tokens a second of our train step against transformers + torch, same model and batch, in one process.

    JAX_PLATFORMS=cpu python benchmarks/train_step.py [--preset=base] [--batch=8] [--length=128] [--pairs=5]

Ours is the step of the training loop as users run it: masks drawn in it, gathered predictions, dropout, clipping, the
paper's optimizer. The peer is BertForPreTraining in train mode with torch.optim.AdamW and clipping, on a batch that is
masked already, once in float32 and once under bfloat16 autocast. The runs alternate; figures are medians over pairs.
Where the CPU has no instructions for bfloat16, torch takes minutes a step: there its figure is that of one step of one
row. Needs the extra [parity]. The last line is one JSON object.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import jax
import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_jax import parallel
from bert_jax import step as steps
from bert_jax.config import PhaseConfig, PretrainConfig
from bert_jax.data.masking import MaskingConfig, max_predictions_for
from bert_jax.model.presets import PRESETS, ComputeConfig
from bert_jax.schedules import ScheduleConfig
from tests.model.hf import hf_config

SPECIAL = 106  # ids below are special or unused in bert-base-uncased's vocabulary


def ours(args):
    """A function that makes one step of ours and waits for it."""
    masking = MaskingConfig(max_predictions=max_predictions_for(args.length))
    phase = PhaseConfig(length=args.length, batch_size=args.batch, steps=1000, masking=masking)
    config = PretrainConfig(
        model=PRESETS[args.preset],
        compute=ComputeConfig(dropout_generator="threefry2x32", scan_layers=not args.unroll),
        phases=(phase,),
        schedule=ScheduleConfig("warmup_linear", peak=1e-4, warmup_steps=100, total_steps=1000),
    )
    vocabulary = steps.Vocabulary(0, 103, (0, 101, 102, 103), tuple(range(SPECIAL, config.model.vocab_size)))
    train_step = jax.jit(steps.make_train_step(config, phase, vocabulary), donate_argnums=0)
    state, batch = steps.init_state(config), make_batch(args, config.model.vocab_size)

    def one():
        nonlocal state
        state, metrics = train_step(state, batch)
        jax.block_until_ready(metrics)

    return one


def peer(args, rows, autocast):
    """A function that makes one step of transformers' BertForPreTraining on `rows` rows."""
    config = hf_config(PRESETS[args.preset])
    model = transformers.BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    batch = {name: torch.tensor(values).long() for name, values in make_batch(args, config.vocab_size).items()}
    batch = {name: values[:rows] for name, values in batch.items()}
    labels = torch.full_like(batch["input_ids"], -100)
    for row in range(rows):
        chosen = torch.randperm(args.length - 2)[: round(0.15 * args.length)] + 1
        labels[row, chosen] = batch["input_ids"][row, chosen]
        batch["input_ids"][row, chosen] = 103
    inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "next_sentence_label")}

    def one():
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(**inputs, labels=labels, attention_mask=torch.ones_like(labels)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return one


def make_batch(args, vocab_size):
    rng = np.random.default_rng(0)
    return {
        "input_ids": rng.integers(SPECIAL, vocab_size, (args.batch, args.length)).astype(np.int32),
        "token_type_ids": (np.arange(args.length) >= args.length // 2).astype(np.int32)
        * np.ones((args.batch, 1), np.int32),
        "next_sentence_label": rng.integers(0, 2, args.batch).astype(np.int32),
    }


def seconds(one, times=1):
    """Seconds that a call takes, the mean of `times`."""
    started = time.perf_counter()
    for _ in range(times):
        one()
    return (time.perf_counter() - started) / times


def torch_emulates_bfloat16():
    """Whether products of bfloat16 are many times slower than of float32 here."""
    a = torch.randn(256, 256)
    b = a.bfloat16()
    products = (lambda: b @ b), (lambda: a @ a)  # the layout of a backward pass, the slowest; b @ b.T is 6 times slower
    for product in products:
        product()  # the first prepares a kernel
    of_bfloat16, of_float32 = (seconds(product, times=3) for product in products)
    return of_bfloat16 > 10 * of_float32


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="base", choices=PRESETS)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="steps in each measurement")
    parser.add_argument("--unroll", action="store_true", help="ours without the scan over layers")
    args = parser.parse_args()
    parallel.keep_freed_memory("cpu")  # as `bert-jax pretrain` does; the peer has the same heap
    emulated = torch_emulates_bfloat16()
    runs = {"ours": ours(args), "peer": peer(args, args.batch, autocast=False)}
    figures = {}
    if emulated:
        print("this CPU has no bfloat16 arithmetic: timing one step of one row under autocast", flush=True)
        figures["peer_bf16"] = [args.length / seconds(peer(args, 1, autocast=True))] * args.pairs
    else:
        runs["peer_bf16"] = peer(args, args.batch, autocast=True)
    for name, one in runs.items():
        print(f"{name}: first step {seconds(one):.1f} s", flush=True)  # compiles, allocates
    tokens = args.batch * args.length
    for pair in range(args.pairs):
        for name, one in runs.items():
            figures.setdefault(name, []).append(tokens / seconds(one, args.steps))
        shown = ", ".join(f"{name} {figures[name][-1]:.1f}" for name in runs)
        print(f"pair {pair + 1}: {shown} tokens/s", flush=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(figures["ours"], figures[name], strict=True))
        for name in ("peer", "peer_bf16")
    }
    what = {"unit": "tokens/s", "preset": args.preset, "batch": args.batch, "length": args.length, "pairs": args.pairs}
    what["bf16_emulated"] = emulated
    print(json.dumps(medians | {"ratio": ratios["peer"], "ratio_bf16": ratios["peer_bf16"]} | what))


if __name__ == "__main__":
    main()
