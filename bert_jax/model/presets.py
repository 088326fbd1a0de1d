"""Architectures as data: `EncoderConfig`, how it is computed, and the published sizes of BERT."""

import dataclasses

from bert_jax.errors import UserError

ACTIVATIONS = ("gelu", "gelu_tanh", "relu")  # gelu: erf form (Hugging Face), gelu_tanh: google-research/bert
REMAT_POLICIES = ("none", "elementwise", "dots", "full")
DTYPES = ("float32", "bfloat16")
GENERATORS = ("rbg", "threefry2x32")
SENTENCE_HEADS = ("nsp", "sop", "none")


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """The architecture: two checkpoints fit each other when these are equal, but for `vocab_multiple`."""

    vocab_size: int = 30522
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    ffn: int = 3072
    max_positions: int = 512
    segment_types: int = 2
    activation: str = "gelu_tanh"
    norm_eps: float = 1e-12
    dropout: float = 0.1  # embeddings, attention output and FFN output
    attention_dropout: float = 0.1
    init_std: float = 0.02
    # What is learnt of a pair beside its words. nsp: whether the second part is the next text (BERT). sop: whether the
    # parts are swapped (ALBERT). none: no pooler and no such head (RoBERTa).
    sentence_head: str = "nsp"
    # The word embeddings and the MLM bias have rows up to a multiple of this: the added ones are 0, stand for no token,
    # are never predicted, stay 0 and count as no parameters. 128 is the width of a TPU's matrix unit; 1 adds none.
    vocab_multiple: int = 128
    # Whether the MLM head's decoder is the table of word embeddings; otherwise it has one of its own.
    tied_decoder: bool = True

    def __post_init__(self):
        whole = ("vocab_size", "hidden", "layers", "heads", "ffn", "max_positions", "segment_types", "vocab_multiple")
        for name in whole:
            if getattr(self, name) < 1:
                raise UserError(f"model.{name} is {getattr(self, name)}: expected 1 or more")
        if self.hidden % self.heads:
            raise UserError(f"model.hidden {self.hidden} is no multiple of model.heads {self.heads}")
        if self.activation not in ACTIVATIONS:
            raise UserError(f"model.activation {self.activation!r}: expected one of {', '.join(ACTIVATIONS)}")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"model.{name} is {getattr(self, name)}: expected 0 or more and less than 1")
        if self.sentence_head not in SENTENCE_HEADS:
            raise UserError(f"model.sentence_head {self.sentence_head!r}: expected one of {', '.join(SENTENCE_HEADS)}")

    @property
    def head_size(self):
        return self.hidden // self.heads

    @property
    def padded_vocab_size(self):
        """Rows of the word embeddings on the device."""
        return -(-self.vocab_size // self.vocab_multiple) * self.vocab_multiple


@dataclasses.dataclass(frozen=True)
class ComputeConfig:
    """How the architecture is computed; changes speed, memory and rounding, never the parameters."""

    dtype: str = "float32"  # of activations and matrix products; parameters, norms, softmax and loss stay float32
    # What the backward pass recomputes. none: nothing. elementwise: all but matrix products and what dropout drew; no
    # slower than storing it, in a fraction of the memory. dots: attention's products and draws too. full: whole layers.
    remat: str = "elementwise"
    # What draws dropout's bits. rbg is the TPU's own generator, free there; on a CPU threefry is the faster one, as it
    # fuses and runs on all cores.
    dropout_generator: str = "rbg"
    scan_layers: bool = True  # False unrolls: compiles several times longer, somewhat less memory traffic

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise UserError(f"compute.dtype {self.dtype!r}: expected one of {', '.join(DTYPES)}")
        if self.dropout_generator not in GENERATORS:
            raise UserError(
                f"compute.dropout_generator {self.dropout_generator!r}: expected one of {', '.join(GENERATORS)}"
            )
        if self.remat not in REMAT_POLICIES:
            raise UserError(f"compute.remat {self.remat!r}: expected one of {', '.join(REMAT_POLICIES)}")


# Sizes: google-research/bert, README ("smaller BERT models") and Devlin et al. 2019, section 3.
PRESETS = {
    "tiny": EncoderConfig(layers=2, hidden=128, heads=2, ffn=512),
    "mini": EncoderConfig(layers=4, hidden=256, heads=4, ffn=1024),
    "small": EncoderConfig(layers=4, hidden=512, heads=8, ffn=2048),
    "medium": EncoderConfig(layers=8, hidden=512, heads=8, ffn=2048),
    "base": EncoderConfig(),
    "large": EncoderConfig(layers=24, hidden=1024, heads=16, ffn=4096),
}
