"""A SentencePiece model as a tokenizer.json, for what reads no .model file beside BERT."""

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from bert_jax.errors import UserError

SPACE = "▁"


def sentencepiece_as_json(backend):
    """The content of a tokenizer.json that gives the ids of a `backends.SentencePieceTokens`, but for text that spells
    special tokens and text whose accents are not composed. Raises UserError for models other than unigram and BPE."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(backend.processor.serialized_model_proto())
    tokenizer = Tokenizer(_model(proto, backend))
    tokenizer.normalizer = _normalizer(proto.normalizer_spec)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(SPACE, prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in backend.special_names])
    return tokenizer.to_str()


def _model(proto, backend):
    pieces, spec = [(piece.piece, piece.score) for piece in proto.pieces], proto.trainer_spec
    if spec.model_type == spec.UNIGRAM:
        return models.Unigram(pieces, spec.unk_id, spec.byte_fallback)
    if spec.model_type != spec.BPE:
        raise UserError(f"{backend.path}: is a SentencePiece model neither unigram nor BPE: it cannot be exported")
    ids = {piece: index for index, (piece, _) in enumerate(pieces)}
    merges = []  # each way to make a piece of two others; the higher its score, the earlier it is made
    for piece, score in pieces:
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        merges += [(-score, ids[a], ids[b], (a, b)) for a, b in halves if a in ids and b in ids]
    pairs = [pair for *_, pair in sorted(merges)]
    return models.BPE(ids, pairs, unk_token=backend.names["unk"], fuse_unk=True, byte_fallback=spec.byte_fallback)


def _normalizer(spec):
    steps = []
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    return normalizers.Sequence(steps)
