"""The published maskings told in plain Python, for comparison: one row at a time, a loop over words."""


def whole_words(words, budget, random):
    """google-research/bert, create_masked_lm_predictions with do_whole_word_mask: the positions to mask.

    Words in random order; one that would exceed the budget is passed over.
    """
    order = [words[i] for i in random.permutation(len(words))]
    chosen = []
    for word in order:
        if len(chosen) == budget:
            break
        if len(chosen) + len(word) <= budget:
            chosen += word
    return sorted(chosen)


def spans(words, budget, probabilities, random):
    """Spans laid end to end over the words of one stretch, taken in random order: the positions to mask.

    probabilities: of a span of 1, 2, ... words. A span that does not fit is cut after its last word that does.
    """
    laid, start = [], 0
    while start < len(words):
        size = 1 + random.choice(len(probabilities), p=probabilities)
        laid.append(words[start : start + size])
        start += size
    chosen = []
    for index in random.permutation(len(laid)):
        for word in laid[index]:
            if len(chosen) + len(word) > budget:
                break
            chosen += word
    return sorted(chosen)


def spanbert(words, budget, probabilities, random):
    """SpanBERT, pretraining/fairseq/data/masking.py: starting points drawn until the budget is used, overlaps merged.

    The last span is cut where the budget ends, be it within a word.
    """
    word_of = {position: index for index, word in enumerate(words) for position in word}
    positions, chosen = sorted(word_of), set()
    while len(chosen) < min(budget, len(positions)):
        size = 1 + random.choice(len(probabilities), p=probabilities)
        anchor = positions[random.integers(len(positions))]
        if anchor in chosen:
            continue
        for word in words[word_of[anchor] : word_of[anchor] + size]:
            for position in word:
                if len(chosen) < budget:
                    chosen.add(position)
    return sorted(chosen)
