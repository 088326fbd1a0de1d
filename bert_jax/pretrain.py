"""The verb `pretrain`: flags, signals, and the loop of train.py."""

import signal
import threading

from bert_jax.errors import UserError

DESCRIPTION = """Pretrains an encoder on prepared data. Run the same command again to resume: weights, moments,
learning rate and data position go on where they stopped. SIGTERM or Ctrl-C saves first and exits with status 75."""
EXAMPLE = "bert-jax pretrain --config=configs/bert_base.py --config.phases.phase1.data=DATA --workdir=runs/base"


def add_arguments(parser):
    parser.add_argument("--config", required=True, metavar="FILE[:ARG]", help="recipe; --config.key=value changes it")
    parser.add_argument("--workdir", required=True, metavar="DIR", help="checkpoints, metrics and config go here")
    parser.add_argument("--profile", metavar="STEP:STEPS", help="trace so many steps after this one for TensorBoard")
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="with several processes: that of process 0")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="how many processes run together")
    parser.add_argument("--process", type=int, default=0, metavar="I", help="which of them this is, from 0")


def run_with_overrides(args, overrides):
    from bert_jax import config, parallel, train  # imported here: --help needs no jax

    settings = config.load([f"--config={args.config}", *overrides])
    profile = _profile(args.profile)
    parallel.keep_freed_memory(settings.platform)
    parallel.start_processes(args.coordinator, args.processes, args.process)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, Stopper(stop))
    return train.train(settings, args.workdir, stop=stop, profile=profile)


class Stopper:
    """Asks the loop to save and stop at the first signal; at a second one of Ctrl-C gives up at once."""

    def __init__(self, stop):
        self._stop = stop

    def __call__(self, number, frame):
        if self._stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._stop.set()


def _profile(text):
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) < 1:
        raise UserError(f"--profile {text}: expected STEP:STEPS, as in 100:5")
    return int(parts[0]), int(parts[1])
