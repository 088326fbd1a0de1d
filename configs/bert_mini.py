"""BERT-mini: 4 layers x 256, 11.3 million parameters, at the paper's recipe in one phase of 128 tokens.

    bert-jax pretrain --config=configs/bert_mini.py --config.phases.phase1.data=DATA --workdir=runs/bert_mini

DATA: pairs of 128 tokens under a vocabulary of 30,522 (--config.model.vocab_size=N for another), made with 10 passes.
The size is one of google-research/bert's smaller models, which were pretrained as BERT-base was.
Hardware: any; on a single small TPU slice or a GPU add --config.compute.dtype=bfloat16.
Deviations from the paper: 128 tokens throughout; random replacements are drawn from ordinary tokens only.
"""

from bert_jax.recipes import finish, phase, recipe, set_phases


def get_config(arg=""):
    config = recipe("mini")
    set_phases(config, phase("data/pairs_128", length=128, batch_size=256, steps=1_000_000))
    return finish(config, arg)
