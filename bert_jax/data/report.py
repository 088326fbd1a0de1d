"""What a preparation tells about the text and the examples: the numbers of report.json, and its warnings in words."""

from collections import Counter
from dataclasses import asdict, dataclass, field

import numpy as np

from bert_jax.data.blocks import Counts
from bert_jax.data.kinds import LABELS
from bert_jax.data.storage import SPLITS, Shard

LENGTH_BINS = 16
UNKNOWN_TOLD = 20
# What becomes of text that a row cannot hold, by the kind of piece.
_CUTTING = {
    "pairs": "a pair that is longer than a row is cut at a token, also inside a sentence",
    "sop": "a sentence that is longer than a row, or stands alone, is cut at a token, and nothing is lost",
    "full_sentences": "a sentence that is longer than a row is cut at a token, and nothing is lost",
    "doc_sentences": "a sentence that is longer than a row is cut at a token, and nothing is lost",
    "documents": "a document that is longer than a piece is cut at a token, and nothing is lost",
}


@dataclass
class Tally:
    """The BlockResults of a split, added up as they come: only the shards' names grow with the corpus."""

    counts: Counts = field(default_factory=Counts)
    lengths: np.ndarray | int = 0
    unigram: np.ndarray | int = 0
    shards: dict[int, Shard] = field(default_factory=dict)  # by the number of the block
    blocks: int = 0
    unknown_characters: Counter = field(default_factory=Counter)

    def add(self, block, result):
        self.counts = self.counts + result.counts
        self.lengths = self.lengths + result.lengths
        self.unigram = self.unigram + result.unigram
        self.unknown_characters.update(result.unknown_characters)
        self.blocks += 1
        if result.shard:
            self.shards[block] = result.shard


def make_report(made, settings):
    """The contents of report.json. made: a stages.Made; settings: those of the preparation."""
    tallies, text, hashes = made.tallies, made.text, made.sentence_hashes
    total = tallies["train"].counts + tallies["validation"].counts
    total.account.check()
    report = {
        "kind": settings["kind"],
        "files": text.files,
        "input_megabytes": text.input_bytes / 1e6,
        "seconds": text.seconds,
        "megabytes_a_second": text.input_bytes / 1e6 / text.seconds,
        "documents": total.documents,
        "sentences": total.sentences,
        "tokens": total.corpus_tokens,
        "dropped": {
            "empty_documents": total.empty_documents + text.left_out.get("empty", 0),
            "empty_sentences": total.empty_sentences,
            "sentences_without_partner": total.account.chunks_without_partner,
        },
        "left_out": {reason: count for reason, count in text.left_out.items() if reason != "empty"},
        "skipped": text.skipped,
        "words_of_sources": text.source_words,
        "share_taken_of_sources": text.source_rates,
        "one_sentence_document_share": _share(total.one_sentence_documents, total.documents),
        "duplicate_sentence_share": _repeated_share(hashes),
        "duplicate_sentences_are_of": _sampling_in_words(text.sentence_sample_share),
        "unknown_token_share": _share(total.unknown_tokens, total.corpus_tokens),
        "unknown_characters": _most_frequent(tallies),
        "bytes_a_token": _share(total.text_bytes, total.corpus_tokens),
        "token_account": asdict(total.account) | {"passes": settings["passes"]},
        "rules": _rules(settings),
        "splits": {split: _split_report(tallies[split], settings) for split in SPLITS},
    }
    report["warnings"] = _warnings(report, total, tallies, settings)
    return report


def entropy(counts):
    """Entropy in nats of the distribution that the counts give; 0 without any."""
    share = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(share * np.log(share)).sum())


def _split_report(tally, settings):
    """`unigram_entropy` is that of the tokens that may be masked: all of the rows but [CLS], [SEP] and [PAD]."""
    counts, length = tally.counts, settings["length"]
    lengths = tally.lengths + np.zeros(length + 1, np.int64)  # a split may be without blocks
    unigram = np.atleast_1d(tally.unigram)
    edges = np.unique(np.linspace(0, length, LENGTH_BINS + 1).round().astype(int))
    return {
        "documents": counts.documents,
        "examples": counts.examples,
        **_labels(counts, settings),
        "shards": len(tally.shards),
        "tokens_in_rows": int(unigram.sum()),
        "fill_rate": _share(int(lengths @ np.arange(length + 1)), counts.examples * length),
        "unigram_entropy": entropy(unigram),
        "lengths": {  # examples[i] have more than edges[i] and at most edges[i + 1] tokens, special ones included
            "edges": edges.tolist(),
            "examples": np.add.reduceat(lengths[1:], edges[:-1]).tolist(),
        },
    }


def _labels(counts, settings):
    """Pieces by label, under the names of its values; empty for kinds without a label."""
    piece_kind = settings["pieces"] if settings["kind"] == "packed" else settings["kind"]
    packed = {"pieces": counts.pieces} if settings["kind"] == "packed" else {}
    if piece_kind not in LABELS:
        return packed
    zero, one = LABELS[piece_kind][1]
    return packed | {zero: counts.pieces - counts.label_ones, one: counts.label_ones}


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
        f"{document}; an article, a book, and a record (field {settings['text_field']!r}) are one each",
        sentence,
        _CUTTING[settings["pieces"] if settings["kind"] == "packed" else settings["kind"]],
    ]


def _warnings(report, total, tallies, settings):
    warnings = []
    is_nsp = "pairs" in (settings["kind"], settings["pieces"])
    positive = total.pieces - total.label_ones
    if is_nsp and positive < 0.3 * total.pieces:  # about a half is usual
        shown = int(100 * report["one_sentence_document_share"])
        pairs = "no positive pairs" if positive == 0 else f"only {positive} positive pairs of {total.pieces}"
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
    if total.lone_blocks and is_nsp:
        blocks = sum(tally.blocks for tally in tallies.values())
        warnings.append(
            f"{total.lone_blocks} of {blocks} blocks hold a single document: no random next sentence exists "
            f"there, so NSP labels are all 'next', and {total.account.chunks_without_partner} lone sentences were "
            "dropped (does the text have document boundaries?)"
        )
    if report["dropped"]["empty_documents"] >= 0.1 * max(total.documents, 1):
        warnings.append(f"{report['dropped']['empty_documents']} documents are empty after tokenization")
    if report["left_out"].get("unreadable"):
        found = report["left_out"]["unreadable"]
        places = "1 place" if found == 1 else f"{found} places"
        warnings.append(f"what could not be read is left out, {places}: {'; '.join(report['skipped'][:3])}")
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


def _most_frequent(tallies):
    """[character, count] of the most frequent unknown characters, in sentences that were looked at."""
    total = tallies["train"].unknown_characters + tallies["validation"].unknown_characters
    return [list(item) for item in sorted(total.items(), key=lambda item: (-item[1], item[0]))[:UNKNOWN_TOLD]]


def _repeated_share(hashes):
    """The share of values that were there before. np.unique takes ten times as long as sorting."""
    return float((np.diff(np.sort(hashes)) == 0).sum()) / max(len(hashes), 1)


def _share(part, whole):
    return part / whole if whole else 0.0
