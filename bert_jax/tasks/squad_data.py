"""Files of SQuAD's format."""

import dataclasses
import json
from pathlib import Path

from bert_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Question:
    """context: which of the file's texts it is about. answers: (text, place of its first character) of each that people
    gave, none where there is no answer; None where the file does not tell."""

    id: str
    text: str
    context: int
    answers: tuple[tuple[str, int], ...] | None


@dataclasses.dataclass(frozen=True)
class SquadData:
    """All questions of a file, in its order."""

    path: str
    contexts: list[str]
    questions: list[Question]

    @property
    def has_answers(self):
        """Whether the file tells the answers."""
        return all(question.answers is not None for question in self.questions)

    @property
    def has_unanswerable(self):
        return any(question.answers == () for question in self.questions)


def read_squad(path):
    """The SquadData of a file of version 1.1 or 2.0.

    Raises UserError, naming the question, for an answer that is not where the file says, for an id that stands twice, a
    field that is missing, and for a file in which some questions have answers and others do not say.
    """
    path = Path(path)
    try:
        articles = json.loads(path.read_bytes().decode("utf-8-sig"))["data"]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is no SQuAD file: expected a JSON object with 'data'") from error
    contexts, questions, seen, place = [], [], set(), "the first article"
    try:
        for paragraph in (paragraph for article in articles for paragraph in article["paragraphs"]):
            contexts.append(_text(path, place, paragraph, "context"))
            for question in paragraph["qas"]:
                place = f"question {question['id']!r}"
                if question["id"] in seen:
                    raise UserError(f"{path}: {place} stands twice")
                seen.add(question["id"])
                answers = _answers(path, question, paragraph["context"])
                text = _text(path, place, question, "question")
                questions.append(Question(question["id"], text, len(contexts) - 1, answers))
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: at or after {place}: is no SQuAD file ({type(error).__name__}: {error})") from error
    if not questions:
        raise UserError(f"{path}: has no questions")
    untold = [question.id for question in questions if question.answers is None]
    if untold and len(untold) < len(questions):
        raise UserError(f"{path}: question {untold[0]!r} has no answers and is not is_impossible, others have answers")
    return SquadData(str(path), contexts, questions)


def _text(path, place, owner, field):
    """A field that is text; half of a surrogate pair, which JSON can spell, is none that a tokenizer takes."""
    text = owner[field]
    if not isinstance(text, str):
        raise UserError(f"{path}: at or after {place}: {field!r} is {text!r}: expected text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UserError(f"{path}: at or after {place}: {field!r} has half of a surrogate pair: expected Unicode text")
    return text


def _answers(path, question, context):
    name, given = question["id"], question.get("answers")
    if question.get("is_impossible"):
        if given:
            raise UserError(f"{path}: question {name!r} is_impossible, and has the answer {given[0]['text']!r}")
        return ()
    if not given:
        return None
    answers = tuple((answer["text"], answer["answer_start"]) for answer in given)
    for text, start in answers:
        if not text or not 0 <= start or context[start : start + len(text)] != text:
            found = context[max(start, 0) : max(start, 0) + max(len(text), 1)]
            raise UserError(f"{path}: question {name!r}: the answer {text!r} is not at {start}, where {found!r} stands")
    return answers
