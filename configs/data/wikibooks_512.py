"""The paper's corpus in rows of 512 tokens: as wikibooks_128.py, for the last tenth of training and bert_base_512.py.

    bert-jax prepare --config=configs/data/wikibooks_512.py --tokenizer=vocab.txt --out=data/pairs_512 \\
        --source=WIKIPEDIA,weight=2.5 --source=BOOKS,weight=0.8

Sources and deviations from the paper: see wikibooks_128.py. Articles of Wikipedia are shorter than 512 tokens more
often than not: --kind=packed --pieces=pairs fills the padding, at the price of another distribution of rows.
"""

from bert_jax.recipes import wikibooks


def get_config(arg=""):
    return wikibooks(512, arg)
