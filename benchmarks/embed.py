"""Texts a second of our embedding against sentence-transformers, same weights and texts, in one process.

    JAX_PLATFORMS=cpu python benchmarks/embed.py --checkpoint=MODEL --data=STS_TSV [--pairs=5]

Both sort the texts by length; MODEL is a sentence-transformers folder, float32, and STS_TSV a file of pairs of
sentences, each of which is a text. The peer has its own default batch size of 32. Measurements alternate; figures are
medians over pairs. Needs the extra [parity]. The last line is one JSON object.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import sentence_transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_jax import parallel
from bert_jax.embed import BATCH, embed_texts
from bert_jax.models import load_model
from bert_jax.tasks.sts import read_pairs
from bert_jax.tasks.task import TaskConfig


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=BATCH, help="of ours")
    args = parser.parse_args()
    parallel.keep_freed_memory("cpu")  # as `bert-jax embed` does; the peer has the same heap
    pairs = read_pairs(args.data, TaskConfig())
    texts = [*pairs.first, *pairs.second]
    model = load_model(args.checkpoint)
    theirs = sentence_transformers.SentenceTransformer(args.checkpoint, device="cpu")
    runs = {
        "ours": lambda: embed_texts(model, texts, batch_size=args.batch),
        "peer": lambda: theirs.encode(texts, batch_size=32, show_progress_bar=False),
    }
    vectors = [one() for one in runs.values()]  # compiles and allocates
    figures = {name: [] for name in runs}
    for pair in range(args.pairs):
        for name, one in runs.items():
            started = time.perf_counter()
            one()
            figures[name].append(len(texts) / (time.perf_counter() - started))
        print(f"pair {pair + 1}: " + ", ".join(f"{name} {figures[name][-1]:.0f}" for name in runs), flush=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    ratio = statistics.median(a / b for a, b in zip(figures["ours"], figures["peer"], strict=True))
    what = {"unit": "texts/s", "texts": len(texts), "largest_difference": float(np.abs(vectors[0] - vectors[1]).max())}
    print(json.dumps(medians | {"ratio": ratio} | what))


if __name__ == "__main__":
    main()
