"""The main job on an embedded default, for launch/quickstart.sh: sample corpus to evaluated model in minutes.

    python -m bert_jax.quickstart [--corpus=DIR] [--workdir=runs/quickstart]

Each part is one of the command's verbs. What an earlier call has finished is used again.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from bert_jax.__main__ import reported, run_verb

CONFIG = Path(__file__).resolve().parent.parent / "configs" / "quickstart.py"
SENTENCES = (
    "In the beginning God created the heavens and the [MASK].",
    "Jesus said to his [MASK], follow me.",
    "The river flows through the [MASK] of the country.",
    "She was an American singer and [MASK].",
    "The war began in [MASK] and ended four years later.",
)


def main():
    parser = argparse.ArgumentParser(prog="quickstart", description="Sample corpus to evaluated model in minutes.")
    parser.add_argument("--corpus", metavar="DIR", help="a folder of your own text files instead of the sample corpus")
    parser.add_argument("--workdir", default="runs/quickstart", metavar="DIR")
    args = parser.parse_args()
    return reported("quickstart", lambda: quickstart(Path(args.workdir), args.corpus))


def quickstart(workdir, corpus=None):
    """Runs all parts in `workdir` and writes summary.json there."""
    from bert_jax import parallel
    from bert_jax.config import load
    from bert_jax.data.storage import open_prepared

    started = time.time()
    parallel.keep_freed_memory("")  # `pretrain` does too, but here threads have started by then
    recipe = load([f"--config={CONFIG}"])
    if corpus is None:
        from bert_jax.text.sample_corpus import fetch_sample_corpus

        corpus = fetch_sample_corpus(workdir / "corpus")
    vocabulary, data = workdir / "vocabulary", workdir / "data"
    if not vocabulary.exists():
        run_verb("vocab", [f"--source={corpus}", f"--size={recipe.model.vocab_size}", f"--out={vocabulary}"])
    length = recipe.phases[0].length
    # 5 % held out: the unigram entropy of a small sample comes out too low (at 2 % of this corpus by 0.14 nat).
    run_verb(
        "prepare",
        [f"--source={corpus}", f"--tokenizer={vocabulary}", f"--length={length}", "--held_out=0.05", f"--out={data}"],
    )
    overrides = {
        "phases.phase1.data": data,
        "model.vocab_size": open_prepared(data).vocab_size,  # a small corpus of one's own gives a smaller one
    }
    settings = [f"--config.{name}={value}" for name, value in overrides.items()]
    heldout = run_verb("pretrain", [f"--config={CONFIG}", *settings, f"--workdir={workdir}"])
    _predict(workdir)
    run_verb("report", [f"--workdir={workdir}"])
    summary = {
        "heldout_mlm_loss": heldout["mlm_loss"],
        "unigram_entropy": _unigram_entropy(data),
        "heldout_mlm_accuracy": heldout["mlm_accuracy"],
        "nsp_accuracy": heldout["nsp_accuracy"],
        "train_seconds": _train_seconds(workdir),
        "total_seconds": time.time() - started,
    }
    (workdir / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    gain = summary["unigram_entropy"] - summary["heldout_mlm_loss"]
    print(
        f"held-out MLM loss {summary['heldout_mlm_loss']:.3f} nats, {gain:.3f} below the unigram entropy of the same "
        f"tokens, {summary['unigram_entropy']:.3f}; {summary['total_seconds']:.0f} s in all"
    )
    print(f"report: {workdir / 'report.html'}; figures: {workdir / 'summary.json'}")


def _predict(workdir):
    """Prints the predictions for a few sentences and keeps them for the report."""
    from bert_jax import fill_mask
    from bert_jax.models import load_model

    results = fill_mask.mask_filler(load_model(workdir)).fill_mask(SENTENCES)
    for result in results:
        print(fill_mask.in_words(result))
    (workdir / "predictions.json").write_text(json.dumps(results, indent=1) + "\n")


def _unigram_entropy(data):
    return json.loads((data / "report.json").read_text())["splits"]["validation"]["unigram_entropy"]


def _train_seconds(workdir):
    """Seconds that all steps took together, also over several calls: a line's step time holds for its window."""
    from bert_jax.runlog import METRICS, read_lines

    seconds, before = 0.0, 0
    for line in read_lines(workdir / METRICS):
        if line["split"] == "train":
            seconds += line["step_seconds"] * (line["step"] - before)
            before = line["step"]
    return seconds


if __name__ == "__main__":
    sys.exit(main())
