"""The main job on an embedded default, for launch/quickstart.sh: sample corpus to evaluated model in minutes.

    python -m bert_jax.quickstart [--corpus=DIR] [--workdir=runs/quickstart]

Each part is one of the command's verbs. What an earlier call has finished is used again.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from bert_jax.__main__ import run_verb
from bert_jax.errors import PREEMPTED_STATUS, USER_ERROR_STATUS, Preempted, UserError

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
    try:
        quickstart(Path(args.workdir), args.corpus)
    except UserError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return USER_ERROR_STATUS
    except Preempted as stop:
        print(f"quickstart: {stop}", file=sys.stderr)
        return PREEMPTED_STATUS
    return 0


def quickstart(workdir, corpus=None):
    """Runs all parts in `workdir` and writes summary.json there."""
    from bert_jax.config import load

    started = time.time()
    settings = load([f"--config={CONFIG}"])
    if corpus is None:
        from bert_jax.text.sample_corpus import fetch_sample_corpus

        corpus = fetch_sample_corpus(workdir / "corpus")
    vocabulary, data = workdir / "vocabulary", workdir / "data"
    if not vocabulary.exists():
        run_verb("vocab", [f"--source={corpus}", f"--size={settings.model.vocab_size}", f"--out={vocabulary}"])
    length = settings.phases[0].length
    run_verb(
        "prepare",
        [f"--source={corpus}", f"--tokenizer={vocabulary}", f"--length={length}", "--held_out=0.02", f"--out={data}"],
    )
    heldout = run_verb(
        "pretrain", [f"--config={CONFIG}", f"--config.phases.phase1.data={data}", f"--workdir={workdir}"]
    )
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
    from bert_jax import predict

    results = predict.load_predictor(workdir).fill_mask(SENTENCES)
    for result in results:
        print(predict.in_words(result))
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
