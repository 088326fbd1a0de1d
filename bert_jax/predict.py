"""The verb `predict`: what a model says of texts."""

import itertools
import json
import sys

from bert_jax.errors import UserError

DESCRIPTION = """Predicts from a model, ours or a Hugging Face folder. Inputs come as arguments, or one a line on
standard input; where one has several parts, tabs are between them:
  fill-mask  a text with [MASK]: the most probable tokens in its place
  classify   a text, or two: its label, with the probability of each
  regress    a text, or two: its number
  tag        a text, its words parted by spaces: a tag for each word
  answer     a question and a text: the part of the text that answers it
  choose     a beginning and two or more endings: the likeliest ending
  rerank     texts, and --query: the best match first (of a model for pairs)"""
EXAMPLE = """bert-jax predict --task=fill-mask --checkpoint=runs/quickstart "The [MASK] sat on the mat."
  bert-jax predict --task=classify --checkpoint=runs/mrpc $'A man eats.\\tSomeone is eating.'"""
TASKS = ("fill-mask", "classify", "regress", "tag", "answer", "choose", "rerank")
OF_EMPTY_TEXTS = ("classify", "regress", "tag")  # an empty line has a result, too, so that results keep their line
BATCH = 16  # inputs predicted together, so that results come while input goes on


def add_arguments(parser):
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="default: the lines of standard input")
    parser.add_argument("--task", required=True, choices=TASKS)
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="a run of ours, or a Hugging Face folder")
    parser.add_argument("--top", type=int, default=5, metavar="K", help="candidates shown: fill-mask, answer, rerank")
    parser.add_argument("--query", metavar="TEXT", help="of rerank: what the texts are to match")
    parser.add_argument("--may_be_none", action="store_true", help="of answer: also of a model that does not tell")
    parser.add_argument("--json", action="store_true", help="one JSON object an input")
    parser.add_argument("--attention", type=_numbers, metavar="N,N", help="of fill-mask, with --json: maps of layers")
    parser.add_argument("--hidden", type=_numbers, metavar="N,N", help="the same: states of layers; 0: embeddings")


def _numbers(text):
    return [int(part) for part in text.split(",")]


def run(args):
    _check(args)
    from bert_jax import fill_mask  # imported here: --help needs no jax
    from bert_jax.models import load_model

    lines = iter(args.inputs) if args.inputs else (line.rstrip("\n") for line in sys.stdin)
    inputs = (line for line in lines if line.strip() or args.task in OF_EMPTY_TEXTS)
    model = load_model(args.checkpoint)
    if args.task == "fill-mask":
        filler = fill_mask.mask_filler(model)
        _check_layers(args, filler.model.layers)
        for batch in _batches(inputs):
            results = filler.fill_mask(batch, args.top, args.attention or (), args.hidden or ())
            _print(args, results, fill_mask.in_words)
        return
    from bert_jax.tasks.predictor import TaskPredictor

    predictor, (predict, shown) = TaskPredictor(model, batch_size=BATCH), OF_TASK[args.task]
    for batch in [list(inputs)] if args.task == "rerank" else _batches(inputs):
        _print(args, predict(predictor, args, batch), shown)
    if predictor.truncated:
        print(f"{predictor.truncated:,} inputs were cut to {predictor.length} tokens", file=sys.stderr)


def _batches(inputs):
    return iter(lambda: list(itertools.islice(inputs, BATCH)), [])


def _check(args):
    if (args.attention or args.hidden) and not (args.json and args.task == "fill-mask"):
        raise UserError("--attention and --hidden write JSON: give --json and --task=fill-mask too")
    if args.top < 1:
        raise UserError(f"--top is {args.top}: expected 1 or more")
    if args.may_be_none and args.task != "answer":
        raise UserError("--may_be_none is of --task=answer alone")
    if (args.query is None) == (args.task == "rerank"):
        raise UserError("--task=rerank needs --query, and no other task has one")


def _check_layers(args, layers):
    for option, first in (("attention", 1), ("hidden", 0)):
        for layer in getattr(args, option) or ():
            if not first <= layer <= layers:
                raise UserError(f"--{option}={layer}: expected {first} to {layers} (the layers)")


def _print(args, results, shown):
    for result in results:
        print(json.dumps(result, ensure_ascii=False) if args.json else shown(result), flush=True)


def _parts(text, least, most):
    """The parts of an input; UserError for fewer or more of them."""
    parts = text.split("\t")
    if not least <= len(parts) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise UserError(f"an input of {len(parts)} parts: expected {wanted}, parted by tabs: {text[:60]!r}")
    return parts


def _texts_or_pairs(function, inputs):
    parts = [_parts(text, 1, 2) for text in inputs]
    for count, group in itertools.groupby(parts, key=len):  # rows of single texts and of pairs are made apart
        first, *second = zip(*group, strict=True)
        yield from function(first, second[0] if count == 2 else None)


def _answer(predictor, args, inputs):
    questions, contexts = zip(*(_parts(text, 2, 2) for text in inputs), strict=True)
    return predictor.answer(questions, contexts, args.top, args.may_be_none or None)


def _choose(predictor, args, inputs):
    for context, *endings in (_parts(text, 3, 100) for text in inputs):
        yield predictor.choose(context, endings)


# What each task makes of a batch of inputs, and a result as a line.
OF_TASK = {
    "classify": (
        lambda predictor, args, inputs: _texts_or_pairs(predictor.classify, inputs),
        lambda result: f"{result['label']} {result['probability']:.3f}",
    ),
    "regress": (
        lambda predictor, args, inputs: _texts_or_pairs(predictor.regress, inputs),
        lambda result: f"{result['score']:.4f}",
    ),
    "tag": (
        lambda predictor, args, inputs: predictor.tag([text.split() for text in inputs]),
        lambda result: " ".join(f"{word}/{tag}" for word, tag in zip(result["words"], result["tags"], strict=True)),
    ),
    "answer": (
        _answer,
        lambda result: "\n".join(f"{one['probability']:.3f} {one['text'] or '(none)'}" for one in result["n_best"]),
    ),
    "choose": (_choose, lambda result: f"{result['probability']:.3f} {result['ending']}"),
    "rerank": (
        lambda predictor, args, inputs: predictor.rerank(args.query, inputs)[: args.top],
        lambda result: f"{result['score']:.4f} {result['text']}",
    ),
}
