"""Fine-tuning on named entities: CoNLL column files, the first piece of each word is tagged (Devlin et al. 2019, 5.3).

    bert-jax finetune --config=configs/ner.py --checkpoint=runs/bert_base --workdir=runs/ner \\
        --config.task.data=train.conll --config.task.validation=dev.conll --config.task.test=test.conll

Hardware: any; on an accelerator add --config.compute.dtype=bfloat16.
Expected of BERT-base, cased, on CoNLL-2003: test F1 92.4 (the paper, with the document as context, which this lacks).
Deviations from the paper: sentences alone; Adam with bias correction.
"""

from bert_jax.recipes import finetuning


def get_config(arg=""):
    return finetuning(arg, "ner")
