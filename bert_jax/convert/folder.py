"""The files of a folder that transformers and sentence-transformers load: config, weights, tokenizer, modules."""

import json
import unicodedata
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors.numpy
import tokenizers
from tokenizers import processors

from bert_jax.convert import names
from bert_jax.convert.huggingface import config_to_theirs
from bert_jax.convert.sentencepiece_json import sentencepiece_as_json
from bert_jax.errors import UserError
from bert_jax.text.adversarial import ADVERSARIAL_SAMPLE
from bert_jax.text.backends import HuggingFaceTokens, SentencePieceTokens
from bert_jax.text.tokenizer import Tokenizer

GIGABYTE = 10**9  # as transformers counts them
DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def write_folder(folder, params, config, head, tokenizer, dtype, max_shard_gb):
    """Writes the files into an existing folder.

    params and head are those of one class of transformers (`exporting.parts_of`): none is missing there and none is
    left over. dtype: one of DTYPES. Weights of more than `max_shard_gb` GB go to several files, with an index.
    """
    folder = Path(folder)
    settings = config_to_theirs(config, params, head)
    write_json(folder / "config.json", settings | {"pad_token_id": tokenizer.pad_id, "dtype": dtype})
    tensors = names.to_theirs(params, config, head)
    tensors = {name: array.astype(DTYPES[dtype]) for name, array in tensors.items()}
    save_tensors(folder, tensors, max_shard_gb * GIGABYTE)
    save_tokenizer(folder, tokenizer, config.max_positions)
    if head is not None and head.kind == "embed":
        _save_modules(folder, head, config)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def save_tensors(folder, tensors, most_bytes):
    """Writes model.safetensors, or shards of at most `most_bytes` and their index; a larger tensor is a shard alone."""
    shards, room = [{}], most_bytes
    for name, array in sorted(tensors.items()):
        if array.nbytes > room and shards[-1]:
            shards.append({})
            room = most_bytes
        shards[-1][name] = array
        room -= array.nbytes
    files = ["model.safetensors"]
    if len(shards) > 1:
        files = [f"model-{n:05}-of-{len(shards):05}.safetensors" for n in range(1, len(shards) + 1)]
        total = sum(array.nbytes for array in tensors.values())
        places = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
        write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": places})
    for file, shard in zip(files, shards, strict=True):
        # The format says whose layout of weights it is; without it transformers refuses the file.
        (folder / file).write_bytes(safetensors.numpy.save(shard, {"format": "pt"}))


def save_tokenizer(folder, tokenizer, length):
    """Writes the tokenizer's files, with a limit of `length` tokens: transformers then makes the rows that
    `tasks.features.encode_rows` makes.

    A SentencePiece model becomes a tokenizer.json, as transformers reads no other file of it beside BERT. Raises
    UserError where ids would differ.
    """
    backend = tokenizer.backend
    if isinstance(backend, SentencePieceTokens):
        definition = sentencepiece_as_json(backend)
    else:
        definition = json.dumps(_with_lead(backend.definition) if backend.splitter.lead else backend.definition)
    fast = tokenizers.Tokenizer.from_str(definition)
    cls, sep = backend.names["cls"], backend.names["sep"]
    fast.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, tokenizer.cls_id), (sep, tokenizer.sep_id)],
    )
    _check_ids(fast, tokenizer)
    Tokenizer(HuggingFaceTokens(fast.to_str(), backend.path)).save(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    # This class takes tokenizer.json as it is; BertTokenizer makes a tokenizer of its own out of the vocabulary.
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length}
    write_json(path, settings | {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]})


def _with_lead(definition):
    """The tokenizer.json that puts a space before a text itself, as `encode` of `HuggingFaceTokens` does."""
    before = definition["pre_tokenizer"] or {}
    if before.get("type") == "ByteLevel":
        return definition | {"pre_tokenizer": before | {"add_prefix_space": True}}
    return definition  # another kind: whether it gives our ids is checked


def _check_ids(fast, tokenizer):
    """Raises UserError where adversarial text gives other ids than ours.

    Left out is text that spells special tokens, which in transformers means them, and accents that are not composed
    (Unicode's NFC composes them): SentencePiece's tables and `tokenizers` part such text differently.
    """
    texts = [unicodedata.normalize("NFC", text) for text in ADVERSARIAL_SAMPLE]
    texts = [text for text in texts if not any(name in text for name in tokenizer.backend.special_names)]
    ids, offsets = tokenizer.encode(texts)
    for row, text in enumerate(texts):
        ours = [tokenizer.cls_id, *ids[offsets[row] : offsets[row + 1]].tolist(), tokenizer.sep_id]
        if fast.encode(text).ids != ours:
            raise UserError(
                f"{tokenizer.backend.path}: no tokenizer.json of Hugging Face gives the ids of this tokenizer (they "
                f"differ on {text[:20]!r}): it cannot be exported"
            )


def _save_modules(folder, head, config):
    """What makes it a folder of sentence-transformers, in the names that all its versions read."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * head.normalize
    write_json(
        folder / "modules.json",
        [
            {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (path, kind) in enumerate(modules)
        ],
    )
    for path, _ in modules[1:]:
        (folder / path).mkdir()
    modes = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
    settings = {f"pooling_mode_{mode}": ours == head.pooling for ours, mode in modes.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.hidden} | settings)
    if head.normalize:
        write_json(folder / "2_Normalize" / "config.json", {})
    length = head.length or config.max_positions
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
