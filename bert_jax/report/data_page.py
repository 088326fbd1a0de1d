"""The page of a folder of prepared data: one HTML file without scripts or outside resources."""

from bert_jax.report import data, data_words
from bert_jax.report.html import document, escape, key_figures, notes_box


def make_page(record, mark):
    """The whole page as text; record: a prepared.DataRecord, mark: an element for the head that names the maker."""
    sections = [
        data.warnings_box(record),
        f"<p class='lead'>{escape(' '.join(data_words.summary(record)))}</p>",
        key_figures(data_words.key_figures(record)),
        notes_box(record.notes),
        *data.blocks(record, "train", 2),
    ]
    return document(f"Prepared data: {record.path}", mark, sections)
