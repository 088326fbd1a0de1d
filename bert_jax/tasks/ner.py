"""Tags for words: named entities, or any other tag, from CoNLL column files."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks.entities import entities, entity_scores
from bert_jax.tasks.features import Features, offsets_of, places
from bert_jax.tasks.metrics import score
from bert_jax.tasks.task import Split, Task, fitting_head

SETTINGS = ("validation", "test")
LANGUAGE = re.compile(r"[a-z-]{2,12}:")


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Sentences as words, and as many tags each; tags: None where the file has none."""

    words: list[list[str]]
    tags: list[list[str]] | None


@dataclasses.dataclass(frozen=True)
class TaggedWords:
    """What a Split remembers: its sentences, and for each of their words, one sentence behind the other, the place of
    its first token among `features.ids`."""

    sentences: Sentences
    first_tokens: np.ndarray

    def by_sentence(self, values):
        """Values of all words as a list a sentence."""
        ends = np.cumsum([len(words) for words in self.sentences.words])[:-1]
        return np.split(values, ends)


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig named ner; its files have a word a line, and its tag in the last column.

    Tags are those of the training file, O first; those of `head` where it is given. Where some begin with B- or I-,
    entities are scored, else tags.
    """
    files = {"train": config.data, "validation": config.validation, "test": config.test}
    found = {split: read_columns(path, split == "test") for split, path in files.items() if path}
    remarks = []
    if head is None:
        if "train" not in found:
            raise UserError("ner: without training examples there are no tags")
        tags = {tag for sentence in found["train"].tags for tag in sentence}
        labels = tuple(sorted(tags, key=lambda tag: (tag != "O", tag.partition("-")[2], tag)))
        head = HeadConfig("tag", labels, length=length)
    fitting_head("ner", head, "tag")
    order = {tag: index for index, tag in enumerate(head.labels)}
    with_entities = names_entities(head.labels)
    splits = {}
    for name, sentences in found.items():
        splits[name], cut = _split(files[name], sentences, tokenizer, length, order)
        if cut:
            remarks.append(f"{name}: {cut:,} sentences are longer than {length} tokens: they take several rows")

    def scored(split, outputs):
        predicted = outputs[split.source.first_tokens].argmax(-1)
        expected = split.labels[split.source.first_tokens]
        if not with_entities:
            return score(("accuracy", "macro_f1"), predicted, expected)
        names = np.array(head.labels)
        by_sentence = [split.source.by_sentence(names[values]) for values in (predicted, expected)]
        return entity_scores(*by_sentence) | score(("accuracy",), predicted, expected)

    def predictions(split, outputs):
        predicted = np.array(head.labels)[outputs[split.source.first_tokens].argmax(-1)]
        sentences = zip(split.source.sentences.words, split.source.by_sentence(predicted), strict=True)
        for index, (words, tags) in enumerate(sentences):
            yield {"index": index} | tagged(words, tags.tolist(), with_entities)

    return Task("ner", head, splits, scored, "f1" if with_entities else "accuracy", predictions, tuple(remarks))


def names_entities(labels):
    """Whether tags are those of entities, as B-PER is, and not of single words, as NOUN is."""
    return any(tag.startswith(("B-", "I-")) for tag in labels)


def tagged(words, tags, with_entities):
    """A sentence as {words, tags}, with_entities also {entities: [{type, first, last, text}]}; words count from 0."""
    if not with_entities:
        return {"words": words, "tags": tags}
    named = [
        {"type": kind, "first": start, "last": end - 1, "text": " ".join(words[start:end])}
        for kind, start, end in entities(tags)
    ]
    return {"words": words, "tags": tags, "entities": named}


def encode_words(tokenizer, sentences: Sequence[Sequence[str]], length):
    """(Features, first token of each word among its ids, how many sentences take several rows).

    [CLS] words [SEP]; a sentence that has no room in a row of `length` tokens goes on in the next one, and nothing of
    it is lost, but for the end of a word that has no room in a row of its own. A word of which the tokenizer leaves
    nothing is [UNK], so that each word has a token to be tagged at.
    """
    room = length - 2
    if room < 1:
        raise UserError(f"a length of {length} tokens: expected more than the 2 special ones of a row")
    flat = [word for words in sentences for word in words]
    ids, offsets = tokenizer.encode(flat)
    counts = np.diff(offsets)
    sizes = np.clip(counts, 1, room)
    words_of_row, rows_of_sentence = _rows(sizes, [len(words) for words in sentences], room)
    row_of_word = np.repeat(np.arange(len(words_of_row)), words_of_row)
    lengths = np.bincount(row_of_word, weights=sizes, minlength=len(words_of_row)).astype(np.int64) + 2
    row_offsets = offsets_of(lengths)
    # Before a word: all words before it, the two special tokens of each row before, and its own row's [CLS].
    first_tokens = offsets_of(sizes)[:-1] + 2 * row_of_word + 1
    row_ids = np.full(row_offsets[-1], tokenizer.sep_id, np.int32)
    row_ids[row_offsets[:-1]] = tokenizer.cls_id
    row_ids[places(first_tokens, sizes)] = tokenizer.unk_id
    kept = np.minimum(counts, room)
    row_ids[places(first_tokens, kept)] = ids[places(offsets[:-1], kept)]
    features = Features(row_ids, row_offsets, lengths.astype(np.int32))
    return features, first_tokens, int((rows_of_sentence > 1).sum())


def _rows(sizes, words_of_sentence, room):
    """(words of each row, rows of each sentence) when words of so many tokens fill rows from the left."""
    words_of_row, rows_of_sentence, place = [], [], 0
    for count in words_of_sentence:
        before, taken, words = len(words_of_row), 0, 0
        for size in sizes[place : place + count].tolist():
            if taken + size > room:
                words_of_row.append(words)
                taken = words = 0
            taken, words = taken + size, words + 1
        words_of_row.append(words)
        rows_of_sentence.append(len(words_of_row) - before)
        place += count
    return np.array(words_of_row), np.array(rows_of_sentence)


def _split(path, sentences, tokenizer, length, order):
    features, first_tokens, cut = encode_words(tokenizer, sentences.words, length)
    labels = None
    if sentences.tags is not None:
        labels = np.full(len(features.ids), -1, np.int32)
        flat = [tag for tags in sentences.tags for tag in tags]
        for tag in flat:
            if tag not in order:
                raise UserError(f"{path}: the tag {tag!r}: expected one of {', '.join(order)}")
        labels[first_tokens] = [order[tag] for tag in flat]
    return Split(features, labels, source=TaggedWords(sentences, first_tokens)), cut


def read_columns(path, tags_optional=False):
    """The Sentences of a file: a word a line in the first column, its tag in the last, an empty line between sentences.

    Columns are parted by tabs, or where there is none by spaces. -DOCSTART- lines are left out, and so is the language
    that WikiANN puts before each word ("en:"). With tags_optional a file of one column has no tags. Raises UserError,
    naming the line, for one of another number of columns than the first.
    """
    try:
        lines = Path(path).read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 (offset {error.start})") from error
    columns, sentences = None, [[]]
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r")
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            sentences.append([])
            continue
        cells = line.split("\t") if "\t" in line else line.split(" ")
        columns = columns or len(cells)
        if len(cells) != columns or not cells[-1]:
            raise UserError(
                f"{path}, line {number}: {len(cells)} columns ({line[:40]!r}): expected {columns}, none empty"
            )
        sentences[-1].append(cells)
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        raise UserError(f"{path}: has no words")
    if columns == 1 and not tags_optional:
        raise UserError(f"{path}: has one column: expected words and, in the last column, their tags")
    words = [[cells[0] for cells in sentence] for sentence in sentences]
    language = LANGUAGE.match(words[0][0])
    if language and all(word.startswith(language[0]) for sentence in words for word in sentence):
        words = [[word.removeprefix(language[0]) for word in sentence] for sentence in words]
    return Sentences(words, [[cells[-1] for cells in sentence] for sentence in sentences] if columns > 1 else None)
