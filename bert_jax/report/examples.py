"""Masked rows of prepared data as HTML: what the model sees, what it has to guess, and which text is which."""

import numpy as np

from bert_jax.report.html import escape
from bert_jax.report.masked_sample import SEED, SPLIT
from bert_jax.report.piece_text import named_ids, texts_of_tokens
from bert_jax.report.words import percent, plural

MOST_TOKENS = 1024  # shown of a row
BLANK = "␣"  # a token to be guessed that is white space
COLOURS = 3  # of the pieces of a packed row, in turn; their numbers tell them apart as well
LABEL_WORDS = {
    "next": "label “next”: B is what follows A in its document",
    "random": "label “random”: B is text of another document",
    "in_order": "label “in order”: A and B stand as in their document",
    "swapped": "label “swapped”: in its document, B comes before A",
}
MASKED, RANDOM, KEPT = "hidden", "random", "kept"  # what became of a token to be predicted; classes of the style sheet
OUTCOME_WORDS = {MASKED: "[MASK]", RANDOM: "random", KEPT: "kept"}
UNIT_WORDS = {"token": "single tokens", "word": "whole words", "span": "stretches of whole words"}


def examples(sample):
    """The rows with what the reader must know to read them; `sample` is a masked_sample.MaskedSample."""
    n_rows = len(sample.rows)
    which = f"{n_rows} of the {sample.examples:,} rows of the {SPLIT} split, drawn at random (seed {SEED})"
    if n_rows == sample.examples:
        which = f"All {n_rows:,} rows of the {SPLIT} split" if n_rows > 1 else f"The only row of the {SPLIT} split"
    masking = sample.masking
    budget = f"{percent(masking.rate)} of the tokens, as {UNIT_WORDS[masking.unit]}, {masking.max_predictions} at most"
    has_types = any(row.token_types is not None for row in sample.rows)
    segments = (
        " A row's first segment starts with the letter <b class='tag seg-a'>A</b> and is underlined, its second with "
        "<b class='tag seg-b'>B</b> and underlined with dots."
    )
    pieces = " The pieces of a packed row stand below each other and are numbered; none sees another."
    is_packed = any(row.segment_ids is not None for row in sample.rows)
    return (
        f"<p>{escape(which)}, with masks drawn for them as training draws them, anew each time: in a row {budget}. "
        "The model reads what stands in small type over a marked token in its place, and has to guess the token: "
        f"{_mark('word', '[MASK]', MASKED)} is hidden, {_mark('word', 'other', RANDOM)} is replaced by a random token, "
        f"{_mark('word', 'word', KEPT)} is left as it is.{segments if has_types else ''}{pieces if is_packed else ''}"
        f"</p><div class='examples'>{''.join(_example(row, sample.tokenizer) for row in sample.rows)}</div>"
    )


def _example(row, tokenizer):
    n_real = int((row.ids != tokenizer.pad_id).sum())
    texts, tokens = texts_of_tokens(tokenizer, row.ids[:n_real]), tokenizer.tokens(row.masked_ids)
    outcomes, special = _outcomes(row, tokenizer.mask_id), named_ids(tokenizer)
    is_packed = row.segment_ids is not None
    starts = _starts(row.segment_ids[:n_real]) if is_packed else [0]
    shown_up_to = min(n_real, MOST_TOKENS)
    blocks = []
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], n_real], strict=True), 1):
        if start >= shown_up_to:
            break
        tag = f"<b class='tag'>piece {number}</b> " if is_packed else ""
        label = LABEL_WORDS[row.labels[number - 1]] if number <= len(row.labels) else ""
        about = f"{tag}<span class='about'>{escape(label)}</span>" if tag or label else ""
        text = _text(row, texts, tokens, outcomes, special, start, min(stop, shown_up_to))
        colour = f" piece-{(number - 1) % COLOURS + 1}" if is_packed else ""
        blocks.append(f"<div class='piece{colour}'>{about}<p dir=auto>{text}</p></div>")
    rest = n_real - shown_up_to
    more = f"<p class='about'>… and {plural(rest, 'token')} more</p>" if rest else ""
    heading = escape(_heading(row, n_real, outcomes))
    return f"<div class='example'><p class='head'>{heading}</p>{''.join(blocks)}{more}</div>"


def _heading(row, n_real, outcomes):
    kinds = [(words, sum(outcome == kind for outcome in outcomes)) for kind, words in OUTCOME_WORDS.items()]
    became = ", ".join(f"{count} {words}" for words, count in kinds if count)
    n_masked = int(row.is_masked.sum())
    masked = f"{n_masked} to guess ({became})" if n_masked else "none to guess"
    padding = f"{len(row.ids) - n_real:,} of padding" if len(row.ids) > n_real else "no padding"
    return f"Row {row.index:,}: {plural(n_real, 'token')} and {padding}; {masked}"


def _outcomes(row, mask_id):
    """What became of each token: "" where nothing is to be guessed. A random token may be the old one: it is kept."""
    outcomes = []
    for was, now, is_masked in zip(row.ids.tolist(), row.masked_ids.tolist(), row.is_masked.tolist(), strict=True):
        changed = MASKED if now == mask_id else RANDOM
        outcomes.append("" if not is_masked else KEPT if now == was else changed)
    return outcomes


def _starts(segment_ids):
    """Where the pieces of a packed row start."""
    return np.flatnonzero(np.diff(segment_ids.astype(np.int64), prepend=0)).tolist()


def _text(row, texts, tokens, outcomes, special, start, stop):
    """The tokens from `start` to before `stop`: stretches of one segment each where there are two."""
    parts, types = [], None if row.token_types is None else row.token_types[:stop].astype(int)
    for place in range(start, stop):
        if types is not None and (place == start or types[place] != types[place - 1]):
            parts.append("</span> " if place > start else "")
            letter = "B" if types[place] else "A"
            parts.append(f"<b class='tag seg-{letter.lower()}'>{letter}</b> <span class='seg-{letter.lower()}'>")
        text = texts[place]
        if outcomes[place]:
            visible = text.lstrip()
            space = text[: len(text) - len(visible)]
            parts.append(escape(space) + _mark(visible or BLANK, tokens[place], outcomes[place]))
        elif row.ids[place] in special:
            parts.append(f" <span class='special'>{escape(text.strip())}</span>")
        else:
            parts.append(escape(text))
    return "".join(parts) + ("</span>" if types is not None and stop > start else "")


def _mark(was, now, outcome):
    """A token to be guessed, with what stands in its place over it."""
    over = {MASKED: now, RANDOM: f"random: {now}", KEPT: "kept"}[outcome]
    return f"<mark class={outcome}><ruby>{escape(was)}<rp> (</rp><rt>{escape(over)}</rt><rp>)</rp></ruby></mark>"
