"""The command `vocab extend`: what it adds, what it tells, and what it refuses."""

import pytest

from bert_jax.__main__ import main
from bert_jax.text.sentencepiece_trainer import train_sentencepiece
from bert_jax.text.tokenizer import load_tokenizer
from tests.text.conftest import TOKENS, made_up_sentences, rows


def run(*arguments):
    return main(["vocab", "extend", *map(str, arguments)])


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("The covid cat sat. Covid covids lymphocyte lymphocyte!\n\n" * 20, encoding="utf-8")
    return path


def test_words_of_a_file_and_of_the_text(vocabulary, corpus, tmp_path, capsys):
    words = tmp_path / "words.txt"
    words.write_bytes("\ufeffImmunotherapy\r\n\r\ncat\nimmunotherapy\n  flu\n".encode())
    out = tmp_path / "out"
    arguments = (f"--tokenizer={vocabulary}", f"--words={words}", f"--source={corpus}", "--add=2", f"--out={out}")
    assert run(*arguments) == 0
    printed = capsys.readouterr().out.splitlines()
    size = len(TOKENS)
    assert printed[:-2] == [
        "1 read as the tokenizer writes them: Immunotherapy as immunotherapy",
        "1 in the vocabulary already, skipped: cat",
        "1 given more than once: immunotherapy",
        f"vocabulary of {size + 2} tokens (before: {size}): {out}",
        "2 in [unused] places: immunotherapy ([unused0], id 5), flu ([unused1], id 6)",
        f"2 at the end, ids {size} to {size + 1}: covid (id {size}), lymphocyte (id {size + 1})",
    ]
    # the cat sat . ! are one piece each; covid 5, covids 6, lymphocyte 10; of 10 words
    assert printed[-2] == f"{(5 + 2 * 5 + 6 + 2 * 10) / 10:.3f} tokens a word before, {(5 + 2 + 2 + 2) / 10:.3f} now"
    assert printed[-1] == "0.0000 % of characters in unknown words before, 0.0000 % now"
    tokenizer = load_tokenizer(out)
    assert tokenizer.lower_case and tokenizer.tokens(tokenizer.encode(["Covids: flu"])[0]) == [
        "covid",
        "##s",
        "[UNK]",
        "flu",
    ]
    content = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run(*arguments, "--workers=2") == 0  # the same again is no conflict, for any number of workers
    assert run(f"--tokenizer={vocabulary}", f"--words={words}", f"--out={out}") == 2
    assert "exists and holds something else" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == content


def test_a_byte_level_vocabulary(corpus, tmp_path, capsys):
    assert main(["vocab", f"--source={corpus}", "--kind=bytelevel_bpe", "--size=265", f"--out={tmp_path / 'old'}"]) == 0
    capsys.readouterr()
    arguments = (f"--tokenizer={tmp_path / 'old'}", f"--source={corpus}", "--add=9", f"--out={tmp_path / 'new'}")
    assert run(*arguments) == 0
    printed = capsys.readouterr().out
    assert "fewer than --add=9: the text has 7 words" in printed
    assert "7 at the end, ids 265 to 271: lymphocyte (id 265)" in printed
    new = load_tokenizer(tmp_path / "new")
    assert rows(new.encode(["lymphocyte", "The"]))[0] == [265] and "\u0120The" in new.tokens(range(265, 272))


def test_only_words_are_measured_without_a_text(vocabulary, tmp_path, capsys):
    (tmp_path / "words.txt").write_text("abc\nab\n")
    assert run(f"--tokenizer={vocabulary}", f"--words={tmp_path / 'words.txt'}", f"--out={tmp_path / 'out'}") == 0
    printed = capsys.readouterr().out
    assert "2.500 tokens an added word before, 1.000 now" in printed and "at the end" not in printed
    assert f"vocabulary of {len(TOKENS)} tokens (before: {len(TOKENS)})" in printed


def test_bad_arguments_are_one_line(vocabulary, corpus, tmp_path, capsys):
    out = f"--out={tmp_path / 'out'}"
    model = tmp_path / "spiece.model"
    text = " ".join(made_up_sentences(300)).split()
    model.write_bytes(train_sentencepiece({word: text.count(word) for word in set(text)}, 100, cased=True))
    contents = {
        "space.txt": b"flu\n\nheart attack\n",
        "punctuation.txt": b"covid-19\n",
        "latin1.txt": b"caf\xe9\n",
        "empty.txt": b"\n \n",
        "known.txt": b"cat\nThe\n",
        "vanishes.txt": "\u200b\n".encode(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    cases = [
        ("space.txt", "space.txt: line 3: 'heart attack' is 2 words to this tokenizer (heart | attack): expected one"),
        ("punctuation.txt", "punctuation.txt: line 1: 'covid-19' is 3 words"),
        ("latin1.txt", "latin1.txt: is not UTF-8 (offset 3): expected one word a line"),
        ("empty.txt", "empty.txt: is empty: expected one word a line"),
        ("known.txt", "nothing to add: the vocabulary has all these words"),
        ("vanishes.txt", "vanishes.txt: line 1: '\\u200b' is 0 words"),
        ("missing.txt", "missing.txt: cannot be read"),
    ]
    commands = [([f"--tokenizer={vocabulary}", f"--words={tmp_path / name}"], message) for name, message in cases]
    commands += [
        ([f"--tokenizer={vocabulary}"], "nothing to add: expected --words=FILE, --add=N with --source, or both"),
        ([f"--tokenizer={vocabulary}", "--add=3"], "--add=3: expected --source"),
        ([f"--tokenizer={vocabulary}", "--add=-3", f"--source={corpus}"], "--add=-3: expected a positive number"),
        ([f"--tokenizer={vocabulary}", "--add=3", f"--source={corpus}", "--workers=0"], "--workers=0: expected a"),
        ([f"--tokenizer={tmp_path / 'none'}", "--add=3", f"--source={corpus}"], "none: no such tokenizer"),
        (
            [f"--tokenizer={model}", "--add=3", f"--source={corpus}"],
            "spiece.model: is a SentencePiece tokenizer: words",
        ),
    ]
    for arguments, message in commands:
        assert run(*arguments, out) == 2, arguments
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1 and error.startswith("bert-jax vocab extend: "), error
    assert not (tmp_path / "out").exists()


def test_help_and_the_other_verb_of_that_name(capsys):
    with pytest.raises(SystemExit):
        run("--help")
    assert "bert-jax vocab extend --tokenizer=" in capsys.readouterr().out
    assert main(["vocab-extend"]) == 2
    assert "no verb 'vocab-extend'" in capsys.readouterr().err
