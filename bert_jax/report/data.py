"""Prepared data in words, tables and examples: the parts of a page that tell of one folder of it."""

from bert_jax.report import curves
from bert_jax.report.characters import unknown_characters
from bert_jax.report.data_words import kind_in_words, label_share
from bert_jax.report.examples import examples
from bert_jax.report.html import escape, folded, notes_box, shown, table
from bert_jax.report.read import is_count, is_figure, list_at, mapping_at
from bert_jax.report.words import percent, plural

# Names of report.json whose words alone would not do.
DATA_NAMES = {
    "kind": "kind of example",
    "bytes_a_token": "bytes of text a token",
    "duplicate_sentence_share": "sentences that repeat an earlier one",
    "duplicate_sentences_are_of": "counted among",
    "unknown_token_share": "tokens unknown to the vocabulary",
    "one_sentence_document_share": "documents of one sentence",
    "seconds": "seconds to prepare",
    "megabytes_a_second": "megabytes a second",
    "examples": "rows (examples)",
    "pieces": "pieces packed into them",
    "shards": "files (shards)",
    "next": "pairs labelled next",
    "random": "pairs labelled random",
    "random_share": "random among pairs (NSP balance)",
    "in_order": "pairs labelled in order",
    "swapped": "pairs labelled swapped",
    "swapped_share": "swapped among pairs (SOP balance)",
    "fill_rate": "fill rate (not padding)",
    "unigram_entropy": "unigram entropy (nats)",
    "tokens_in_rows": "tokens that may be masked",
    "borrowed": "+ borrowed for random second segments",
    "tokens_in": "tokens in",
    "tokens_out": "= tokens in rows",
    "truncated": "+ cut off at the row's end",
    "without_partner": "+ dropped for want of a second segment",
    "chunks_without_partner": "pieces of text so dropped",
    "sentences_without_partner": "pieces of text without a second segment",
}
MOST_MESSAGES = 5  # on what was skipped that are seen without opening them
ACCOUNT_ORDER = ("tokens_in", "borrowed", "tokens_out", "truncated", "without_partner", "chunks_without_partner")
# Reasons of `left_out`, as the filters and the search for duplicates name them.
REASONS = {
    "too short": "shorter than the least length asked for",
    "too long": "longer than the greatest length asked for",
    "other language": "in another language than those asked for",
    "duplicates": "equal to an earlier document",
    "near duplicates": "nearly equal to an earlier document",
    "unreadable": "unreadable (places in the text)",
}


def blocks(record, name, level, folds=False):
    """The parts of a prepared.DataRecord that there is something for, each under a heading of the level (2 to 6).

    name: tells the plot from that of other data on the page; folds: whether the examples have to be opened.
    """
    report = record.report or {}
    sample = examples(record.sample) if record.sample else ""
    parts = [
        ("How the text was read", _rules(record, report)),
        ("Rows", _rows_block(report, name)),
        ("Where every token went", _account(report)),
        ("The text and what was left out of it", _text_block(report)),
        ("Examples with masks", folded("Rows as the model reads them", sample) if sample and folds else sample),
        ("Settings of the preparation", _settings(record)),
    ]
    return [f"<h{level}>{title}</h{level}>\n{content}" for title, content in parts if content]


def warnings_box(record):
    """What the preparation warns of, in words; "" where there is nothing."""
    return notes_box(list_at(record.report or {}, "warnings"), "Warnings")


def sections(run):
    """The parts of a run's page, one a phase; `run` is a run.RunRecord."""
    if run.data:
        yield "<h2>Data</h2>"
    seen = {}
    for number, record in ((number, record) for number, records in enumerate(run.data, 1) for record in records):
        if record.path in seen:
            yield f"<h3>Phase {number}: the data of phase {seen[record.path]} again</h3>"
            continue
        seen[record.path] = number
        yield f"<h3>Phase {number}: <code>{escape(record.path)}</code></h3>"
        yield notes_box(record.notes)
        if record.report is None:
            gone = f"There is no report.json in {record.path} any more: the data were moved or removed."
            yield notes_box([gone], "Gone")
        yield warnings_box(record)
        yield from blocks(record, f"train, phase {number}", 4, folds=True)


def _rules(record, report):
    rules = [f"{rule[:1].upper()}{rule[1:]}." for rule in map(str, list_at(report, "rules"))]
    sentences = [kind_in_words(record), *rules]
    return f"<p>{escape(' '.join(filter(None, sentences)))}</p>" if any(sentences) else ""


