"""Fine-tuning on texts and labels of one's own; `:regress` after the file's name learns numbers instead of labels.

    bert-jax finetune --config=configs/classify.py --checkpoint=runs/bert_base --workdir=runs/reviews \\
        --config.task.data=train.csv --config.task.validation=dev.csv \\
        --config.task.first=review --config.task.label=stars

Files of JSON lines, CSV, TSV or Parquet by their ending; `task.second` names the column of a second text, if there is
one. Without `task.validation` a tenth of the training examples is held out. Settings: GLUE's (configs/glue.py).
Hardware: any; on an accelerator add --config.compute.dtype=bfloat16, on a CPU, where it is the faster generator,
--config.compute.dropout_generator=threefry2x32.
"""

from bert_jax.recipes import finetuning


def get_config(arg=""):
    name = "regress" if "regress" in arg.split(",") else "classify"
    return finetuning(",".join(part for part in arg.split(",") if part != name), name)
