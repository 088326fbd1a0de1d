"""Sentence embeddings (Reimers and Gurevych 2019, Sentence-BERT): batches of 16, 2e-5, warm-up of a tenth.

    bert-jax finetune --config=configs/embed.py:sts --config.task.data=STS-B --checkpoint=runs/base --workdir=runs/e
    bert-jax finetune --config=configs/embed.py:nli --config.task.data=nli.jsonl --config.task.first=premise \\
        --config.task.second=hypothesis --config.task.validation=STS-B/dev.tsv --checkpoint=... --workdir=...
    bert-jax finetune --config=configs/embed.py:ranking --config.task.data=pairs.jsonl --config.task.first=query \\
        --config.task.second=passage --config.batch_size=128 --checkpoint=... --workdir=...

The argument is the objective. sts: the cosine of a pair is its score (4 epochs, as the paper). nli: a pair's class,
such as entailment, is told from both vectors (1 epoch). ranking: of all second texts of the batch one belongs to the
first (in-batch negatives, 1 epoch; larger batches are better; --config.task.negative=COLUMN adds hard ones).
--config.task.matryoshka="(64,128,256)" has the first so many numbers of a vector serve alone, too (sts and ranking).
--config.task.pooling=mean, cls or max.
Expected of BERT-base: STS-B test, Spearman: 77.0 after NLI, 84.7 after STS-B (the paper, tables 1 and 2).
Hardware: any; on an accelerator add --config.compute.dtype=bfloat16.
Deviations from the paper: Adam with weight decay; the best weights by the held-out split are kept.
"""

from bert_jax.recipes import finetuning


def get_config(arg=""):
    epochs = 4 if "sts" in arg.split(",") else 1
    return finetuning(arg, epochs=epochs, batch_size=16, learning_rate=2e-5)
