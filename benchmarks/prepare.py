"""MB/s a core of `bert-jax prepare`, against Hugging Face `tokenizers` and the paper's Python algorithm.

    python benchmarks/prepare.py --corpus=DIR --tokenizer=vocab.txt [--pairs=3]

Speed is bytes of text over CPU seconds of the process and its children, start-up included, with one worker. Compared:

ours      the verb, with `tokenizers` for WordPiece ("ours") and with nanotoken ("ours_fast"), at 128 and 512 tokens
peer      a plain pipeline on `tokenizers`: read, split into paragraphs, encode_batch, concatenate, cut into rows, save;
          no sentences, no pairs, no shuffle, no held-out text, no account
bare      `tokenizers`' encode_batch alone, on paragraphs that are in memory already
large     ours_fast at 512 tokens on the corpus --copies times over: what start-up costs no longer tells
reference google-research/bert's tokenization.py and create_pretraining_data.py told in plain Python, masks included,
          writing nothing; on the first --reference_bytes of the corpus

The last line is one JSON object; `ratio` is ours / peer at 128, both on `tokenizers`, the median of interleaved pairs.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # for the reference, which the tests hold

LENGTHS = (128, 512)

OURS = """
import sys
from bert_jax.data.prepare import PrepareConfig, prepare
corpus, tokenizer, out, length, fast = sys.argv[1:]
prepare(PrepareConfig((f"{corpus},kind=text",), tokenizer, out, int(length), separator="file", fast=fast == "fast"))
"""

PEER = """
import json, sys, time
from pathlib import Path
import numpy as np
from tokenizers import BertWordPieceTokenizer
corpus, tokenizer, out, length = sys.argv[1:]
length = int(length)
tokenizer = BertWordPieceTokenizer(tokenizer)
rows, pending, bare = [], [], 0.0
for path in sorted(Path(corpus).rglob("*")):
    if path.is_file():
        paragraphs = path.read_text().split("\\n\\n")
        started = time.process_time()
        encodings = tokenizer.encode_batch(paragraphs, add_special_tokens=False)
        bare += time.process_time() - started
        for encoding in encodings:
            pending += encoding.ids
        whole = len(pending) // length * length
        rows.append(np.array(pending[:whole], np.uint16).reshape(-1, length))
        pending = pending[whole:]
np.save(out, np.concatenate(rows))
print(json.dumps(bare))
"""


def cpu_seconds(program, *arguments):
    """(CPU seconds of a Python program and its children, what it printed)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def measure_reference(corpus, vocabulary, n_bytes):
    """CPU seconds that the paper's algorithm takes for the first n_bytes of the corpus, in rows of 128, masks drawn."""
    from benchmarks.reference_tokenization import FullTokenizer, mask
    from tests.data.reference_pairs import RandomChoices, paper_pairs

    text = ""
    for path in sorted(Path(corpus).rglob("*")):
        if path.is_file() and len(text) < n_bytes:
            text += path.read_text()
    documents = [part for part in text[:n_bytes].split("\n## ") if part.strip()]
    started = time.process_time()
    tokenizer = FullTokenizer(vocabulary)
    rng = random.Random(0)
    tokenized = [[tokens for line in part.split("\n") if (tokens := tokenizer.tokenize(line))] for part in documents]
    tokenized = [document for document in tokenized if document]
    words = list(tokenizer.vocabulary)
    for _, tokens_a, tokens_b, _ in paper_pairs(tokenized, 128, RandomChoices(rng, 0.1)):
        tokens = ["[CLS]", *tokens_a, "[SEP]", *tokens_b, "[SEP]"]
        masked, _, _ = mask(tokens, words, 20, rng)
        tokenizer.ids(masked)
    return time.process_time() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="folder of text files, a document each (30 MB of books)")
    parser.add_argument("--tokenizer", required=True, help="vocab.txt of an uncased BERT")
    parser.add_argument("--pairs", type=int, default=3, help="interleaved repetitions")
    parser.add_argument("--copies", type=int, default=8, help="of the corpus, for `large`")
    parser.add_argument("--reference_bytes", type=int, default=1_000_000)
    args = parser.parse_args()
    if not Path(args.corpus).is_dir():
        parser.error(f"--corpus: {args.corpus} is no folder; expected one of text files")
    megabytes = sum(path.stat().st_size for path in Path(args.corpus).rglob("*") if path.is_file()) / 1e6
    corpus, vocabulary = Path(args.corpus).resolve(), Path(args.tokenizer).resolve()
    speeds = {}
    for number in range(args.pairs):
        with tempfile.TemporaryDirectory() as folder:
            large = Path(folder) / "large"
            for copy in range(args.copies):
                shutil.copytree(corpus, large / str(copy))
            seconds, _ = cpu_seconds(OURS, large, vocabulary, f"{folder}/out", 512, "fast")
            shutil.rmtree(large)
            speeds.setdefault("large", []).append(args.copies * megabytes / seconds)
            print(f"pair {number + 1}, large: {speeds['large'][-1]:.2f} MB/s", flush=True)
            spent = measure_reference(corpus, vocabulary, args.reference_bytes)
            speeds.setdefault("reference", []).append(args.reference_bytes / 1e6 / spent)
            for length in LENGTHS:
                seconds, printed = cpu_seconds(PEER, corpus, vocabulary, f"{folder}/peer", length)
                measured = {f"peer_{length}": seconds, f"bare_{length}": json.loads(printed)}
                for name in ("exact", "fast"):
                    out = f"{folder}/{name}-{length}"
                    key = f"ours_{length}" if name == "exact" else f"ours_fast_{length}"
                    measured[key], _ = cpu_seconds(OURS, corpus, vocabulary, out, length, name)
                for key, spent in measured.items():
                    speeds.setdefault(key, []).append(megabytes / spent)
                    print(f"pair {number + 1}, {key}: {megabytes / spent:.2f} MB/s", flush=True)
    result = {key: round(statistics.median(values), 3) for key, values in speeds.items()}
    for key in ("ours_128", "ours_512", "ours_fast_128", "ours_fast_512"):
        length = key.rsplit("_", 1)[1]
        for against in ("peer", "bare"):
            ratios = [mine / theirs for mine, theirs in zip(speeds[key], speeds[f"{against}_{length}"], strict=True)]
            result[f"{key}_to_{against}"] = round(statistics.median(ratios), 3)
    for against in ("peer_512", "bare_512", "reference"):
        ratios = [mine / theirs for mine, theirs in zip(speeds["large"], speeds[against], strict=True)]
        result[f"large_to_{against}"] = round(statistics.median(ratios), 3)
    headline = {"ours": result["ours_128"], "peer": result["peer_128"], "ratio": result["ours_128_to_peer"]}
    print(json.dumps({"unit": "MB/s a core", **headline, **result}))


if __name__ == "__main__":
    main()