def _rows_block(report, name):
    splits = {name: split for name, split in mapping_at(report, "splits").items() if isinstance(split, dict)}
    if not splits:
        return ""
    columns = [_plain(split) | _balance(split) for split in splits.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[_data_name(name), *(shown(name, column.get(name, "")) for column in columns)] for name in names]
    intro = (
        "The model learns from the train split; no document of it is in the validation split, which measures what was "
        "learnt. Unigram entropy is the loss, a masked token, of knowing only how often each token occurs."
    )
    histogram = _lengths(mapping_at(splits, "train", "lengths"), name)
    return f"<p>{intro}</p>{_side_by_side(table(rows, ['', *splits], 'Examples'), histogram)}"


def _balance(split):
    name, share = label_share(split)
    return {name: share} if name else {}


def _account(report):
    account = mapping_at(report, "token_account")
    if not account:
        return ""
    names = [n for n in ACCOUNT_ORDER if n in account] + [n for n in account if n not in ACCOUNT_ORDER]
    intro = (
        "Nothing gets lost unseen: the tokens of the text, once for each pass over it, and those borrowed are as many "
        "as those in rows, cut off and dropped. [CLS], [SEP] and padding are not counted."
    )
    return f"<p>{intro}</p>{table(_rows({n: account[n] for n in names}), caption='Account of the tokens')}"


def _text_block(report):
    plain, dropped, left_out = _plain(report), mapping_at(report, "dropped"), mapping_at(report, "left_out")
    skipped = list(map(str, list_at(report, "skipped")))
    reasons = [[REASONS.get(reason, str(reason)), shown(reason, number)] for reason, number in left_out.items()]
    tables = [
        table(_rows(plain), caption="Text") if plain else "",
        _sources(mapping_at(report, "words_of_sources"), mapping_at(report, "share_taken_of_sources")),
        table(reasons, caption="Documents left out") if reasons else "",
        table(_rows(dropped), caption="Dropped") if dropped else "",
        unknown_characters(list_at(report, "unknown_characters")),
    ]
    parts = [_side_by_side(*tables)]
    if {"left_out", "skipped"} <= set(report) and not left_out and not skipped:
        parts.insert(0, "<p>No document was left out by a filter or as a duplicate, and all could be read.</p>")
    if skipped:
        title = f"What could not be read and was skipped ({plural(len(skipped), 'message')})"
        messages = f"<ul>{''.join(f'<li>{escape(message)}</li>' for message in skipped)}</ul>"
        few = len(skipped) <= MOST_MESSAGES
        parts.append(f"<p>{title}:</p>{messages}" if few else folded(title, messages))
    return "".join(parts)


def _sources(words, shares):
    """Words of each source and how much of it was taken: all, where no weights were given."""
    rows, taken = [], {}
    for path, found in words.items():
        share = shares.get(path, 1.0)
        if is_count(found) and is_figure(share):
            taken[path] = found * share
    for path, found in words.items():
        of_all = percent(taken[path] / max(sum(taken.values()), 1)) if path in taken else ""
        rows.append([path, shown("", found), shown("_share", shares.get(path, 1.0)), of_all])
    return table(rows, ["source", "words", "share taken", "of all words taken"], "Sources") if rows else ""


def _settings(record):
    settings = mapping_at(record.preparation, "origin", "settings")
    if not settings:
        return ""
    rows = [[name, "(empty)" if value in ("", []) else str(value)] for name, value in settings.items()]
    return folded("All that decides the output, besides text and tokenizer", table(rows, ["setting", "value"]))


def _lengths(lengths, name):
    edges, counts = list_at(lengths, "edges"), list_at(lengths, "examples")
    counted = all(is_count(n) for n in edges + counts)
    if not counted or len(edges) < 2 or len(counts) != len(edges) - 1 or edges != sorted(set(edges)):
        return ""
    title = f"Lengths of the rows ({name})"
    svg = curves.histogram(title, edges, counts)
    return f"<figure class='small'><figcaption>{escape(title)}</figcaption>{svg}</figure>"


def _side_by_side(*elements):
    return f"<div class='tables'>{''.join(elements)}</div>" if any(elements) else ""


def _plain(mapping):
    return {name: value for name, value in mapping.items() if not isinstance(value, dict | list)}


def _rows(mapping):
    return [[_data_name(name), shown(name, value)] for name, value in mapping.items()]


def _data_name(name):
    return DATA_NAMES.get(name, str(name).replace("_", " "))
