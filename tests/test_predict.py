"""`bert-jax predict` on the tiny run, against the model called directly."""

import io
import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from bert_jax import checkpoint
from bert_jax.fill_mask import mask_filler
from bert_jax.model import encoder, heads
from bert_jax.model.presets import ComputeConfig
from bert_jax.models import load_model
from tests.e2e.conftest import corpus, finished_run, run_here


@pytest.fixture(scope="module")
def words():
    return corpus().read_text().split("\n")[0].rstrip(".").split()


@pytest.fixture(scope="module")
def text(words):
    """A sentence of the corpus with one word masked."""
    return " ".join(["[MASK]", *words[1:]]) + "."


@pytest.fixture(scope="module")
def predictor():
    return mask_filler(load_model(finished_run()))


def command(capsys, *arguments, checkpoint_of=None):
    """(status, lines of standard output, standard error) of `bert-jax predict`."""
    where = f"--checkpoint={checkpoint_of or finished_run()}"
    capsys.readouterr()
    status = run_here("predict", "--task=fill-mask", where, *arguments)
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def row_alone(predictor, text):
    """Input arrays of one text, without padding, and the places of its masks."""
    tokenizer = predictor.tokenizer
    ids = np.array([[tokenizer.cls_id, *tokenizer.encode_special(text), tokenizer.sep_id]])
    return (jnp.asarray(ids), jnp.zeros_like(ids), jnp.ones(ids.shape, bool)), np.flatnonzero(
        ids[0] == tokenizer.mask_id
    )


def test_predictions_are_those_of_a_direct_forward_pass(predictor, text):
    inputs, (place,) = row_alone(predictor, text)
    params = checkpoint.restore_params(finished_run() / "checkpoints" / "6")
    batch = dict(zip(("input_ids", "token_type_ids", "mask"), inputs, strict=True)) | {
        "positions": jnp.array([[place]])
    }
    logits, _ = heads.pretraining_logits(params, predictor.model, ComputeConfig(), batch)
    expected = scipy.special.softmax(np.float64(logits[0, 0]))
    (result,) = predictor.fill_mask([text], top=predictor.model.vocab_size)
    (candidates,) = result["predictions"]
    for candidate in candidates:
        assert candidate["probability"] == pytest.approx(expected[candidate["id"]], rel=1e-4)
        assert predictor.tokenizer.tokens([candidate["id"]]) == [candidate["token"]]
    assert {candidate["id"] for candidate in candidates} == set(range(predictor.model.vocab_size))
    assert sum(candidate["probability"] for candidate in candidates) == pytest.approx(1, abs=1e-5)


def test_the_top_k_are_the_first_of_all_in_falling_order(predictor, text):
    (whole,), (top,) = (predictor.fill_mask([text], top=k)[0]["predictions"] for k in (predictor.model.vocab_size, 3))
    assert top == whole[:3]
    probabilities = [candidate["probability"] for candidate in whole]
    assert probabilities == sorted(probabilities, reverse=True)


def test_neighbours_and_padding_do_not_change_a_prediction(predictor, words, text):
    """Case F15's fault, here for masks: alone, beside a text that is three times as long, and in another place."""
    long = " ".join(["[MASK]", *(words * 12)])
    alone = predictor.fill_mask([text], hidden=(2,))[0]
    for batch in ([text, long], [long, text, long]):
        beside = predictor.fill_mask(batch, hidden=(2,))[batch.index(text)]
        for a, b in zip(alone["predictions"][0], beside["predictions"][0], strict=True):
            assert a["id"] == b["id"] and a["probability"] == pytest.approx(b["probability"], rel=1e-5)
        np.testing.assert_allclose(beside["hidden"]["2"], alone["hidden"]["2"], atol=1e-5)


def test_several_masks_are_predicted_in_their_order(predictor, words):
    texts = [" ".join(words[:2] + ["[MASK]"] * n + words[2:]) for n in (1, 2, 3)]
    together = predictor.fill_mask(texts)
    assert [len(result["predictions"]) for result in together] == [1, 2, 3]
    inputs, places = row_alone(predictor, texts[2])
    params = predictor.params
    hidden = encoder.encode(params, predictor.model, ComputeConfig(), *inputs)
    logits = heads.mlm_logits(params, predictor.model, ComputeConfig(), hidden[:, places])
    assert [c[0]["id"] for c in together[2]["predictions"]] == np.argmax(logits[0], axis=-1).tolist()


