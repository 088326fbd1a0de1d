"""What a preparation tells about the text and the examples: the numbers of report.json, and its warnings in words."""

from dataclasses import asdict, dataclass, field

import numpy as np

from bert_jax.data.blocks import Counts
from bert_jax.data.storage import SPLITS, Shard

LENGTH_BINS = 16


@dataclass
class Tally:
    """The BlockResults of a split, added up as they come: only the shards' names grow with the corpus."""

    counts: Counts = field(default_factory=Counts)
    lengths: np.ndarray | int = 0
    unigram: np.ndarray | int = 0
    shards: dict[int, Shard] = field(default_factory=dict)  # by the number of the block
    blocks: int = 0

    def add(self, block, result):
        self.counts = self.counts + result.counts
        self.lengths = self.lengths + result.lengths
        self.unigram = self.unigram + result.unigram
        self.blocks += 1
        if result.shard:
            self.shards[block] = result.shard


def make_report(tallies, hashes, settings, text):
    """The contents of report.json.

    tallies: a Tally for each split; hashes: uint64, one for each sampled sentence; settings: those of the preparation;
    text: what else is known: files, input_bytes, empty_documents, seconds (of wall time), sentence_sample_share.
    """
    total = tallies["train"].counts + tallies["validation"].counts
    total.account.check()
    report = {
        "files": text["files"],
        "input_megabytes": text["input_bytes"] / 1e6,
        "seconds": text["seconds"],
        "megabytes_a_second": text["input_bytes"] / 1e6 / text["seconds"],
        "documents": total.documents,
        "sentences": total.sentences,
        "tokens": total.corpus_tokens,
        "dropped": {
            "empty_documents": total.empty_documents + text["empty_documents"],
            "empty_sentences": total.empty_sentences,
            "sentences_without_partner": total.account.chunks_without_partner,
        },
        "one_sentence_document_share": _share(total.one_sentence_documents, total.documents),
        "duplicate_sentence_share": 1 - _share(len(np.unique(hashes)), len(hashes)) if len(hashes) else 0.0,
        "duplicate_sentences_are_of": _sampling_in_words(text["sentence_sample_share"]),
        "unknown_token_share": _share(total.unknown_tokens, total.corpus_tokens),
        "bytes_a_token": _share(total.text_bytes, total.corpus_tokens),
        "token_account": asdict(total.account) | {"passes": settings["passes"]},
        "rules": _rules(settings),
        "splits": {split: _split_report(tallies[split], settings["length"]) for split in SPLITS},
    }
    report["warnings"] = _warnings(report, total, tallies, settings)
    return report


def entropy(counts):
    """Entropy in nats of the distribution that the counts give; 0 without any."""
    share = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(share * np.log(share)).sum())


def _split_report(tally, length):
    """`unigram_entropy` is that of the tokens that may be masked: all of the rows but [CLS], [SEP] and [PAD]."""
    counts = tally.counts
    lengths = tally.lengths + np.zeros(length + 1, np.int64)  # a split may be without blocks
    unigram = np.atleast_1d(tally.unigram)
    edges = np.unique(np.linspace(0, length, LENGTH_BINS + 1).round().astype(int))
    return {
        "documents": counts.documents,
        "examples": counts.examples,
        "next": counts.examples - counts.random_next,
        "random": counts.random_next,
        "shards": len(tally.shards),
        "tokens_in_rows": int(unigram.sum()),
        "fill_rate": _share(int(lengths @ np.arange(length + 1)), counts.examples * length),
        "unigram_entropy": entropy(unigram),
        "lengths": {  # examples[i] have more than edges[i] and at most edges[i + 1] tokens, special ones included
            "edges": edges.tolist(),
            "examples": np.add.reduceat(lengths[1:], edges[:-1]).tolist(),
        },
    }


def _rules(settings):
    """Which reading of the text was applied, in words."""
    document = {
        "blank_line": "a blank line ends a document",
        "line": "each line is a document",
        "file": "each file is a document",
    }[settings["separator"]]
    sentence = (
        "each line is a sentence"
        if settings["sentence_per_line"]
        else f"sentences are split by sentencex (language {settings['language']!r})"
    )
    return [
        f"{document}; in JSON lines each object is one (field {settings['text_field']!r})",
        sentence,
        "a pair that is longer than a row is cut at a token, also inside a sentence",
    ]


def _warnings(report, total, tallies, settings):
    warnings = []
    positive = total.examples - total.random_next
    if positive < 0.3 * total.examples:  # about a half is usual
        shown = int(100 * report["one_sentence_document_share"])
        pairs = "no positive pairs" if positive == 0 else f"only {positive} positive pairs of {total.examples}"
        warnings.append(f"{shown} % of documents have one sentence: NSP has {pairs} ({_rules(settings)[0]})")
    if report["duplicate_sentence_share"] >= 0.1:
        warnings.append(
            f"{100 * report['duplicate_sentence_share']:.0f} % of sentences repeat an earlier one: "
            "a model learns repeated text by heart; remove duplicates from the source"
        )
    if report["unknown_token_share"] >= 0.01:
        warnings.append(
            f"{100 * report['unknown_token_share']:.1f} % of tokens are unknown to the vocabulary: "
            "is it of this language, and cased or uncased as the text needs?"
        )
    if total.lone_blocks:
        blocks = sum(tally.blocks for tally in tallies.values())
        warnings.append(
            f"{total.lone_blocks} of {blocks} blocks hold a single document: no random next sentence exists "
            f"there, so NSP labels are all 'next', and {total.account.chunks_without_partner} lone sentences were "
            "dropped (does the text have document boundaries?)"
        )
    if report["dropped"]["empty_documents"] >= 0.1 * max(total.documents, 1):
        warnings.append(f"{report['dropped']['empty_documents']} documents are empty after tokenization")
    if settings["held_out"] and not report["splits"]["validation"]["examples"]:
        found = report["splits"]["validation"]["documents"]
        reason = f"{found} held-out documents give no example" if found else "that takes two documents that differ"
        warnings.append(f"nothing is held out: {reason}")
    digests = [shard.sha256 for tally in tallies.values() for shard in tally.shards.values()]
    if len(set(digests)) < len(digests):
        warnings.append("some shards are identical: the text consists of copies")
    return warnings


def _sampling_in_words(share):
    return "all sentences" if share == 1 else f"a share of {share:.2g} of the sentences, with all copies of each"


def _share(part, whole):
    return part / whole if whole else 0.0
