"""The paper's corpus in rows of 128 tokens: English Wikipedia and books, 2.5 to 0.8 by words, paired ten times.

    bert-jax prepare --config=configs/data/wikibooks_128.py --tokenizer=vocab.txt --out=data/pairs_128 \\
        --source=WIKIPEDIA,weight=2.5 --source=BOOKS,weight=0.8

WIKIPEDIA: a pages-articles dump, WikiExtractor's output, or whatever else `bert-jax prepare --help` lists; BOOKS: a
folder of books. Without --source they are TFDS's wikipedia and pg19, which TFDS must have prepared (extra [tfds]).
configs/bert_base.py and the other sizes train on it.
Deviations from the paper: BookCorpus is no longer distributed; docs/data.md says what takes its place, and what that
changes. A source that has less text than its weight asks for is taken whole, and of the other documents are left out.
"""

from ml_collections import ConfigDict


def get_config(arg=""):
    if arg not in ("", "debug"):
        raise ValueError(f"argument {arg!r}: expected debug or none")
    return ConfigDict(
        {
            "sources": ("tfds:wikipedia/20230601.en,weight=2.5", "tfds:pg19,weight=0.8,column=book_text"),
            "kind": "pairs",
            "length": 128,
            "passes": 2 if arg == "debug" else 10,
        }
    )
