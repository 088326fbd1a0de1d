"""The paper's corpus in rows of 128 tokens: English Wikipedia and books, 2.5 to 0.8 by words, paired ten times.

    bert-jax prepare --config=configs/data/wikibooks_128.py --tokenizer=vocab.txt --out=data/pairs_128 \\
        --source=WIKIPEDIA,weight=2.5 --source=BOOKS,weight=0.8

WIKIPEDIA: a pages-articles dump, WikiExtractor's output, or whatever else `bert-jax prepare --help` lists; BOOKS: a
folder of books. Without --source they are TFDS's wikipedia and pg19, which TFDS must have prepared (extra [tfds]).
configs/bert_base.py and the other sizes train on it.
Deviations from the paper: BookCorpus is no longer distributed; docs/data.md says what takes its place, and what that
changes. A source that has less text than its weight asks for is taken whole, and of the other documents are left out.
"""

from bert_jax.recipes import wikibooks


def get_config(arg=""):
    return wikibooks(128, arg)
