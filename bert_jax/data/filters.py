"""Documents that are left out of a preparation, and why."""

import functools
from dataclasses import dataclass

from bert_jax.errors import UserError

LANGUAGE_BYTES = 4000  # of the beginning of a document tell its language


@dataclass(frozen=True)
class Filters:
    """What a document must be like; the defaults let everything pass but empty ones.

    least_characters, most_characters: its length (0: no limit); languages: ISO 639-1 codes, one of which the detector
    (py3langid, extra [clean]) must find.
    """

    least_characters: int = 0
    most_characters: int = 0
    languages: tuple[str, ...] = ()

    def check(self):
        """Raises UserError for limits that contradict each other, for a language that the detector does not know."""
        if self.least_characters < 0 or self.most_characters < 0:
            raise UserError("least_characters and most_characters: expected 0 or more")
        if 0 < self.most_characters < self.least_characters:
            raise UserError(f"most_characters {self.most_characters} is below least_characters {self.least_characters}")
        if self.languages:
            known = _detector().labels
            for language in self.languages:
                if language not in known:
                    raise UserError(f"languages: found {language!r}, expected some of {', '.join(sorted(known))}")

    def reason_to_drop(self, text):
        """Why the document is left out, in a word or two; None where it stays."""
        if not text or text.isspace():
            return "empty"
        if len(text) < self.least_characters:
            return "too short"
        if 0 < self.most_characters < len(text):
            return "too long"
        if self.languages and _detector().classify(text[:LANGUAGE_BYTES])[0] not in self.languages:
            return "other language"
        return None


@functools.cache
def _detector():
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise UserError("py3langid is not installed: expected pip install 'bert-jax[clean]'") from error
    return LanguageIdentifier.from_model_file(MODEL_FILE)
