"""The verb `import`: a model of Hugging Face's or Google's as a checkpoint of ours."""

import dataclasses

from bert_jax.convert.new_folder import check_new, new_folder
from bert_jax.errors import UserError

DESCRIPTION = """Writes a model as a checkpoint of this project: a Hugging Face folder (safetensors, or .bin, of which
no code is run), a file of weights beside its config.json, or Google's files (bert_config.json and bert_model.ckpt.*,
extra [tf]). Neither torch nor transformers is needed. --config.init_from takes such folders as they are, too."""
EXAMPLE = "bert-jax import --checkpoint=bert-base-uncased/ --out=runs/bert-base-uncased"

SHOWN = 5  # names told in full


def add_arguments(parser):
    parser.add_argument("--checkpoint", required=True, metavar="PATH", help="the folder or file to read")
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder: checkpoints/0 and tokenizer")


def run(args):
    from bert_jax.checkpoint import save_weights  # imported here: --help needs no jax
    from bert_jax.models import load_model

    check_new(args.out)
    model = load_model(args.checkpoint)
    if "account" not in model.record:
        raise UserError(f"--checkpoint {args.checkpoint}: is a checkpoint of ours already")
    head = model.head and dataclasses.asdict(model.head)
    record = {"step": 0, "phase": 1, "heldout_loss": None, "head": head, "origin": str(args.checkpoint)}
    with new_folder(args.out) as partial:
        model.tokenizer.save(partial / "tokenizer")
        save_weights(partial, model.params, record | {"config": {"model": dataclasses.asdict(model.config)}})
    print(account_in_words(model.record["account"]))
    print(f"checkpoint: {args.out}")


def account_in_words(account):
    """An Account, as a dict, in lines; what there is nothing to say of is left out."""
    lines = [f"taken: {', '.join(account['taken'])}"]
    for name, words in (
        ("missing", "not there (drawn anew where it is needed)"),
        ("ignored", "left over from training, ignored"),
        ("unused", "unknown, not used"),
    ):
        found = account[name]
        if found:
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            lines.append(f"{words}: {', '.join(found[:SHOWN])}{more}")
    return "\n".join(lines)
