"""What the figures of a preparation mean, in sentences and key figures for somebody who has never seen one."""

from bert_jax.data.kinds import LABELS
from bert_jax.report.read import figure_at, is_count, mapping_at
from bert_jax.report.words import count, duration, percent, plural

KIND_WORDS = {
    "pairs": "two segments, [CLS] A [SEP] B [SEP], where B is what follows A in its document or, for about half of the "
    "pairs, text of another document; the model learns to tell which (next-sentence prediction, NSP)",
    "sop": "two consecutive segments of a document, [CLS] A [SEP] B [SEP], half of the time swapped; the model learns "
    "to tell which (sentence-order prediction, SOP)",
    "full_sentences": "whole sentences one after another, also across the end of a document, where a [SEP] stands",
    "doc_sentences": "as many whole sentences of one document as fit",
    "documents": "a document, or of a longer one a part",
}
LABEL_SHARES = {"pairs": "random_share", "sop": "swapped_share"}


def summary(record):
    """The sentences of the paragraph at the top; `record` is a prepared.DataRecord."""
    return [sentence for sentence in (_what_it_is(record), *_what_became_of_it(record)) if sentence]


def kind_in_words(record):
    """What a row holds, a sentence; "" where the kind is not known."""
    kind, pieces = kinds(record)
    if kind == "packed":
        holds = f" A piece is {KIND_WORDS[pieces]}." if pieces in KIND_WORDS else ""
        return f"A row holds several pieces of text, kept apart by the model, so that little of it is padding.{holds}"
    return f"A row holds {KIND_WORDS[kind]}." if kind in KIND_WORDS else ""


def kinds(record):
    """(kind of example, kind of piece) as the files tell them; None where they do not. They differ in packed data."""
    settings = mapping_at(record.preparation, "origin", "settings")
    kind = (record.report or {}).get("kind", record.preparation.get("kind"))
    kind = kind if isinstance(kind, str) else None
    pieces = settings.get("pieces") if kind == "packed" else kind
    return kind, pieces if isinstance(pieces, str) else None


def key_figures(record):
    """(name, value, remark) of what one looks for first."""
    report = record.report or {}
    train, heldout = (mapping_at(report, "splits", split) for split in ("train", "validation"))
    name, share = label_share(train)
    figures = [
        ("Rows to train on", count(figure_at(train, "examples")), "the train split"),
        ("Rows held out", count(figure_at(heldout, "examples")), "the validation split"),
        ("Tokens a row", count(figure_at(record.preparation, "length")), "padding included"),
        ("Fill rate", percent(figure_at(train, "fill_rate")), "of the tokens are not padding"),
        ("NSP balance" if name == "random_share" else "SOP balance", percent(share),
         "of pairs are random" if name == "random_share" else "of pairs are swapped"),
        ("Repeated sentences", percent(figure_at(report, "duplicate_sentence_share")), "repeat an earlier one"),
        ("Unknown tokens", percent(figure_at(report, "unknown_token_share")), "not in the vocabulary"),
        ("Bytes a token", _short(figure_at(report, "bytes_a_token")), "of text, on average"),
    ]  # fmt: skip
    return [figure for figure in figures if figure[1]]


def label_share(split):
    """(name, share) of the pairs with label 1 in a split of report.json; ("", None) where it has no labels."""
    for piece_kind, (_, names) in LABELS.items():
        zeros, ones = (split.get(name) for name in names)
        if is_count(zeros) and is_count(ones) and zeros + ones:
            return LABEL_SHARES[piece_kind], ones / (zeros + ones)
    return "", None


def _short(value):
    return "" if value is None else f"{value:.3g}"


def _what_it_is(record):
    length = figure_at(record.preparation, "length")
    of_length = f" of {length:,} tokens" if length is not None else ""
    return (
        f"Text made ready to pretrain a BERT-family language model: cut into rows{of_length} (a token is a word or a "
        "piece of one), in which the model is to guess tokens that are masked."
    )


def _what_became_of_it(record):
    report = record.report or {}
    documents, sentences, tokens, files, megabytes, seconds = (
        figure_at(report, name) for name in ("documents", "sentences", "tokens", "files", "input_megabytes", "seconds")
    )
    train, heldout = (figure_at(mapping_at(report, "splits", split), "examples") for split in ("train", "validation"))
    if documents is not None and train is not None:
        size = f" ({megabytes:,.4g} MB in {plural(files, 'file')})" if None not in (megabytes, files) else ""
        inside = f", {sentences:,} sentences with {tokens:,} tokens," if None not in (sentences, tokens) else ""
        became = f"{plural(documents, 'document')}{size}{inside} became {plural(train, 'row')} to train on"
        held_out = f" and {plural(heldout, 'row')} held out to measure with" if heldout else ", none held out"
        took = f", in {duration(seconds)}" if seconds is not None else ""
        yield f"{became}{held_out}{took}."
