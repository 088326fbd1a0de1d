"""Scores over seeds of our fine-tuning and of transformers + torch with the same recipe, from the same weights.

    JAX_PLATFORMS=cpu python benchmarks/seeds.py --checkpoint=MODEL --glue=GLUE --ner=WNUT17 --out=seeds.jsonl

The recipe: 3 epochs, batches of 32, 5e-5, warm-up over a tenth, linear decay, Adam with bias correction, weight decay
0.01 but for biases and norms, clipping at 1, dropout of the model, the best epoch on the dev set. Both read the same
rows of ids; orders, dropout and new heads are each library's own. MODEL is a Hugging Face folder; GLUE the folder of
the benchmark's download; WNUT17 the one with wnut17train.conll and emerging.dev.conll. Runs that --out holds are not
made again. The last lines are a table in Markdown: mean and deviation of each, their difference, and two pooled
standard errors, within which it has to lie. Takes hours on two cores. Needs the extra [parity].
"""

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_jax import parallel
from bert_jax.models import load_model
from bert_jax.tasks.config import FinetuneConfig
from bert_jax.tasks.features import make_batch
from bert_jax.tasks.finetune import Programs, Run
from bert_jax.tasks.load import load_task
from bert_jax.tasks.task import TaskConfig

# name: (the task, training examples at most, the figures that are compared)
TASKS = {
    "rte": ("rte", 0, ("accuracy",)),
    "mrpc": ("mrpc", 0, ("f1", "accuracy")),
    "stsb": ("stsb", 0, ("spearman", "pearson")),
    "cola": ("cola", 0, ("matthews",)),
    "wnut17": ("ner", 0, ("f1",)),
    "sst2-10k": ("sst2", 10_000, ("accuracy",)),
}
SEEDS = 5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--glue", required=True)
    parser.add_argument("--ner", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    args = parser.parse_args()
    parallel.keep_freed_memory("cpu")
    model, out = load_model(args.checkpoint), Path(args.out)
    for name in args.tasks.split(","):
        config = config_of(name, args)
        task = load_task(config.task, model.tokenizer, config.length)
        splits = {split: task.splits[split] for split in ("train", "validation")}
        task = dataclasses.replace(task, splits=splits)
        programs = Programs(config, model, task)
        for seed in range(args.seeds):
            seeded = dataclasses.replace(config, seed=seed)
            for library, tune in (("ours", lambda c: ours(c, programs)), ("torch", lambda c: peer(c, model, task))):
                key = {"task": name, "seed": seed, "library": library}
                if any(key.items() <= line.items() for line in lines_of(out)):
                    continue
                started = time.perf_counter()
                line = key | {"scores": tune(seeded), "seconds": time.perf_counter() - started}
                with open(out, "a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
    print(table(lines_of(out)))


def config_of(name, args):
    task, limit, _ = TASKS[name]
    data = {"data": args.glue}
    if task == "ner":
        folder = Path(args.ner)
        data = {"data": str(folder / "wnut17train.conll"), "validation": str(folder / "emerging.dev.conll")}
    return FinetuneConfig(task=TaskConfig(task, **data), train_examples=limit, log_every=10**6)


def ours(config, programs):
    with tempfile.TemporaryDirectory() as folder:
        run = Run(config, programs, folder, threading.Event(), keeps_state=False)
        try:
            return next(iter(run.to_the_end()["scores"].values()))
        finally:
            run.close()


def peer(config, model, task):
    """The scores of the best epoch of transformers' model, trained by torch."""
    torch.manual_seed(config.seed)
    by_token = task.head.kind == "tag"
    kind = transformers.BertForTokenClassification if by_token else transformers.BertForSequenceClassification
    network = kind.from_pretrained(model.path, num_labels=max(1, len(task.head.labels)))
    decayed, plain = [], []
    for name, parameter in network.named_parameters():
        (plain if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, eps=1e-6)
    train = task.splits["train"]
    chosen = np.random.default_rng(config.seed).permutation(len(train))[: config.train_examples or None]
    total = config.total_steps(len(chosen))
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(config.warmup * total), total)
    best = None
    for _ in range(config.epochs):
        network.train()
        order = chosen[torch.randperm(len(chosen)).numpy()]
        for start in range(0, len(order), config.batch_size):
            rows = order[start : start + config.batch_size]
            network(**tensors(train, rows, model), labels=targets(train, rows, by_token)).loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        name = task.scored_splits()[0]
        scores = task.score(task.splits[name], forward(network, task.splits[name], model, by_token))
        best = scores if best is None or scores[task.main] > best[task.main] else best
    return best


def tensors(split, rows, model):
    width = int(split.features.lengths[rows].max())
    batch = make_batch(split.features, rows, size=len(rows), pad_id=model.tokenizer.pad_id, width=width)
    arrays = {name: torch.from_numpy(array).long() for name, array in batch.items()}
    return {"attention_mask": arrays.pop("mask")} | arrays


def targets(split, rows, by_token):
    if not by_token:
        labels = torch.from_numpy(split.labels[rows])
        return labels if labels.is_floating_point() else labels.long()
    lengths = split.features.lengths[rows]
    labels = np.full((len(rows), lengths.max()), -100)
    for place, row in enumerate(rows):
        own = split.labels[split.features.offsets[row] : split.features.offsets[row + 1]]
        labels[place, : len(own)] = np.where(own < 0, -100, own)
    return torch.from_numpy(labels)


@torch.no_grad()
def forward(network, split, model, by_token):
    """Outputs as outputs.Forward gives them."""
    network.eval()
    parts = []
    for start in range(0, len(split), 64):
        rows = np.arange(start, min(start + 64, len(split)))
        logits = network(**tensors(split, rows, model)).logits.numpy()
        if by_token:
            parts += [logits[place, :length] for place, length in enumerate(split.features.lengths[rows])]
        else:
            parts.append(logits if logits.shape[1] > 1 else logits[:, 0])
    return np.concatenate(parts)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(lines):
    rows = ["| task | figure | ours | torch | difference | 2 standard errors | runs |", "|---|---|---|---|---|---|---|"]
    for name, (_, _, figures) in TASKS.items():
        for figure in figures:
            values = {
                library: [
                    100 * line["scores"][figure] for line in lines if (line["task"], line["library"]) == (name, library)
                ]
                for library in ("ours", "torch")
            }
            if min(map(len, values.values())) < 2:
                continue
            means = [statistics.mean(values[library]) for library in values]
            spreads = [statistics.stdev(values[library]) for library in values]
            error = sum(spread**2 / len(v) for spread, v in zip(spreads, values.values(), strict=True)) ** 0.5
            cells = [f"{mean:.1f} ({spread:.1f})" for mean, spread in zip(means, spreads, strict=True)]
            shown = [name, figure, *cells, f"{means[0] - means[1]:+.2f}", f"{2 * error:.2f}"]
            rows.append("| " + " | ".join([*shown, str(len(values["ours"]))]) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
