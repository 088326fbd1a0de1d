"""Latency of classifying one text, and texts a second, against transformers + torch; same weights, in one process.

    JAX_PLATFORMS=cpu python benchmarks/predict.py --checkpoint=MODEL --data=SST2_TSV [--texts=400] [--pairs=5]

MODEL is a Hugging Face folder; its classification head is drawn anew, the same for both. SST2_TSV is a file of GLUE's
SST-2, whose sentences are classified one by one, as `bert-jax predict` and transformers' pipeline are asked in a
service, and then all together in batches of 32 that are sorted by length on both sides. Tokenization counts. Figures
are medians over alternating pairs. Needs the extra [parity]. The last line is one JSON object; `ours`, `peer` and
`ratio` are of texts a second together, `latency` has p50 and p99 in milliseconds and the ratio of p50, peer to ours.
"""

import argparse
import dataclasses
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
from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import HeadConfig, init_head
from bert_jax.models import load_model
from bert_jax.tasks.predictor import TaskPredictor

LENGTH = 128


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    parallel.keep_freed_memory("cpu")  # as the verbs do; the peer has the same heap
    lines = Path(args.data).read_text().splitlines()[1:]
    texts = [line.split("\t")[0] for line in lines[: args.texts]]
    model = load_model(args.checkpoint)
    task = init_head(model.config, ComputeConfig(), 2, jax.random.key(0))
    head = HeadConfig("classify", ("negative", "positive"), length=LENGTH)
    model = dataclasses.replace(model, head=head, params=model.params | {"task": task})
    one, many = (TaskPredictor(model, batch_size=size) for size in (1, 32))
    theirs = peer(args.checkpoint, task)
    runs = {
        "ours": (lambda text: one.classify([text]), lambda: many.classify(texts)),
        "peer": (lambda text: theirs([text], 1), lambda: theirs(texts, 32)),
    }
    probabilities = {}
    for name, (single, together) in runs.items():  # compiles and allocates
        for text in texts:
            single(text)
        probabilities[name] = together()
    shown = np.array([list(result["probabilities"].values()) for result in probabilities["ours"]])
    difference = float(np.abs(shown - probabilities["peer"]).max())
    latencies, rates = {name: [] for name in runs}, {name: [] for name in runs}
    for pair in range(args.pairs):
        for name, (single, together) in runs.items():
            for text in texts:
                started = time.perf_counter()
                single(text)
                latencies[name].append((pair, time.perf_counter() - started))
            started = time.perf_counter()
            together()
            rates[name].append(len(texts) / (time.perf_counter() - started))
        print(f"pair {pair + 1}: " + ", ".join(f"{name} {rates[name][-1]:.0f} texts/s" for name in runs), flush=True)
    print(json.dumps(summary(latencies, rates, args) | {"largest_difference": difference}))


def summary(latencies, rates, args):
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratio = statistics.median(a / b for a, b in zip(rates["ours"], rates["peer"], strict=True))
    quantiles = {
        name: [
            np.quantile([1000 * seconds for n, seconds in values if n == pair], (0.5, 0.99))
            for pair in range(args.pairs)
        ]
        for name, values in latencies.items()
    }
    middle = {name: np.median(values, axis=0) for name, values in quantiles.items()}
    of_p50 = statistics.median(p[0] / o[0] for o, p in zip(quantiles["ours"], quantiles["peer"], strict=True))
    latency = {name: {"p50": float(value[0]), "p99": float(value[1])} for name, value in middle.items()}
    return medians | {"ratio": ratio, "unit": "texts/s", "latency": latency | {"ratio": of_p50}, "texts": args.texts}


def peer(checkpoint, task):
    """A function from texts and a batch size to probabilities, of transformers' model with the same head."""
    network = transformers.BertForSequenceClassification.from_pretrained(checkpoint, num_labels=2).eval()
    with torch.no_grad():
        network.classifier.weight.copy_(torch.tensor(np.array(task["dense"]["kernel"]).T))
        network.classifier.bias.copy_(torch.tensor(np.array(task["dense"]["bias"])))
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)

    @torch.inference_mode()
    def classify(texts, batch_size):
        order, parts = sorted(range(len(texts)), key=lambda n: -len(texts[n])), []
        for start in range(0, len(texts), batch_size):
            batch = [texts[n] for n in order[start : start + batch_size]]
            inputs = tokenizer(batch, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
            parts.append(network(**inputs).logits.softmax(-1).numpy())
        probabilities = np.empty((len(texts), 2))
        probabilities[order] = np.concatenate(parts)
        return probabilities

    return classify


if __name__ == "__main__":
    main()
