"""The verb `finetune`: flags, signals, and the loop of tasks/finetune.py or the runs of tasks/sweep.py."""

import dataclasses
import signal
import threading

from bert_jax.errors import UserError
from bert_jax.pretrain import Stopper

DESCRIPTION = """Fine-tunes a pretrained encoder on a task and scores it. The best weights by the first held-out split
go to WORKDIR/best, predictions to WORKDIR/predictions, scores to WORKDIR/summary.json; WORKDIR is then a --checkpoint
for every other verb. Run the same command again to resume; SIGTERM or Ctrl-C saves first and exits with status 75."""
EXAMPLE = "bert-jax finetune --config=configs/glue.py:mrpc --checkpoint=runs/base --workdir=runs/mrpc"


def add_arguments(parser):
    parser.add_argument("--config", required=True, metavar="FILE[:ARG]", help="recipe; --config.key=value changes it")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="a run of ours, or a Hugging Face folder")
    parser.add_argument("--workdir", required=True, metavar="DIR", help="all that comes out goes here")
    parser.add_argument("--sweep", action="store_true", help="try all combinations of config.sweep; print a table")
    parser.add_argument("--seeds", type=int, metavar="N", help="a sweep over seeds 0 to N - 1 of the one setting")
    parser.add_argument(
        "--train_examples", type=int, metavar="N", help="a sweep over N labelled examples, N/2, N/4, ... down to 32"
    )
    parser.add_argument("--submission", metavar="ZIP", help="add the test predictions as the GLUE benchmark wants them")


def run_with_overrides(args, overrides):
    from bert_jax import config, parallel  # imported here: --help needs no jax
    from bert_jax.tasks.config import FinetuneConfig

    settings = config.load([f"--config={args.config}", *overrides], FinetuneConfig)
    settings, sweeps = _swept(settings, args)
    if sweeps and args.submission:
        raise UserError("--submission is of one run: give no --sweep, --seeds or --train_examples with it")
    parallel.keep_freed_memory(settings.platform)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, Stopper(stop))
    _run(settings, args, sweeps, stop)


def _run(settings, args, sweeps, stop):
    from bert_jax.models import load_model
    from bert_jax.report.write import write_report
    from bert_jax.tasks import finetune, submission, sweep

    model = load_model(args.checkpoint)
    if sweeps:
        print(sweep.in_markdown(sweep.sweep(settings, model, args.workdir, stop=stop)), end="")
    else:
        finetune.finetune(settings, model, args.workdir, stop=stop)
    print(f"report: {write_report(args.workdir)}")
    if args.submission:
        print(submission.add_run(args.workdir, settings.task.name, args.submission))


def _swept(settings, args):
    """(the config with what the flags ask for in its sweep, whether there is one)."""
    if not (args.sweep or args.seeds or args.train_examples):
        return settings, False
    changes = {} if args.sweep else dict.fromkeys(("learning_rates", "epochs", "seeds", "train_examples"), ())
    if args.seeds is not None:
        if args.seeds < 1:
            raise UserError(f"--seeds={args.seeds}: expected 1 or more")
        changes["seeds"] = tuple(range(args.seeds))
    if args.train_examples is not None:
        if args.train_examples < 1:
            raise UserError(f"--train_examples={args.train_examples}: expected 1 or more")
        changes["train_examples"] = halved(args.train_examples)
    return dataclasses.replace(settings, sweep=dataclasses.replace(settings.sweep, **changes)), True


def halved(examples, least=32):
    """`examples`, half of it, half of that and so on, as long as there are `least` or more; ascending."""
    sizes = [examples]
    while sizes[-1] // 2 >= least:
        sizes.append(sizes[-1] // 2)
    return tuple(reversed(sizes))
