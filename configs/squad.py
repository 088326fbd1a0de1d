"""Fine-tuning on SQuAD 1.1 or 2.0: windows of 384 tokens, 3 epochs, batches of 32, 5e-5 (Devlin et al. 2019, 4.2).

    bert-jax finetune --config=configs/squad.py --config.task.data=SQUAD --checkpoint=runs/base --workdir=runs/squad

SQUAD: the folder with train-v1.1.json and dev-v1.1.json, or those of 2.0.
Hardware: an accelerator (--config.compute.dtype=bfloat16); BERT-base takes days on two CPU cores.
Expected of BERT-base on 1.1's dev set: EM 80.8, F1 88.5 (the paper); of BERT-large on 2.0's: EM 78.7, F1 81.9.
Deviations from the paper: on 2.0 it trained 2 epochs in batches of 48; Adam with bias correction.
"""

from bert_jax.recipes import finetuning


def get_config(arg=""):
    config = finetuning(arg, "squad", length=384)
    config.length = max(config.length, 80)  # the short rows of debug have no room for a question of 64 tokens
    return config
