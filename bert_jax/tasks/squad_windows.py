"""Questions with parts of their texts as rows: [CLS] question [SEP] part [SEP]."""

import dataclasses

import numpy as np

from bert_jax.errors import UserError
from bert_jax.tasks.features import Features, offsets_of
from bert_jax.tasks.squad_data import SquadData

# google-research/bert's settings.
STRIDE = 128  # tokens between the starts of neighbouring windows
QUESTION_TOKENS = 64  # of a question at most


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of all questions, one question behind the other; w windows, int64 [w] where nothing else is said.

    features: a row a window. question: which one of data.questions. start, size: the tokens of the text that it has,
    start : start + size. place: where they begin in the row. spans: int32 [tokens, 2], the characters of each token of
    all contexts, those of context c from span_offsets[c] on.
    """

    data: SquadData
    features: Features
    question: np.ndarray
    start: np.ndarray
    size: np.ndarray
    place: np.ndarray
    spans: np.ndarray
    span_offsets: np.ndarray

    def select(self, windows):
        parts = {name: getattr(self, name)[windows] for name in ("question", "start", "size", "place")}
        return dataclasses.replace(self, features=self.features.select(windows), **parts)

    def spans_of(self, context):
        """The characters of each token of a context, [tokens, 2]."""
        return self.spans[self.span_offsets[context] : self.span_offsets[context + 1]]

    def labels(self):
        """int32 [w, 2]: places in the row of the first and the last token of the question's first answer; (0, 0), which
        is [CLS], where the window does not hold the whole of it."""
        answers = np.array([self._answer(question) for question in self.data.questions])
        first, last = answers[self.question].T
        held = (first >= self.start) & (last < self.start + self.size)
        places = np.stack([first, last], axis=1) + (self.place - self.start)[:, None]
        return np.where(held[:, None], places, 0).astype(np.int32)

    def _answer(self, question):
        """The first and the last token of a question's first answer in its context; (-1, -1) where there is none."""
        if not question.answers:
            return -1, -1
        (text, begin), spans = question.answers[0], self.spans_of(question.context)
        tokens = np.flatnonzero((spans[:, 0] < begin + len(text)) & (spans[:, 1] > begin))
        return (tokens[0], tokens[-1]) if len(tokens) else (-1, -1)


def make_windows(tokenizer, data, length):
    """The Windows of SquadData, rows of `length` tokens at most. Each context is tokenized once."""
    question_ids, question_offsets = tokenizer.encode([question.text for question in data.questions])
    context_ids, span_offsets, spans = tokenizer.encode_with_spans(data.contexts)
    if length < QUESTION_TOKENS + 4:
        raise UserError(f"a length of {length} tokens: expected {QUESTION_TOKENS + 4} or more: a question may have 64")
    rows, columns = [], []
    for number, question in enumerate(data.questions):
        asked = question_ids[question_offsets[number] : question_offsets[number + 1]][:QUESTION_TOKENS]
        text = context_ids[span_offsets[question.context] : span_offsets[question.context + 1]]
        room = length - len(asked) - 3
        for start in window_starts(len(text), room):
            part = text[start : start + room]
            rows.append(np.concatenate([[tokenizer.cls_id], asked, [tokenizer.sep_id], part, [tokenizer.sep_id]]))
            columns.append((number, start, len(part), len(asked) + 2))
    number, start, size, place = np.array(columns, np.int64).T
    lengths = np.array([len(row) for row in rows])
    features = Features(np.concatenate(rows).astype(np.int32), offsets_of(lengths), place.astype(np.int32))
    return Windows(data, features, number, start, size, place, spans, span_offsets)


def window_starts(tokens, room):
    """Where windows of `room` tokens begin: STRIDE apart, until one reaches the end."""
    starts = [0]
    while starts[-1] + room < tokens:
        starts.append(starts[-1] + min(room, STRIDE))
    return starts
