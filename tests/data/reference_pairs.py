"""The paper's pairing, step by step: google-research/bert `create_pretraining_data.py`, told in plain Python.

`choose` makes every random decision, so that a test can feed it the decisions of the code under test.
"""


class RandomChoices:
    """Decisions drawn as Google's code draws them."""

    def __init__(self, rng, short_probability):
        self.rng, self.short_probability = rng, short_probability

    def target(self, document, longest):
        return self.rng.randint(2, longest) if self.rng.random() < self.short_probability else longest

    def a_sentences(self, start, n_sentences):
        return self.rng.randint(1, n_sentences - 1)

    def random_next(self, start):
        return self.rng.random() < 0.5

    def other_document(self, start, document, n_documents):
        for _ in range(10):
            other = self.rng.randrange(n_documents)
            if other != document:
                break
        return other

    def other_start(self, start, n_sentences):
        return self.rng.randrange(n_sentences)

    def from_front(self, start, side):
        return self.rng.random() < 0.5


def paper_pairs(documents, length, choose):
    """Pairs (start, A tokens, B tokens, is_random) of one pass over the documents: lists of lists of tokens.

    `start` is the number, in the whole corpus, of the sentence that the pair's chunk starts with.
    """
    pairs = []
    first_sentence = 0
    for number, document in enumerate(documents):
        target = choose.target(number, length - 3)
        chunk, chunk_length, i = [], 0, 0
        while i < len(document):
            chunk.append(document[i])
            chunk_length += len(document[i])
            if i == len(document) - 1 or chunk_length >= target:
                start = first_sentence + i - len(chunk) + 1
                a_end = choose.a_sentences(start, len(chunk)) if len(chunk) >= 2 else 1
                tokens_a = [token for sentence in chunk[:a_end] for token in sentence]
                tokens_b = []
                is_random = len(chunk) == 1 or choose.random_next(start)
                if is_random:
                    room = target - len(tokens_a)
                    other = documents[choose.other_document(start, number, len(documents))]
                    for sentence in other[choose.other_start(start, len(other)) :]:
                        tokens_b.extend(sentence)
                        if len(tokens_b) >= room:
                            break
                    i -= len(chunk) - a_end
                else:
                    tokens_b = [token for sentence in chunk[a_end:] for token in sentence]
                truncate(tokens_a, tokens_b, length - 3, start, choose)
                pairs.append((start, tokens_a, tokens_b, is_random))
                chunk, chunk_length = [], 0
            i += 1
        first_sentence += len(document)
    return pairs


def truncate(tokens_a, tokens_b, room, start, choose):
    while len(tokens_a) + len(tokens_b) > room:
        side, tokens = ("a", tokens_a) if len(tokens_a) > len(tokens_b) else ("b", tokens_b)
        if choose.from_front(start, side):
            del tokens[0]
        else:
            tokens.pop()
