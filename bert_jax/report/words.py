"""What a run's figures mean, in sentences and key figures for its report."""

from bert_jax.model.heads import parameter_count
from bert_jax.runlog import in_words


def summary(run):
    """The sentences of the paragraph at the top; `run` is a run.RunRecord."""
    sentences = [_model(run), *_progress(run), *_heldout(run), *_speed(run), *_bad(run)]
    return [sentence for sentence in sentences if sentence]


def key_figures(run):
    """(name, value, remark) of what one looks for first."""
    last, entropy = (run.heldout[-1] if run.heldout else {}), heldout_entropy(run)
    newest = run.train[-1] if run.train else {}
    figures = [
        ("Steps", f"{run.step:,}", f"of {run.config.total_steps:,}" if run.config else ""),
        ("Held-out MLM loss", nats(last.get("mlm_loss")), "nats a masked token"),
        ("Unigram entropy", nats(entropy), "nats, of the held-out tokens"),
        ("Held-out MLM accuracy", percent(last.get("mlm_accuracy")), "of masked tokens right"),
        ("Held-out NSP accuracy", percent(last.get("nsp_accuracy")), "of pairs right"),
        ("Held-out SOP accuracy", percent(last.get("sop_accuracy")), "of pairs right"),
        ("Time in steps", duration(_seconds(run)) if run.train else "", "without evaluating and saving"),
        ("Throughput", count(newest.get("tokens_per_second")), "tokens a second"),
    ]
    return [figure for figure in figures if figure[1]]


def nats(value):
    return "" if value is None else f"{value:.4f}"


def percent(value):
    if value is None:
        return ""
    return f"{100 * value:.1f} %" if abs(value) >= 0.01 or not value else f"{100 * value:.2g} %"


def count(value):
    return "" if value is None else f"{value:,.0f}"


def duration(seconds):
    return f"{seconds:.1f} s" if seconds < 60 else in_words(seconds)


def heldout_entropy(run):
    """Unigram entropy, in nats, of the held-out tokens of the newest phase; None where it is not known."""
    spans = run.spans()
    entropy = run.references["mlm_loss"].get(spans[-1][0] if spans else 1)
    return entropy if entropy is not None else run.summary.get("unigram_entropy")


def _model(run):
    if not run.config:
        return ""
    m = run.config.model
    return (
        f"A BERT encoder of {plural(m.layers, 'layer')}, hidden size {m.hidden:,}, {plural(m.heads, 'attention head')} "
        f"and a vocabulary of {m.vocab_size:,}: {parameter_count(m):,} parameters with its pretraining heads."
    )


def _progress(run):
    done = plural(run.step, "step") + (" is done" if run.step == 1 else " are done")
    if not run.config:
        yield f"{done}."
        return
    total = run.config.total_steps
    phases = plural(len(run.config.phases), "phase")
    if run.step >= total:
        yield f"All {plural(total, 'step')} are done, in {phases}." if total > 1 else "Its 1 step is done."
    else:
        yield f"{done}, of {total:,} in {phases} ({run.step / total:.1%})."
    examples = tokens = 0
    for number, first, last in run.spans():
        if number <= len(run.config.phases):
            phase = run.config.phases[number - 1]
            examples += (last - first) * phase.batch_size
            tokens += (last - first) * phase.batch_size * phase.length
    if tokens:
        real = _weighted(run.train, "real_tokens")
        text = f", about {real:,.0f} of them text and the others padding" if real else ""
        yield f"It read {plural(examples, 'example')}: {tokens:,} tokens{text}."


def _heldout(run):
    if not run.heldout:
        yield "It has not been evaluated on held-out text yet."
        return
    last = run.heldout[-1]
    best = min((line for line in run.heldout if line["phase"] == last["phase"] and "loss" in line),
               key=lambda line: line["loss"], default=None)  # fmt: skip
    parts = []
    if "mlm_loss" in last:
        right = f" ({percent(last['mlm_accuracy'])} right)" if "mlm_accuracy" in last else ""
        parts.append(f"{nats(last['mlm_loss'])} nats a masked token{right}")
    for head in ("nsp", "sop"):
        if f"{head}_loss" in last:
            right = f" ({percent(last[f'{head}_accuracy'])} right)" if f"{head}_accuracy" in last else ""
            parts.append(f"{nats(last[f'{head}_loss'])} nats a sentence pair{right}")
    if parts:
        examples = f" ({plural(last['examples'], 'example')})" if "examples" in last else ""
        yield f"On held-out text{examples}, after step {last['step']:,}, its loss is {' and '.join(parts)}."
    if best and "loss" in last:
        total = f"The total of both is {nats(last['loss'])}"
        among = " of this phase" if len(run.spans()) > 1 else ""
        if best["loss"] >= last["loss"]:
            yield f"{total}, the lowest{among} so far."
        else:
            yield f"{total}; the lowest{among} was {nats(best['loss'])}, after step {best['step']:,}."
    entropy = heldout_entropy(run)
    if entropy is not None and "mlm_loss" in last:
        below = entropy - last["mlm_loss"]
        where = f"{abs(below):.2f} nats {'below' if below >= 0 else 'above'} that"
        yield f"Knowing only how often each token occurs would give {nats(entropy)} (unigram entropy): it is {where}."


def _speed(run):
    if not run.train:
        return
    newest = run.train[-1]
    if "tokens_per_second" in newest and "step_seconds" in newest:
        speed = f"{newest['tokens_per_second']:,.0f} tokens a second ({newest['step_seconds']:.3g} s a step)"
        took = duration(_seconds(run))
        yield f"The steps took {took} without compiling, evaluating and saving, at last at {speed}."
    if all(f"{name}_seconds" in run.summary for name in ("train", "total")):
        train, total = (duration(run.summary[f"{name}_seconds"]) for name in ("train", "total"))
        yield f"Training took {train} with all of these, the whole job {total}."


def _bad(run):
    if run.bad:
        were = "was" if len(run.bad) == 1 else "were"
        yield f"{plural(len(run.bad), 'step')} {were} not finite, and skipped."


def _seconds(run):
    return _weighted(run.train, "step_seconds")


def _weighted(lines, name):
    """Sum over all steps of a figure that each line gives for the steps since the line before."""
    total, before = 0.0, 0
    for line in lines:
        total += line.get(name, 0.0) * (line["step"] - before)
        before = line["step"]
    return total


def plural(number, noun):
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
