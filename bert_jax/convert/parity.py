"""The proof that an exported folder computes what our parameters do.

Three checks, each on the files as they were written. Our own importer reads back the same bits. A second forward pass
in float64 (`reference`), which shares no table of names with it, gives our outputs on fixed inputs. So do the classes
of transformers, where that is asked for.
"""

import dataclasses
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from bert_jax.convert.folder import DTYPES
from bert_jax.convert.huggingface import read_folder
from bert_jax.convert.reference import reference_outputs
from bert_jax.convert.weights import find_weights, read_weights
from bert_jax.errors import UserError
from bert_jax.model import encoder, heads
from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import task_outputs

LIMIT = 1e-3  # the largest difference of an output that is let pass
LENGTHS = (64, 41, 17, 3)  # tokens of the fixed inputs, where the model has so many positions
COMPUTE = ComputeConfig(remat="none")


def check_export(folder, params, config, head, dtype, with_transformers=False):
    """The report of an exported folder, JSON; UserError where it is not what our parameters are.

    params, config, head, dtype: what was written (`folder.write_folder`). The report holds the inputs and, under the
    name of each comparison, the largest difference of each output at real tokens: numpy and, where asked for,
    transformers, both against our parameters as they were written; rounding, of bfloat16 alone: these against ours in
    float32.
    """
    written = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32).astype(DTYPES[dtype]).astype(np.float32), params)
    _check_read_back(folder, written, config, head)
    inputs = fixed_inputs(config)
    ours = our_outputs(written, config, head, inputs)
    compared = {"numpy": reference_outputs(folder, read_weights(find_weights(folder)), inputs)}
    if with_transformers:
        compared["transformers"] = transformers_outputs(folder, inputs)
    report = {"dtype": dtype, "limit": LIMIT, "read_back": "equal bit for bit"}
    for name, theirs in compared.items():
        report[name] = differences(ours, theirs, inputs["mask"])
        largest = max(report[name], key=lambda output: np.nan_to_num(report[name][output], nan=np.inf))
        if not report[name][largest] <= LIMIT:
            raise UserError(
                f"parity: {largest} of the exported files differs by {report[name][largest]:.2g} ({name}), expected "
                f"{LIMIT} at most: nothing is written"
            )
    if dtype != "float32":
        report["rounding"] = differences(ours, our_outputs(params, config, head, inputs), inputs["mask"])
    shown = {name: inputs[name].tolist() for name in ("input_ids", "token_type_ids")}
    return report | {"inputs": shown | {"lengths": inputs["mask"].sum(1).tolist()}}


