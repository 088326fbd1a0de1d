"""The part of a run's report that tells of its data: the report.json of each phase, in words and tables."""

from bert_jax.report import curves
from bert_jax.report.html import escape, notes_box, shown, table
from bert_jax.report.run import is_figure

# Names of report.json whose words alone would not do.
DATA_NAMES = {
    "bytes_a_token": "bytes of text a token",
    "duplicate_sentence_share": "sentences that repeat an earlier one",
    "duplicate_sentences_are_of": "counted among",
    "unknown_token_share": "tokens unknown to the vocabulary",
    "one_sentence_document_share": "documents of one sentence",
    "seconds": "seconds to prepare",
    "megabytes_a_second": "megabytes a second",
    "next": "pairs labelled next",
    "random": "pairs labelled random",
    "random_share": "random among pairs (NSP balance)",
    "fill_rate": "fill rate (not padding)",
    "unigram_entropy": "unigram entropy (nats)",
    "tokens_in_rows": "tokens that may be masked",
    "borrowed": "+ borrowed for random second segments",
    "tokens_in": "tokens in",
    "tokens_out": "= tokens in rows",
    "truncated": "+ cut off at the row's end",
    "without_partner": "+ dropped for want of a second segment",
    "chunks_without_partner": "pieces of text so dropped",
}
ACCOUNT_ORDER = ("tokens_in", "borrowed", "tokens_out", "truncated", "without_partner", "chunks_without_partner")


def sections(run):
    """The parts of the page, one a phase; `run` is a run.RunRecord."""
    if run.data:
        yield "<h2>Data</h2>"
    seen = {}
    for number, (folder, report) in enumerate(run.data, 1):
        if folder in seen:
            yield f"<h3>Phase {number}: the data of phase {seen[folder]} again</h3>"
            continue
        seen[folder] = number
        yield f"<h3>Phase {number}: <code>{escape(folder)}</code></h3>"
        if report is None:
            yield notes_box([f"There is no report.json in {folder} any more: the data were moved or removed."], "Gone")
        else:
            yield _data_report(report, number)


def _data_report(report, number):
    """Any report.json of `prepare`: known names in words, others as they are."""
    parts = [notes_box(_list(report, "warnings"), "Warnings")]
    rules = [f"{rule[:1].upper()}{rule[1:]}." for rule in map(str, _list(report, "rules"))]
    parts.append(f"<p>{escape(' '.join(rules))}</p>")
    tables = []
    splits = {name: split for name, split in _mapping(report, "splits").items() if isinstance(split, dict)}
    if splits:
        tables.append(_splits_table(splits))
    account = _mapping(report, "token_account")
    if account:
        names = [n for n in ACCOUNT_ORDER if n in account] + [n for n in account if n not in ACCOUNT_ORDER]
        tables.append(table(_rows({name: account[name] for name in names}), caption="Account of the tokens"))
    tables.append(table(_rows(_plain(report)), caption="Text"))
    dropped = _mapping(report, "dropped")
    if dropped:
        tables.append(table(_rows(dropped), caption="Dropped"))
    lengths = _mapping(_mapping(splits, "train"), "lengths")
    parts.append(f"<div class='tables'>{''.join(tables)}{_lengths(lengths, number)}</div>")
    return "".join(parts)


def _splits_table(splits):
    columns = [_plain(split) | _balance(split) for split in splits.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[_data_name(name), *(shown(name, column.get(name, "")) for column in columns)] for name in names]
    return table(rows, ["", *splits], caption="Examples")


def _balance(split):
    pairs = [split.get("next"), split.get("random")]
    known = all(type(number) is int and number >= 0 for number in pairs) and sum(pairs)
    return {"random_share": pairs[1] / sum(pairs)} if known else {}


def _plain(mapping):
    return {name: value for name, value in mapping.items() if not isinstance(value, dict | list)}


def _lengths(lengths, number):
    edges, counts = _list(lengths, "edges"), _list(lengths, "examples")
    counted = all(type(n) is int and is_figure(n) for n in edges + counts)
    if not counted or len(edges) < 2 or len(counts) != len(edges) - 1 or edges != sorted(set(edges)):
        return ""
    title = f"Lengths of the rows (train, phase {number})"
    svg = curves.histogram(title, edges, counts)
    return f"<figure class='small'><figcaption>{escape(title)}</figcaption>{svg}</figure>"


def _rows(mapping):
    return [[_data_name(name), shown(name, value)] for name, value in mapping.items()]


def _data_name(name):
    return DATA_NAMES.get(name, str(name).replace("_", " "))


def _mapping(mapping, name):
    value = mapping.get(name)
    return value if isinstance(value, dict) else {}


def _list(mapping, name):
    value = mapping.get(name)
    return value if isinstance(value, list) else []
