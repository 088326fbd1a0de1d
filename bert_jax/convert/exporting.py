"""The verb `export`: a checkpoint as a folder that transformers and sentence-transformers load, with its proof."""

import dataclasses
from pathlib import Path

from bert_jax.convert.new_folder import check_new, new_folder
from bert_jax.errors import UserError

DESCRIPTION = """Writes a model as a folder for transformers (of an embedding, also for sentence-transformers): config,
weights as safetensors, tokenizer, model card, and parity.json, the largest difference of its outputs on fixed inputs.
An export that differs by more than 0.001 is refused. Neither torch nor transformers is needed."""
EXAMPLE = "bert-jax export --checkpoint=runs/base --out=bert-mine"

# What each choice of --head writes, beside embeddings and layers: those parts, of those that the class needs.
HEADS = {"none": ("pooler",), "mlm": ("mlm",), "pretraining": ("pooler", "mlm", "nsp")}
TASKS = {"tag": ("task",), "answer": ("task",), "embed": ("pooler",)}  # the others: pooler and task
CHOICES = (*HEADS, "task")


def add_arguments(parser):
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="a run of ours, or a Hugging Face folder")
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder; it is there whole or not at all")
    parser.add_argument("--head", choices=CHOICES, help="default: the task's, else what there is of pretraining's")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the weights on disk")
    parser.add_argument("--max_shard_gb", type=float, default=5.0, metavar="GB", help="larger weights go to more files")
    parser.add_argument("--verify", choices=("transformers",), help="compare with transformers and torch, too")


def run(args):
    from bert_jax.models import load_model  # imported here: --help needs no jax

    check_new(args.out)
    if not args.max_shard_gb > 0:
        raise UserError(f"--max_shard_gb={args.max_shard_gb}: expected more than 0")
    model = load_model(args.checkpoint)
    lines = export_model(model, args.out, args.head, args.dtype, args.max_shard_gb, args.verify is not None)
    print("\n".join(lines))
    print(f"exported: {args.out}")


def export_model(model, out, choice=None, dtype="float32", max_shard_gb=5.0, with_transformers=False):
    """Writes the Model to the new folder `out` and returns what is to be told of it, in lines.

    choice: one of CHOICES, None for the default. Raises UserError, and leaves nothing, where the model has no such
    head, where `out` is not empty, and where the written files do not give the model's outputs.
    """
    from bert_jax.convert.card import model_card
    from bert_jax.convert.folder import write_folder, write_json
    from bert_jax.convert.parity import check_export, in_words

    params, config, head, notes = parts_of(model, choice)
    with new_folder(out) as partial:
        write_folder(partial, params, config, head, model.tokenizer, dtype, max_shard_gb)
        report = check_export(partial, params, config, head, dtype, with_transformers)
        write_json(partial / "parity.json", report)
        lines = [*notes, *in_words(report)]
        card = model_card(model, Path(out).name, params, head, dtype, lines)
        (partial / "README.md").write_text(card, encoding="utf-8")
    return lines


def parts_of(model, choice=None):
    """(params, config, head, notes) of what is exported: just the parts of one class of transformers.

    notes: in words, what the export holds that the model does not. Raises UserError for a head that it lacks.
    """
    import jax.numpy as jnp

    params, head = model.params, model.head
    if choice is None:
        whole = [name for name in ("pretraining", "mlm") if all(part in params for part in HEADS[name])]
        choice = "task" if head is not None else (whole or ["none"])[0]
    if choice == "task" and head is None:
        _refuse(model, choice, "no task")
    head = head if choice == "task" else None
    wanted = TASKS.get(head.kind, ("pooler", "task")) if head else HEADS[choice]
    parts = {name: params[name] for name in ("embeddings", "layers", *wanted) if name in params}
    notes = []
    if wanted == ("pooler",) and "pooler" not in params:
        hidden = model.config.hidden
        parts["pooler"] = {"dense": {"kernel": jnp.zeros((hidden, hidden)), "bias": jnp.zeros(hidden)}}
        notes.append("BertModel has a pooler and this model has none: it is written as 0, so is its pooler_output")
    lacking = [name for name in wanted if name not in parts]
    if lacking:
        _refuse(model, choice, " and ".join(f"no {name}" for name in lacking))
    if "nsp" in parts and model.config.sentence_head == "sop":
        notes.append("its next-sentence head tells whether two texts are in order (0) or swapped (1)")
    # Without an MLM head there is no decoder that could be untied.
    config = model.config if "mlm" in parts else dataclasses.replace(model.config, tied_decoder=True)
    return parts, config, head, notes


def _refuse(model, choice, lacking):
    raise UserError(f"--head={choice}: {model.path} has {lacking}; it has {', '.join(model.params)}")
