"""BERT-base at 512 tokens throughout: the simpler recipe, one phase, about three times the computation of bert_base.py.

    bert-jax pretrain --config=configs/bert_base_512.py --config.phases.phase1.data=DATA_512 --workdir=runs/base_512

DATA_512: pairs of 512 tokens under bert-base-uncased's vocabulary of 30,522, made with 10 passes.
Hardware: a TPU slice; time there is not measured yet.
Expected: not below bert_base.py, which the paper reports (GLUE test average 79.6).
Deviations from the paper: no phase at 128 tokens; random replacements are drawn from ordinary tokens only; the loss is
weighted over the global batch, not core by core; bfloat16 activations.
"""

from bert_jax.recipes import finish, phase, recipe, set_phases


def get_config(arg=""):
    config = recipe("base")
    config.compute.dtype = "bfloat16"
    set_phases(config, phase("data/pairs_512", length=512, batch_size=256, steps=1_000_000))
    return finish(config, arg)
