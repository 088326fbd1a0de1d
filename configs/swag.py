"""Fine-tuning on SWAG, four endings a context: 3 epochs, batches of 16, 2e-5 (Devlin et al. 2019, 4.4).

    bert-jax finetune --config=configs/swag.py --config.task.data=SWAG --checkpoint=runs/bert_base --workdir=runs/swag

SWAG: the folder with train.csv and val.csv.
Hardware: any; on an accelerator add --config.compute.dtype=bfloat16.
Expected of BERT-base: dev accuracy 81.6 (the paper).
Deviations from the paper: Adam with bias correction.
"""

from bert_jax.recipes import finetuning


def get_config(arg=""):
    return finetuning(arg, "swag", learning_rate=2e-5, batch_size=16)
