"""Fine-tuning on GLUE by the recipe of the paper: 3 epochs, batches of 32, 5e-5, warm-up over a tenth of the updates.

    bert-jax finetune --config=configs/glue.py:mrpc --config.task.data=GLUE --checkpoint=runs/bert_base --workdir=runs/m
    bert-jax finetune --config=configs/glue.py:mrpc --config.task.data=GLUE --checkpoint=... --workdir=... --sweep

The argument is the task: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte or wnli (AX is predicted by a model of mnli);
GLUE is the folder of the GLUE download. --sweep tries the paper's grid, batches of 32 (--config.batch_size=16 for its
other half):
learning rates 5e-5, 3e-5, 2e-5 and 2, 3, 4 epochs, the best on the held-out split.
Hardware: any; on an accelerator add --config.compute.dtype=bfloat16, on a CPU, where it is the faster generator,
--config.compute.dropout_generator=threefry2x32.
Expected of BERT-base, GLUE test (Devlin et al. 2019, table 1): MNLI 84.6/83.4, QQP 71.2 (F1), QNLI 90.5, SST-2 93.5,
CoLA 52.1, STS-B 85.8 (Spearman), MRPC 88.9 (F1), RTE 66.4.
Deviations from the paper: Adam with bias correction; the last batch of an epoch is used whole, not dropped.
"""

from bert_jax.recipes import finetuning


def get_config(arg=""):
    config = finetuning(arg)
    config.sweep.update(learning_rates=(5e-5, 3e-5, 2e-5), epochs=(2, 3, 4))
    return config