def test_attention_and_hidden_states(predictor, text):
    (result,) = predictor.fill_mask([text], attention=(1, 2), hidden=(0, 1, 2))
    model, size = predictor.model, len(result["tokens"])
    assert result["tokens"][0] == "[CLS]" and result["tokens"][-1] == "[SEP]" and "[MASK]" in result["tokens"]
    for n in ("1", "2"):
        attention = np.array(result["attention"][n])
        assert attention.shape == (model.heads, size, size)
        np.testing.assert_allclose(attention.sum(axis=-1), 1, atol=1e-5)
    hidden = {n: np.array(states) for n, states in result["hidden"].items()}
    assert list(hidden) == ["0", "1", "2"] and all(states.shape == (size, model.hidden) for states in hidden.values())
    inputs, _ = row_alone(predictor, text)
    last = encoder.encode(predictor.params, model, ComputeConfig(), *inputs)[0]
    np.testing.assert_allclose(hidden["2"], last, atol=1e-5)
    assert np.abs(hidden["0"] - hidden["1"]).max() > 1e-3


def test_the_command_prints_the_text_and_its_candidates(capsys, predictor, text):
    status, lines, _ = command(capsys, "--top=3", text)
    candidates = predictor.fill_mask([text], top=3)[0]["predictions"][0]
    assert status == 0 and lines[0] == text
    assert lines[1].split() == [word for c in candidates for word in (c["token"], f"{c['probability']:.3f}")]
    _, lines, _ = command(capsys, "[MASK] [MASK]")
    assert [line.split()[0] for line in lines[1:]] == ["[1]", "[2]"]


def test_many_lines_of_standard_input(capsys, monkeypatch, predictor, words):
    """More than a batch of 16, with empty lines between; answers come in their order."""
    texts = [f"[MASK] {words[n % len(words)]}" for n in range(40)]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n".join(texts) + "\n  \n"))
    status, lines, _ = command(capsys, "--json", "--top=2")
    results = [json.loads(line) for line in lines]
    assert status == 0 and [result["text"] for result in results] == texts
    assert results[20]["predictions"][0][0]["id"] == predictor.fill_mask([texts[20]])[0]["predictions"][0][0]["id"]
    assert all(len(result["predictions"][0]) == 2 for result in results)


def test_json_with_layers(capsys, text):
    _, (line,), _ = command(capsys, "--json", "--attention=2", "--hidden=0,2", text)
    result = json.loads(line)
    assert list(result["attention"]) == ["2"] and list(result["hidden"]) == ["0", "2"]


def test_an_older_checkpoint_can_be_named(capsys, text):
    outs = [command(capsys, "--json", "--top=1", text, checkpoint_of=finished_run() / "checkpoints" / step)[1]
            for step in ("2", "6")]  # fmt: skip
    probabilities = [json.loads(out[0])["predictions"][0][0]["probability"] for out in outs]
    assert probabilities[0] != probabilities[1]


def test_a_copied_run_predicts(capsys, tmp_path, text):
    copy = shutil.copytree(finished_run(), tmp_path / "copy")
    assert command(capsys, text, checkpoint_of=copy)[1] == command(capsys, text)[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no hole in it"], ["no [MASK]", "no hole in it"]),
        (["[MASK] " + "ba " * 600], ["512", "tokens"]),
        (["--top=0", "[MASK]"], ["--top is 0"]),
        (["--json", "--attention=3", "[MASK]"], ["--attention=3", "1 to 2"]),
        (["--json", "--attention=0", "[MASK]"], ["--attention=0", "1 to 2"]),
        (["--json", "--hidden=-1", "[MASK]"], ["--hidden=-1", "0 to 2"]),
        (["--hidden=1", "[MASK]"], ["--json"]),
    ],
)
def test_what_cannot_be_predicted_is_one_line(capsys, arguments, words):
    """Case H6 among them: the error gives the length and the limit."""
    status, lines, err = command(capsys, *arguments)
    assert status == 2 and lines == [] and err.count("\n") == 1 and all(word in err for word in words), err


def test_a_folder_without_checkpoint_is_one_line(capsys, tmp_path):
    for path, words in ((tmp_path, "found no checkpoint"), (tmp_path / "nowhere", "no such folder")):
        status, _, err = command(capsys, "[MASK]", checkpoint_of=path)
        assert status == 2 and err.count("\n") == 1 and words in err


def test_a_damaged_checkpoint_is_one_line(capsys, tmp_path):
    copy = shutil.copytree(finished_run(), tmp_path / "copy")
    (copy / "checkpoints" / "6" / "params" / "_METADATA").write_bytes(b"{}")
    status, _, err = command(capsys, "[MASK]", checkpoint_of=copy)
    assert status == 2 and err.count("\n") == 1 and "_METADATA differs from its manifest" in err


def test_a_run_without_its_tokenizer_is_one_line(capsys, tmp_path):
    copy = shutil.copytree(finished_run(), tmp_path / "copy")
    shutil.rmtree(copy / "tokenizer")
    status, _, err = command(capsys, "[MASK]", checkpoint_of=copy)
    assert status == 2 and err.count("\n") == 1 and "tokenizer" in err
