"""The model card of an exported folder: what it is, how to load it, what it was trained on and how, its scores."""

import json
import re

from etils import epath

from bert_jax import checkpoint
from bert_jax.convert.names import architecture_of
from bert_jax.data.mixture import split_data
from bert_jax.report.read import read_json
from bert_jax.runlog import METRICS, read_lines

TASK_TAGS = {
    "BertModel": "feature-extraction",
    "BertForMaskedLM": "fill-mask",
    "BertForPreTraining": "fill-mask",
    "BertForSequenceClassification": "text-classification",
    "BertForTokenClassification": "token-classification",
    "BertForQuestionAnswering": "question-answering",
    "BertForMultipleChoice": "multiple-choice",
}
# Figures of a preparation's report that tell what text it was, and in what words.
TEXT_FIGURES = {
    "input_megabytes": "{:,.1f} MB of text",
    "documents": "{:,} documents",
    "sentences": "{:,} sentences",
    "tokens": "{:,} tokens",
    "duplicate_sentence_share": "{:.1%} of sentences repeated",
    "unknown_token_share": "{:.2%} of tokens unknown",
}
FOLDERS = ("data", "validation", "test", "init_from")  # settings that name paths: a card tells their last part


def model_card(model, name, params, head, dtype, told):
    """The README.md of an export called `name`, with the front matter that the Hugging Face Hub reads.

    params and head: what was exported of the Model. told: lines of the export (what was added, parity). Nothing is said
    of what is not known, no licence above all.
    """
    record = model.record
    data = _data(record)
    parts = [
        _front_matter(params, head, sorted({language for *_, languages in data for language in languages})),
        f"# {name}\n\n{_summary(model, params, head, dtype)}",
        f"## Use\n\n{_use(params, head, name)}",
        _section("Labels", [f"{index}: {label}" for index, label in enumerate(head.labels)] if head else []),
        _section("Training data", [line for line, _ in data] or _task_data(record)),
        _section("Results", _results(model)),
        _section("Parity", [*told, "inputs and figures: parity.json"]),
        _settings(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title, lines):
    return f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def _front_matter(params, head, languages):
    embeds = head is not None and head.kind == "embed"
    lines = ["---", f"library_name: {'sentence-transformers' if embeds else 'transformers'}"]
    lines.append(f"pipeline_tag: {'sentence-similarity' if embeds else TASK_TAGS[architecture_of(params, head)]}")
    if languages:
        lines += ["language:", *(f"- '{language}'" for language in languages)]
    return "\n".join([*lines, "tags:", "- bert", *["- sentence-transformers"] * embeds, "---"])


def _summary(model, params, head, dtype):
    c, record = model.config, model.record
    text = (
        f"A BERT encoder of {c.layers} layers, hidden size {c.hidden}, {c.heads} attention heads, {c.max_positions} "
        f"positions and a vocabulary of {c.vocab_size:,} ({'uncased' if model.tokenizer.lower_case else 'cased'}), as "
        f"{architecture_of(params, head)} of transformers, weights in {dtype}. Exported by bert-jax"
    )
    if "origin" in record or "step" not in record:  # imported, or another's folder as it is
        return f"{text} from {_last_part(record.get('origin', model.path))}."
    return f"{text} from step {record['step']:,} of a run."


def _use(params, head, name):
    lines = ["```python"]
    if head is not None and head.kind == "embed":
        lines += ["from sentence_transformers import SentenceTransformer", ""]
        lines += [f'vectors = SentenceTransformer("{name}").encode(["A text.", "Another one."])']
    else:
        kind = architecture_of(params, head)
        lines += [f"from transformers import AutoTokenizer, {kind}", ""]
        lines += [f'tokenizer = AutoTokenizer.from_pretrained("{name}")']
        lines += [f'model = {kind}.from_pretrained("{name}")']
        lines += ['outputs = model(**tokenizer("A text.", return_tensors="pt"))']
    lines += [
        "```",
        "",
        f"In bert-jax the folder is a `--checkpoint` as it is: `--checkpoint={name}`; to go on pretraining",
    ]
    return "\n".join([*lines, f"from it: `--config.init_from={name}`."])


def _data(record):
    """[(a line, languages)] of each data set of each phase of pretraining."""
    found = []
    for number, phase in enumerate(record.get("config", {}).get("phases", ()), 1):
        for folder, weight in split_data(phase["data"]):
            text = (
                f"phase {number}: {phase['steps']:,} updates of {phase['batch_size']} rows of {phase['length']} tokens"
            )
            text += f" from {_last_part(folder)}" + (f" (weight {weight})" if weight else "")
            path, notes = epath.Path(folder), []
            report = read_json(path / "report.json", dict, notes) or {}
            figures = [words.format(report[key]) for key, words in TEXT_FIGURES.items() if report.get(key) is not None]
            if report:
                text += f", {report.get('kind')}: {', '.join(figures)}"
            origin = (read_json(path / "preparation.json", dict, notes) or {}).get("origin", {})
            sources = [_last_part(source["path"]) for source in origin.get("sources", ())]
            if sources:
                text += f"; sources: {', '.join(sources[:5])}" + (
                    f" and {len(sources) - 5} more" if sources[5:] else ""
                )
            found.append((text, origin.get("settings", {}).get("languages") or []))
    return found


def _task_data(record):
    """What a fine-tuned model was tuned on."""
    task = record.get("config", {}).get("finetune", {}).get("task")
    if not task:
        return []
    count = f"{record['config']['examples']:,} examples of " if "examples" in record["config"] else ""
    return [f"{count}the task {task['name']}" + (f" from {_last_part(task['data'])}" if task["data"] else "")]


def _results(model):
    """Scores on held-out data at the step that was exported, or at the evaluation before it."""
    record = model.record
    if "scores" in record:
        return [f"{split}: {_figures(scores)}" for split, scores in record["scores"].items()]
    if "phases" not in record.get("config", {}):
        return []
    run, _ = checkpoint.resolve(model.path)
    lines = [
        line for line in read_lines(run / METRICS) if line["split"] == "heldout" and line["step"] <= record["step"]
    ]
    names = ("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", "sop_loss", "sop_accuracy")
    return [
        f"held-out text, after step {line['step']:,}: " + _figures({name: line[name] for name in names if name in line})
        for line in lines[-1:]
    ]


def _figures(scores):
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def _settings(record):
    """All settings of the run, paths cut to their last part."""
    config = record.get("config", {})
    if "phases" not in config and "finetune" not in config:
        return ""
    return f"## Settings\n\n```json\n{json.dumps(_without_folders(config), indent=1)}\n```"


def _without_folders(value, key=""):
    if isinstance(value, dict):
        return {name: _without_folders(inner, name) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_folders(inner) for inner in value]
    return re.sub(r"[^;,]*/(?=[^/;,])", "", value) if key in FOLDERS and isinstance(value, str) else value


def _last_part(path):
    return str(path).rstrip("/").rsplit("/", 1)[-1]