def fixed_inputs(config):
    """Four rows of ids from all over the vocabulary with padding of id 0; the second half of a row has type 1."""
    lengths = np.minimum(LENGTHS, config.max_positions)[:, None]
    places = np.arange(lengths.max())
    mask = places < lengths
    ids = (places * 7919 + np.arange(len(LENGTHS))[:, None] * 104_729 + 101) % config.vocab_size
    types = (places >= lengths // 2) & mask & (config.segment_types > 1)
    return {"input_ids": (ids * mask).astype(np.int32), "token_type_ids": types.astype(np.int32), "mask": mask}


def our_outputs(params, config, head, inputs):
    """The outputs of our model by the names of `reference_outputs`, float32."""
    params, batch = jax.tree.map(jnp.asarray, (params, inputs))
    # Devices that multiply float32 in fewer bits by default must not do so here.
    with jax.default_matmul_precision("highest"):
        hidden = encoder.encode(params, config, COMPUTE, batch["input_ids"], batch["token_type_ids"], batch["mask"])
        outputs = {"hidden": hidden}
        if "pooler" in params:
            outputs["pooled"] = encoder.bind(heads.Pooler, config, COMPUTE, params["pooler"])(hidden[:, 0])
        if "mlm" in params:
            outputs["mlm"] = heads.mlm_logits(params, config, COMPUTE, hidden)[..., : config.vocab_size]
        if "nsp" in params:
            outputs["nsp"] = heads.sentence_logits(params, config, COMPUTE, hidden)
        if head is not None:
            outputs["task"] = task_outputs(params, config, COMPUTE, head, batch)
    return {name: np.asarray(array) for name, array in outputs.items()}


def differences(ours, theirs, mask):
    """The largest absolute difference of each output that both have, at real tokens where an output has tokens."""
    largest = {}
    for name in theirs:
        with np.errstate(invalid="ignore"):  # infinite less infinite is NaN, which passes no limit
            found = np.abs(ours[name].reshape(theirs[name].shape) - theirs[name])
        largest[name] = float((found[mask] if found.ndim == 3 else found).max())
    return largest


def _check_read_back(folder, written, config, head):
    """Raises UserError unless our importer makes the same parameters, bit for bit, architecture and head of the files.

    What a folder does not tell may differ: padded rows, whether sentences were learnt as nsp or sop, and the length
    that a head was tuned on.
    """
    there, params, there_head, _, _ = read_folder(folder)
    told = {name: getattr(there, name) for name in ("vocab_multiple", "sentence_head")}
    length = there_head.length if there_head else 0
    if there != dataclasses.replace(config, **told) or there_head != (
        head and dataclasses.replace(head, length=length)
    ):
        raise UserError(f"parity: {folder} reads back as another model ({there}, {there_head}): nothing is written")
    ours, read = (_flat_unpadded(tree, config) for tree in (written, params))
    for name in sorted(set(ours) | set(read)):
        if name not in ours or name not in read or not np.array_equal(ours[name].view("u4"), read[name].view("u4")):
            raise UserError(f"parity: {name} does not read back as it was: nothing is written")


def _flat_unpadded(params, config):
    flat = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        flat[name] = leaf[: config.vocab_size] if re.fullmatch(heads.PADDED_ROWS, name) else leaf
    return flat


def transformers_outputs(folder, inputs):
    """What the class of transformers that config.json names gives, by the names of `reference_outputs`.

    Raises UserError where it is not installed, and where it finds a weight missing, left over or of another shape.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise UserError(
            f"--verify=transformers: {error.name} is not installed: expected torch and transformers"
        ) from error
    name = json.loads((Path(folder) / "config.json").read_text())["architectures"][0]
    model, told = getattr(transformers, name).from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    wrong = [f"{kind}: {', '.join(map(str, names))}" for kind, names in told.items() if names]
    if wrong:
        raise UserError(f"parity: {name} of transformers does not load all as it is ({'; '.join(wrong)})")
    rows = {key: torch.tensor(array).long() for key, array in inputs.items()}
    rows["attention_mask"] = rows.pop("mask")
    if name == "BertForMultipleChoice":
        rows = {key: array[:, None] for key, array in rows.items()}
    with torch.no_grad():
        given = model.eval()(**rows, output_hidden_states=True)
        hidden, base = given.hidden_states[-1], getattr(model, "bert", model)
        outputs = {"hidden": hidden}
        if base.pooler is not None:
            outputs["pooled"] = base.pooler(hidden)
    if name == "BertForQuestionAnswering":
        outputs["task"] = torch.stack([given.start_logits, given.end_logits], -1)
    elif name == "BertForPreTraining":
        outputs |= {"mlm": given.prediction_logits, "nsp": given.seq_relationship_logits}
    elif name != "BertModel":
        outputs["mlm" if name == "BertForMaskedLM" else "task"] = given.logits
    return {key: array.numpy() for key, array in outputs.items()}


def in_words(report):
    """The report in lines."""
    lines = [f"read back by bert-jax: {report['read_back']}"]
    for name, words in (
        ("numpy", "a second forward pass in float64"),
        ("transformers", "transformers"),
        ("rounding", "our float32 weights, before rounding"),
    ):
        if name in report:
            figures = ", ".join(f"{output} {value:.1e}" for output, value in report[name].items())
            lines.append(f"largest difference to {words}: {max(report[name].values()):.1e} ({figures})")
    return lines
