"""The verb `predict`: what a pretrained checkpoint puts in place of [MASK]."""

import dataclasses
import functools
import itertools
import json
import sys

import jax
import numpy as np

from bert_jax.errors import UserError
from bert_jax.model import encoder, heads
from bert_jax.model.presets import ComputeConfig, EncoderConfig
from bert_jax.models import load_model

DESCRIPTION = """Predicts from a checkpoint. fill-mask: the most probable tokens in place of each [MASK]. Texts come as
arguments, or one a line on standard input."""
EXAMPLE = 'bert-jax predict --task=fill-mask --checkpoint=runs/quickstart "The [MASK] sat on the mat."'
COMPUTE = ComputeConfig()
BATCH = 16  # texts predicted together; fixed, as the program is compiled for it
LENGTH_STEP = 32  # lengths are rounded up to a multiple, for the same reason


def add_arguments(parser):
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a text with [MASK] in it (default: standard input)")
    parser.add_argument("--task", required=True, choices=["fill-mask"])
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="a run of ours, or a Hugging Face folder")
    parser.add_argument("--top", type=int, default=5, metavar="K", help="tokens shown for each [MASK] (default 5)")
    parser.add_argument("--json", action="store_true", help="one JSON object a text")
    parser.add_argument("--attention", type=_numbers, metavar="N,N", help="with --json: attention maps of these layers")
    parser.add_argument(
        "--hidden", type=_numbers, metavar="N,N", help="with --json: hidden states; 0 is the embeddings"
    )


def _numbers(text):
    return [int(part) for part in text.split(",")]


def run(args):
    if (args.attention or args.hidden) and not args.json:
        raise UserError("--attention and --hidden write JSON: give --json too")
    if args.top < 1:
        raise UserError(f"--top is {args.top}: expected 1 or more")
    predictor = load_predictor(args.checkpoint)
    for option, first in (("attention", 1), ("hidden", 0)):
        for layer in getattr(args, option) or ():
            if not first <= layer <= predictor.model.layers:
                raise UserError(f"--{option}={layer}: expected {first} to {predictor.model.layers} (the layers)")
    lines = iter(args.texts) if args.texts else (line.rstrip("\n") for line in sys.stdin)
    texts = (line for line in lines if line.strip())
    for batch in iter(lambda: list(itertools.islice(texts, BATCH)), []):
        for result in predictor.fill_mask(batch, args.top, args.attention or (), args.hidden or ()):
            print(json.dumps(result, ensure_ascii=False) if args.json else in_words(result), flush=True)


def in_words(result):
    lines = [result["text"]]
    for number, candidates in enumerate(result["predictions"], 1):
        shown = "  ".join(f"{c['token']} {c['probability']:.3f}" for c in candidates)
        lines.append(f"  [{number}] {shown}" if len(result["predictions"]) > 1 else f"  {shown}")
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Predictor:
    """A checkpoint's model, parameters and tokenizer."""

    model: EncoderConfig
    params: dict
    tokenizer: object

    def fill_mask(self, texts, top=5, attention=(), hidden=()):
        """For each text (at most BATCH) a dict: `text`, `tokens` (pieces), `predictions`: a list a [MASK] of the `top`
        {token, id, probability}; and for the layers asked for `attention` {n: [H, L, L]} and `hidden` {n: [L, D]}.

        Raises UserError for a text without [MASK] or longer than the model's positions.
        """
        rows = [self._ids(text) for text in texts]
        batch = self._batch(rows)
        states, maps, logits = _forward(self.model, self.params, batch, bool(attention or hidden))
        probabilities = np.asarray(jax.nn.softmax(logits))
        results = []
        for n, (text, ids) in enumerate(zip(texts, rows, strict=True)):
            masks = np.flatnonzero(np.array(ids) == self.tokenizer.mask_id)
            result = {"text": text, "tokens": self.tokenizer.tokens(ids)}
            result["predictions"] = [self._top(probabilities[n, p], top) for p in range(len(masks))]
            size = len(ids)
            if attention:
                result["attention"] = {str(m): np.asarray(maps[m - 1, n, :, :size, :size]).tolist() for m in attention}
            if hidden:
                result["hidden"] = {str(m): np.asarray(states[m, n, :size]).tolist() for m in hidden}
            results.append(result)
        return results

    def _ids(self, text):
        t = self.tokenizer
        ids = [t.cls_id, *t.encode_special(text), t.sep_id]
        if t.mask_id not in ids:
            raise UserError(f"no [MASK] in the text {text[:60]!r}")
        if len(ids) > self.model.max_positions:
            raise UserError(f"a text of {len(ids)} tokens: the model reads {self.model.max_positions}: {text[:60]!r}")
        return ids

    def _batch(self, rows):
        """Arrays of fixed shapes, so that few programs are compiled: padded rows, lengths and numbers of masks."""
        length = min(-(-max(map(len, rows)) // LENGTH_STEP) * LENGTH_STEP, self.model.max_positions)
        ids = np.full((BATCH, length), self.tokenizer.pad_id, np.int32)
        for row, values in zip(ids, rows, strict=False):
            row[: len(values)] = values
        is_mask = ids == self.tokenizer.mask_id
        most = 2 ** int(np.ceil(np.log2(is_mask.sum(1).max())))
        positions = np.argsort(~is_mask, axis=1, kind="stable")[:, :most]
        return {"input_ids": ids, "mask": ids != self.tokenizer.pad_id, "positions": positions}

    def _top(self, probabilities_V, top):
        best = np.argsort(-probabilities_V, kind="stable")[:top]
        names = self.tokenizer.tokens(best)
        return [
            {"token": name, "id": int(i), "probability": float(probabilities_V[i])}
            for name, i in zip(names, best, strict=True)
        ]


def load_predictor(path):
    """The Predictor of what --checkpoint=PATH names (`models.load_model`)."""
    model = load_model(path)
    if "mlm" not in model.params:
        raise UserError(
            f"--checkpoint {path} has no MLM head, which fill-mask needs: it holds {', '.join(model.params)}"
        )
    return Predictor(model.config, model.params, model.tokenizer)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _forward(model, params, batch, all_layers):
    """(hidden [N+1, B, L, D], attention [N, B, H, L, L]) where asked for, and logits [B, P, V]."""
    inputs = batch["input_ids"], None, batch["mask"]
    if all_layers:
        states, maps = encoder.encode_layers(params, model, COMPUTE, *inputs)
        last = states[-1]
    else:
        states = maps = None
        last = encoder.encode(params, model, COMPUTE, *inputs)
    gathered = heads.gather_positions(last, batch["positions"])
    return states, maps, heads.mlm_logits(params, model, COMPUTE, gathered)[..., : model.vocab_size]
