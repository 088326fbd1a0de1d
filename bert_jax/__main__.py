"""The `bert-jax VERB` command: parses the verb and hands over to its module."""

import argparse
import errno
import importlib
import sys

from bert_jax.errors import PREEMPTED_STATUS, USER_ERROR_STATUS, Preempted, UserError

# verb: (module with DESCRIPTION, EXAMPLE, add_arguments(parser) and run(args), one-line summary)
VERBS = {
    "vocab": ("bert_jax.text.vocab", "train a vocabulary from text"),
    "vocab extend": ("bert_jax.text.extend", "add words to a vocabulary"),
    "prepare": ("bert_jax.prepare", "turn text into training examples"),
    "pretrain": ("bert_jax.pretrain", "pretrain an encoder; run again to resume"),
    "import": ("bert_jax.convert.importing", "make a checkpoint of a Hugging Face or Google model"),
    "export": ("bert_jax.convert.exporting", "write a checkpoint as a folder for transformers"),
    "finetune": ("bert_jax.finetune", "fine-tune an encoder on a task; run again to resume"),
    "evaluate": ("bert_jax.tasks.evaluate", "score a model on labelled examples"),
    "embed": ("bert_jax.embed", "write a vector for each text"),
    "search": ("bert_jax.search", "find the texts closest to a query"),
    "predict": ("bert_jax.predict", "predict from a checkpoint"),
    "report": ("bert_jax.report.write", "write a run's report as one HTML file"),
}


def _usage():
    lines = ["usage: bert-jax VERB [options]    (bert-jax VERB --help tells more)", ""]
    lines += [f"  {verb:12} {summary}" for verb, (_, summary) in VERBS.items()]
    return "\n".join(lines)


def run_verb(verb, arguments):
    """Runs one verb in this process; raises UserError and Preempted to the caller."""
    module = importlib.import_module(VERBS[verb][0])
    parser = argparse.ArgumentParser(
        prog=f"bert-jax {verb}",
        description=module.DESCRIPTION,
        epilog="example:\n  " + module.EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    if hasattr(module, "run_with_overrides"):  # verbs that read a config: --config.key=value
        args, overrides = parser.parse_known_args(arguments)
        return module.run_with_overrides(args, overrides)
    return module.run(parser.parse_args(arguments))


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    words = 2 if " ".join(arguments[:2]) in VERBS else 1
    verb, arguments = " ".join(arguments[:words]), arguments[words:]
    if verb not in VERBS:
        print(f"bert-jax: no verb {verb!r}; the verbs are {', '.join(VERBS)}", file=sys.stderr)
        return USER_ERROR_STATUS
    return reported(f"bert-jax {verb}", lambda: run_verb(verb, arguments))


def reported(name, function):
    """The exit status of a call; what ends it on purpose, and a full or read-only disk, is told in one line."""
    try:
        function()
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return USER_ERROR_STATUS
    except Preempted as stop:
        print(f"{name}: {stop}", file=sys.stderr)
        return PREEMPTED_STATUS
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        print(f"{name}: {error}", file=sys.stderr)
        return USER_ERROR_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main())
