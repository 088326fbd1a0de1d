"""BERT-base as in the paper: 12 layers x 768, 110.1 million parameters, 1M steps of 256 sequences.

    bert-jax pretrain --config=configs/bert_base.py --workdir=runs/bert_base \\
        --config.phases.phase1.data=DATA_128 --config.phases.phase2.data=DATA_512

Two phases of one run: 900,000 steps at 128 tokens, then 100,000 at 512. One learning-rate schedule spans both (it is
not warmed up again), the moments are carried over, and the position table has 512 rows from the start.
DATA_*: pairs under bert-base-uncased's vocabulary of 30,522, made with 10 passes over Wikipedia and books.
Hardware: a TPU slice (the paper: 16 TPU chips, 4 days); time there is not measured yet.
Expected: held-out MLM loss about 1.4 nats, GLUE test average 79.6 (Devlin et al. 2019; google-research/bert).
Deviations from the paper: random replacements are drawn from ordinary tokens only; the loss is weighted over the global
batch, not core by core; bfloat16 activations.
"""

from bert_jax.recipes import finish, phase, recipe, set_phases


def get_config(arg=""):
    config = recipe("base")
    config.compute.dtype = "bfloat16"
    set_phases(
        config,
        phase("data/pairs_128", length=128, batch_size=256, steps=900_000),
        phase("data/pairs_512", length=512, batch_size=256, steps=100_000),
    )
    return finish(config, arg)
