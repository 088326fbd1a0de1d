"""Text of extreme shape: what fits in no cache and no row goes through, in bounded memory and linear time."""

import subprocess
import sys

import pytest

from tests.data.conftest import PEAK_KILOBYTES

pytestmark = pytest.mark.slow
SENTENCE = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12. "
PROGRAM = (
    "import sys\n"
    "from bert_jax.data.prepare import PrepareConfig, prepare\n"
    "prepared = prepare(PrepareConfig((sys.argv[1],), sys.argv[2], sys.argv[3], 128, kind='full_sentences',\n"
    "    separator=sys.argv[4], held_out=0.0))\n"
    "account = prepared.report['token_account']\n"
    "assert account['tokens_in'] == account['tokens_out']\n"
    f"print(prepared.report['documents'], account['tokens_out'], {PEAK_KILOBYTES})\n"
)


def prepared(tmp_path, vocabulary, text, separator="blank_line"):
    """(documents, tokens, peak resident memory in bytes) of preparing what the iterable `text` yields."""
    with open(tmp_path / "text.txt", "w") as stream:
        stream.writelines(text)
    arguments = [str(tmp_path / "text.txt"), str(vocabulary), str(tmp_path / "out"), separator]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=400)
    documents, tokens, kilobytes = map(int, done.stdout.split())
    return documents, tokens, 1024 * kilobytes


def test_a_document_of_200_megabytes(tmp_path, vocabulary):
    paragraphs = 200_000_000 // (20 * len(SENTENCE))
    documents, tokens, peak = prepared(tmp_path, vocabulary, (SENTENCE * 20 + "\n" for _ in range(paragraphs)))
    assert (documents, tokens) == (1, 13 * 20 * paragraphs)
    assert peak < 20 * 200_000_000  # its text, sentences and ids at once


def test_a_line_of_50_megabytes(tmp_path, vocabulary):
    sentences = 50_000_000 // len(SENTENCE)
    documents, tokens, _ = prepared(tmp_path, vocabulary, (SENTENCE for _ in range(sentences)))
    assert (documents, tokens) == (1, 13 * sentences)


def test_a_million_documents_of_one_line(tmp_path, vocabulary):
    documents, tokens, peak = prepared(tmp_path, vocabulary, (f"w{i % 300} w2.\n" for i in range(10**6)), "line")
    assert (documents, tokens) == (10**6, 3 * 10**6)
    assert peak < 700_000_000


def test_a_word_of_10_megabytes(tmp_path, vocabulary):
    documents, tokens, _ = prepared(tmp_path, vocabulary, ["x" * 10_000_000, "\n\nw1 w2.\n"])
    assert documents == 2
    assert 4 <= tokens < 10_000  # unknown, once for each stretch of it that is split at a time
