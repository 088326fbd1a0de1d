"""What a pretrained model puts in place of [MASK]."""

import dataclasses
import functools

import jax
import numpy as np

from bert_jax.errors import UserError
from bert_jax.model import encoder, heads
from bert_jax.model.presets import ComputeConfig, EncoderConfig
from bert_jax.models import Model

COMPUTE = ComputeConfig()
BATCH = 16  # texts predicted together; fixed, as the program is compiled for it
LENGTH_STEP = 32  # lengths are rounded up to a multiple, for the same reason


@dataclasses.dataclass(frozen=True)
class MaskFiller:
    """A model with an MLM head, its parameters and tokenizer."""

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


def mask_filler(model: Model) -> MaskFiller:
    """The MaskFiller of a models.Model; UserError for one without an MLM head."""
    if "mlm" not in model.params:
        raise UserError(f"{model.path} has no MLM head, which fill-mask needs: it holds {', '.join(model.params)}")
    return MaskFiller(model.config, model.params, model.tokenizer)


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


def in_words(result):
    """One result of `fill_mask` as lines: the text, and below it the candidates of each [MASK]."""
    lines = [result["text"]]
    for number, candidates in enumerate(result["predictions"], 1):
        shown = "  ".join(f"{c['token']} {c['probability']:.3f}" for c in candidates)
        lines.append(f"  [{number}] {shown}" if len(result["predictions"]) > 1 else f"  {shown}")
    return "\n".join(lines)
