"""A fine-tuned model as a function from texts to answers."""

from collections.abc import Sequence

import jax
import numpy as np
import scipy.special

from bert_jax import parallel
from bert_jax.errors import UserError
from bert_jax.model.presets import ComputeConfig
from bert_jax.models import Model
from bert_jax.tasks import ner
from bert_jax.tasks.features import encode_rows
from bert_jax.tasks.outputs import Forward
from bert_jax.tasks.squad_answers import N_BEST, ranked_answers
from bert_jax.tasks.squad_data import Question, SquadData
from bert_jax.tasks.squad_windows import make_windows
from bert_jax.tasks.task import Split, fitting_head

BATCH = 32
COMPUTE = ComputeConfig(remat="none")


class TaskPredictor:
    """What the head of a models.Model says of texts; each method is for one kind of head.

    length: tokens of an input at most, those that the model was tuned on, or its positions. truncated: how many inputs
    were cut to it so far.
    """

    def __init__(self, model: Model, batch_size: int = BATCH, compute: ComputeConfig = COMPUTE):
        if model.head is None:
            raise UserError(f"{model.path} has no head of a task: fine-tune it first (bert-jax finetune)")
        self.model, self.truncated = model, 0
        self.length = model.head.length or model.config.max_positions
        mesh = parallel.make_mesh(parallel.MeshConfig(), jax.local_devices()[:1])
        self._forward = Forward(compute, model.config, model.head, mesh, batch_size, model.tokenizer.pad_id)

    def classify(self, first: Sequence[str], second: Sequence[str] | None = None) -> list[dict]:
        """For each text or pair {label, probability, probabilities: {label: probability}}."""
        labels, results = self._head("classify").labels, []
        for row in scipy.special.softmax(self._outputs(first, second).astype(np.float64), axis=-1):
            best, probabilities = int(row.argmax()), dict(zip(labels, row.tolist(), strict=True))
            results.append({"label": labels[best], "probability": float(row[best]), "probabilities": probabilities})
        return results

    def regress(self, first: Sequence[str], second: Sequence[str] | None = None) -> list[dict]:
        """For each text or pair {score}."""
        self._head("regress")
        return [{"score": float(value)} for value in self._outputs(first, second)]

    def rerank(self, query: str, texts: Sequence[str]) -> list[dict]:
        """The texts with the best match for the query first: {index, text, score}; of ties the earlier one.

        The score is the number of a regress head, and of a classify head the log-odds of its last label, which is the
        positive one in the usual order.
        """
        if self.model.head.kind != "regress":
            self._head("classify")
        outputs = self._outputs([query] * len(texts), texts)
        if outputs.ndim == 2:
            outputs = outputs[:, -1] - scipy.special.logsumexp(outputs[:, :-1], axis=-1)
        order = np.argsort(-outputs, kind="stable")
        return [{"index": int(n), "text": texts[n], "score": float(outputs[n])} for n in order]

    def choose(self, context: str, endings: Sequence[str]) -> dict:
        """The likeliest of the endings: {index, ending, probability, probabilities}."""
        self._head("choose")
        scores = self._outputs([context] * len(endings), endings)[:, 0]
        probabilities = scipy.special.softmax(scores.astype(np.float64))
        best = int(probabilities.argmax())
        found = {"index": best, "ending": endings[best], "probability": float(probabilities[best])}
        return found | {"probabilities": probabilities.tolist()}

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[dict]:
        """Each sentence, a sequence of words, as `ner.tagged` gives it."""
        labels = np.array(self._head("tag").labels)
        features, first_tokens, _ = ner.encode_words(self.model.tokenizer, sentences, self.length)
        tags = labels[self._forward(self.model.params, Split(features, None))[first_tokens].argmax(-1)].tolist()
        results = []
        for words in sentences:
            own, tags = tags[: len(words)], tags[len(words) :]
            results.append(ner.tagged(list(words), own, ner.names_entities(self.model.head.labels)))
        return results

    def answer(
        self, questions: Sequence[str], contexts: Sequence[str], top: int = N_BEST, may_be_none: bool | None = None
    ) -> list[dict]:
        """For each question about the context at its place {answer, n_best: [{text, probability, start}]}, the `top`
        best; "" is no answer. may_be_none: whether that may be; by default whether the model was tuned on questions
        without answer, which other people's models do not tell."""
        asked = [Question(str(n), text, n, None) for n, text in enumerate(questions)]
        self._head("answer")
        windows = make_windows(self.model.tokenizer, SquadData("", list(contexts), asked), self.length)
        outputs = self._forward(self.model.params, Split(windows.features, None))
        ranked = ranked_answers(windows, outputs, self.model.head.null if may_be_none is None else may_be_none)
        return [{"answer": answers.chosen, "n_best": answers.n_best[:top]} for answers in ranked]

    def _head(self, kind):
        return fitting_head("this", self.model.head, kind)

    def _outputs(self, first, second):
        features = encode_rows(self.model.tokenizer, first, second, length=self.length)
        self.truncated += features.truncated
        return self._forward(self.model.params, Split(features, None))
