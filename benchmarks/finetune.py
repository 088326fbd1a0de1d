"""Examples a second of our fine-tuning update against transformers + torch, same weights and batches, in one process.

    JAX_PLATFORMS=cpu python benchmarks/finetune.py --checkpoint=MODEL --data=GLUE [--task=mrpc] [--pairs=5]

Ours is the update of `bert-jax finetune`: packed rows, dropout, clipping, AdamW. The peer is
BertForSequenceClassification in train mode with torch.optim.AdamW and clipping; its batches are padded to their longest
text, as transformers' collator does. Both take the same batches in turn, float32; figures are medians over pairs. MODEL
is a Hugging Face folder. Needs the extra [parity]. The last line is one JSON object.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_jax import parallel
from bert_jax.model.presets import ComputeConfig
from bert_jax.models import load_model
from bert_jax.tasks import glue
from bert_jax.tasks.batches import epoch_batch
from bert_jax.tasks.config import FinetuneConfig
from bert_jax.tasks.features import make_batch
from bert_jax.tasks.finetune import Programs
from bert_jax.tasks.task import TaskConfig


def ours(programs):
    """A function that makes one update on a batch and waits for it."""
    state, key = programs.init_state(0), jax.random.key(0)

    def one(examples):
        nonlocal state
        state, metrics = programs.train_step(state, programs.batcher(examples), jnp.float32(5e-5), key)
        jax.block_until_ready(metrics)

    return one


def peer(checkpoint, split, pad_id):
    """A function that makes one update of transformers' model on a batch."""
    model = transformers.BertForSequenceClassification.from_pretrained(checkpoint, num_labels=2).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)

    def one(examples):
        longest = int(split.features.lengths[examples].max())
        batch = make_batch(split.features, examples, size=len(examples), pad_id=pad_id, width=longest)
        tensors = {name: torch.from_numpy(array).long() for name, array in batch.items()}
        labels = torch.from_numpy(split.labels[examples]).long()
        model(attention_mask=tensors.pop("mask"), labels=labels, **tensors).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--task", default="mrpc")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--batches", type=int, default=8, help="in each measurement")
    parser.add_argument("--unroll", action="store_true", help="ours without the scan over layers")
    parser.add_argument("--remat", default=ComputeConfig().remat)
    parser.add_argument("--generator", default="threefry2x32")
    args = parser.parse_args()
    parallel.keep_freed_memory("cpu")  # as `bert-jax finetune` does; the peer has the same heap
    model = load_model(args.checkpoint)
    task = glue.load(TaskConfig(args.task, args.data), model.tokenizer, args.length)
    compute = ComputeConfig(dropout_generator=args.generator, scan_layers=not args.unroll, remat=args.remat)
    programs = Programs(FinetuneConfig(batch_size=args.batch, length=args.length, compute=compute), model, task)
    split = task.splits["train"]
    runs = {"ours": ours(programs), "peer": peer(args.checkpoint, split, model.tokenizer.pad_id)}
    every = np.arange(len(split))
    batches = [epoch_batch(every, n * args.batch, args.batch, 0) for n in range((args.pairs + 2) * args.batches)]
    for examples in batches[: 2 * args.batches]:  # compiles what these need, and allocates
        for one in runs.values():
            one(examples)
    figures = {name: [] for name in runs}
    for pair in range(args.pairs):
        some = batches[(pair + 2) * args.batches :][: args.batches]
        for name, one in runs.items():
            started = time.perf_counter()
            for examples in some:
                one(examples)
            figures[name].append(args.batch * args.batches / (time.perf_counter() - started))
        print(f"pair {pair + 1}: " + ", ".join(f"{name} {figures[name][-1]:.1f}" for name in runs), flush=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    ratio = statistics.median(a / b for a, b in zip(figures["ours"], figures["peer"], strict=True))
    what = {"unit": "examples/s", "task": args.task, "batch": args.batch, "rows": programs.batcher.row_counts}
    print(json.dumps(medians | {"ratio": ratio, "width": programs.batcher.width} | what))


if __name__ == "__main__":
    main()
