"""The page of fine-tuning: what it counts, and that any run or sweep, whole or not, gives a sound page."""

import json

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix

from bert_jax.errors import UserError
from bert_jax.report.tuned_run import calibration, confusion, scores_by
from bert_jax.report.write import write_report
from tests.report.html_page import HOSTILE, Page


def predicted(count=200, labels=("no", "yes", HOSTILE)):
    draw = np.random.default_rng(0)
    lines = []
    for index, row in enumerate(draw.dirichlet(np.ones(len(labels)), count)):
        probabilities = dict(zip(labels, row.tolist(), strict=True))
        expected = labels[draw.integers(len(labels))]
        lines.append(
            {"index": index, "label": labels[row.argmax()], "expected": expected, "probabilities": probabilities}
        )
    return lines


def write_lines(path, lines):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def folder_of_run(folder, predictions, **summary):
    config = {"model": {}, "finetune": {"task": {"name": HOSTILE, "data": "d"}, "epochs": 2}, "examples": 9}
    (folder / "config.json").write_text(json.dumps(config))
    train = [{"split": "train", "step": step, "loss": 1 / step} for step in range(1, 90)]
    held = [{"split": "validation", "step": step, "accuracy": step / 100, HOSTILE: 0.5} for step in (45, 89)]
    write_lines(folder / "metrics.jsonl", train + held)
    whole = {
        **{"task": "mine", "scores": {"validation": {"accuracy": 0.875}}, "main": "accuracy", "best_step": 89},
        **{"steps": 89, "train_examples": 1234, "seconds": 61.0, "degenerate": []},
    }
    (folder / "summary.json").write_text(json.dumps(whole | summary))
    write_lines(folder / "predictions" / "validation.jsonl", predictions)
    write_lines(folder / "predictions" / "test.jsonl", [{"index": 0, "label": "no"}])


def test_a_run_of_a_classification(tmp_path):
    folder_of_run(tmp_path, predicted(), degenerate=["validation"])
    page = Page(write_report(tmp_path).read_text())
    for words in (
        "1,234 examples", "after update 89", "0.8750", "0:01:01", "Training loss", "Held-out accuracy",
        "validation: confusion, 200 examples", "validation: calibration", "gets the same label", HOSTILE[:-2],
    ):  # fmt: skip
        assert words in page.text, words


def test_a_run_of_a_regression_and_one_that_goes_on(tmp_path):
    folder_of_run(tmp_path, [{"index": n, "score": n / 9, "expected": n / 8} for n in range(8)])
    assert "validation: numbers" in Page(write_report(tmp_path).read_text()).text
    (tmp_path / "summary.json").unlink()
    page = Page(write_report(tmp_path).read_text())
    assert "not finished yet" in page.text and "summary.json: not found" in page.text


def test_a_sweep_is_drawn_over_its_settings(tmp_path):
    runs = [
        {
            "setting": {"learning_rate": 5e-5, "epochs": 3, "train_examples": size, "seed": seed},
            **{"main": "f1", "scores": {"validation": {"f1": size / 1000 + seed / 10}}, "degenerate": []},
        }
        for size in (62, 125, 250, 500)
        for seed in (0, 1, 2)
    ]
    write_lines(tmp_path / "sweep.jsonl", runs)
    config = {"checkpoint": "x", "finetune": {"task": {"name": "mrpc"}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    page = Page(write_report(tmp_path).read_text())
    assert "12 runs" in page.text and "f1 by labelled examples (mean and deviation of up to 3 runs each)" in page.text
    assert "f1 by epochs" not in page.text and "f1 by seed" not in page.text
    values, means, deviations, counts = scores_by(runs, "train_examples")
    assert values.tolist() == [62, 125, 250, 500] and counts.tolist() == [3] * 4
    np.testing.assert_allclose(means, values / 1000 + 0.1)
    np.testing.assert_allclose(deviations, 0.1)


def test_confusion_and_calibration_are_those_of_scikit_learn():
    lines = predicted()
    labels, counts = confusion(lines)
    truth, chosen = ([line[name] for line in lines] for name in ("expected", "label"))
    np.testing.assert_array_equal(counts, confusion_matrix(truth, chosen, labels=labels))
    means, shares, sizes, error = calibration(lines)
    confidence = np.array([max(line["probabilities"].values()) for line in lines])
    right = np.array(truth) == np.array(chosen)
    expected_shares, expected_means = calibration_curve(right, confidence, n_bins=10)
    np.testing.assert_allclose(shares, expected_shares)
    np.testing.assert_allclose(means, expected_means)
    assert sizes.sum() == 200 and error == pytest.approx(np.abs(means - shares) @ sizes / 200)
    assert confusion(predicted(labels=tuple(map(str, range(30))))) is None
    assert confusion([{"label": "a", "expected": "b", "probabilities": {"a": 1.0}}]) is None


def test_what_is_damaged_is_told(tmp_path):
    folder_of_run(tmp_path, predicted())
    (tmp_path / "metrics.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"metrics\.jsonl: not readable"):
        write_report(tmp_path)
