"""The paper's corpus in rows of 512 tokens: as wikibooks_128.py, for the last tenth of training and bert_base_512.py.

    bert-jax prepare --config=configs/data/wikibooks_512.py --tokenizer=vocab.txt --out=data/pairs_512 \\
        --source=WIKIPEDIA,weight=2.5 --source=BOOKS,weight=0.8

Sources and deviations from the paper: see wikibooks_128.py. Articles of Wikipedia are shorter than 512 tokens more
often than not: --kind=packed --pieces=pairs fills the padding, at the price of another distribution of rows.
"""

from ml_collections import ConfigDict


def get_config(arg=""):
    if arg not in ("", "debug"):
        raise ValueError(f"argument {arg!r}: expected debug or none")
    return ConfigDict(
        {
            "sources": ("tfds:wikipedia/20230601.en,weight=2.5", "tfds:pg19,weight=0.8,column=book_text"),
            "kind": "pairs",
            "length": 512,
            "passes": 2 if arg == "debug" else 10,
        }
    )
