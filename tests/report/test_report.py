"""The report page: well-formed, self-contained, tells all that the run left, and shows hostile text as text."""

import json
import math
import re
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.__main__ import main
from bert_jax.config import PretrainConfig, to_config_dict
from bert_jax.data.prepare import PrepareConfig
from bert_jax.data.report import make_report
from bert_jax.data.stages import Made, TextSummary
from bert_jax.errors import UserError
from bert_jax.report.curves import PANELS, smooth, thin
from bert_jax.report.data import ACCOUNT_ORDER, DATA_NAMES
from bert_jax.report.write import write_report
from tests.report.html_page import HOSTILE, Page


def metrics(count, every=1, first_phase=None):
    """Lines of a run: the loss halves towards 2 nats, each tenth of the way is evaluated."""
    lines = []
    for n in range(1, count + 1):
        step, noise = n * every, math.sin(n * 12.9898) * 0.1
        phase = 1 if first_phase is None or n <= first_phase else 2
        mlm = 2 + 8 * 0.5 ** (10 * n / count)
        figures = {"loss": mlm + 0.6, "mlm_loss": mlm, "mlm_accuracy": 0.4 - mlm / 25, "nsp_loss": 0.6, "phase": phase}
        train = figures | {
            "split": "train", "step": step, "mlm_loss": mlm + noise, "nsp_accuracy": 0.625, "gradient_norm": 1.5,
            "learning_rate": 1e-4 * (1 - n / (count + 1)), "tokens_per_second": 5120.0, "step_seconds": 0.2,
            "real_tokens_per_second": 4300.0, "data_wait_seconds": 0.001, "real_tokens": 860.0, "examples": step * 16,
        }  # fmt: skip
        lines.append(train)
        if n % max(1, count // 10) == 0:
            lines.append(figures | {"split": "heldout", "step": step, "nsp_accuracy": 0.75, "examples": 87})
    return lines


FIRST_LOSS = [{"split": "train", "step": 1, "loss": 3.0}]  # the least that is drawn


def settings_of(**changes):
    return PrepareConfig(("text",), "vocab.txt", "out", 64, held_out=0.0, **changes).settings()


def data_report(**changes):
    """A report.json with all the names that `prepare` gives it."""
    settings = settings_of()
    text = TextSummary(
        files=3, input_bytes=4_200_000, left_out={}, skipped=[], source_words={"text": 700_000}, seconds=2
    )
    report = make_report(Made(text), settings)
    report["documents"] = 28_917
    report["splits"]["train"].update(examples=6472, fill_rate=0.8595, unigram_entropy=7.003)
    report["splits"]["train"]["lengths"]["examples"][-1] = 6472
    report["splits"]["validation"].update(examples=87, next=24, random=63, unigram_entropy=5.9387)
    return report | changes


def make_run(folder, lines, *, phases=1, steps=50, data="data", model=None):
    """A workdir as `pretrain` leaves it, and one folder of data for the first phase."""
    config = json.loads(json.dumps(to_config_dict(PretrainConfig()).to_dict()))
    config["model"].update(model or {"hidden": 32, "layers": 2, "heads": 2, "ffn": 64})
    phase = {"data": str(folder / data), "length": 64, "batch_size": 16, "steps": steps}
    config["phases"] = [config["phases"]["phase1"] | phase] * phases
    if phases == 2:
        config["phases"][1] = config["phases"][1] | {"data": str(folder / "gone"), "length": 128}
    config["schedule"].update(total_steps=steps * phases, warmup_steps=0)
    (folder / data).mkdir(parents=True)
    (folder / data / "report.json").write_text(json.dumps(data_report()))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def report_of(folder):
    return Page(write_report(folder).read_text(encoding="utf-8"))


PREDICTIONS = [
    {
        "text": "The [MASK] sat on the [MASK].",
        "predictions": [[{"token": "cat", "probability": 0.3125}], [{"token": "mat", "probability": 0.0512}]],
    }
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The page of a run of two phases with everything there is, as (text, Page)."""
    lines = metrics(100, first_phase=50)
    lines[40:40] = [{"split": "bad", "step": 37, "loss": "nan", "gradient_norm": "inf", "example_ids": list(range(16))}]
    folder = make_run(tmp_path_factory.mktemp("run"), lines, phases=2)
    # The second phase's data are gone; the whole job's summary knows the entropy of its held-out tokens.
    (folder / "predictions.json").write_text(json.dumps(PREDICTIONS))
    summary = {"train_seconds": 160.2, "total_seconds": 3723.0, "unigram_entropy": 5.9387}
    (folder / "summary.json").write_text(json.dumps(summary))
    text = write_report(folder).read_text(encoding="utf-8")
    return text, Page(text)


def test_the_page_needs_nothing_from_outside(whole):
    text, page = whole
    assert "http:" not in text and "https:" not in text and "@import" not in text
    for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
        assert all(value.startswith("#") for value in page.values(name))
    assert not {"script", "link", "iframe", "img", "object", "form"} & set(page.tags)


def test_ids_are_unique_and_references_find_them(tmp_path):
    folder = make_run(tmp_path / "run", metrics(20, first_phase=10), phases=2)
    (folder / "gone").mkdir()
    (folder / "gone" / "report.json").write_text(json.dumps(data_report()))
    text = write_report(folder).read_text()
    page = Page(text)
    assert page.text.count("Lengths of the rows") == 2
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    used = {value[1:] for value in page.values("xlink:href")} | set(re.findall(r"url\(#([^)]*)\)", text))
    assert used and used <= set(ids)


def test_the_summary_tells_what_the_run_did(whole):
    words = whole[1].text
    last = metrics(100)[-1]
    assert "All 100 steps are done, in 2 phases." in words
    assert f"It read 1,600 examples: {50 * 16 * 64 + 50 * 16 * 128:,} tokens, about 86,000 of them text" in words
    assert f"{last['mlm_loss']:.4f} nats a masked token ({100 * last['mlm_accuracy']:.1f} % right)" in words
    assert "On held-out text (87 examples), after step 100, its loss is" in words
    below = 5.9387 - last["mlm_loss"]
    assert f"would give 5.9387 (unigram entropy): it is {below:.2f} nats below that" in words
    assert "0.6000 nats a sentence pair (75.0 % right)" in words
    assert "The steps took 20.0 s without" in words and "5,120 tokens a second (0.2 s a step)" in words
    assert "Training took 0:02:40 with all of these, the whole job 1:02:03." in words
    assert "1 step was not finite, and skipped." in words


def test_every_panel_is_drawn_with_its_unit(whole):
    words = whole[1].text
    drawn = [
        panel for panel in PANELS if not {"sop_loss", "sop_accuracy"} & set(panel.figures)
    ]  # it has the other head
    for panel in drawn:
        assert panel.title in words and panel.unit in words
    assert whole[1].tags.count("svg") == len(drawn) + 1 == len(PANELS) - 1  # and the lengths of the rows
    assert words.count("phase 2") >= len(drawn)  # marked in each


def test_sentence_order_is_told_as_next_sentences_are(tmp_path):
    lines = [{name.replace("nsp", "sop"): value for name, value in line.items()} for line in metrics(10)]
    folder = make_run(tmp_path / "run", lines)
    report = data_report()
    counts = report["splits"]["validation"]
    counts["in_order"], counts["swapped"] = counts.pop("next"), counts.pop("random")
    (folder / "data" / "report.json").write_text(json.dumps(report))
    words = report_of(folder).text
    assert "0.6000 nats a sentence pair (75.0 % right)" in words and "SOP accuracy" in words
    assert (
        "Sentence-order loss (SOP)" in words
        and "knowing only the label shares" in words
        and "NSP accuracy" not in words
    )


def test_tables_hold_the_figures(whole):
    words = whole[1].text
    for line in metrics(100):
        if line["split"] == "heldout":
            assert f"{line['mlm_loss']:.4f}" in words
    assert "37 nan inf 0, 1, 2, 3, 4, 5, 6, 7 and 8 more" in words
    assert "cat 31.2 %" in words and "mat 5.1 %" in words
    assert whole[1].tags.count("mark") == 2
    for figure in ("28,917", "6,472", "86.0 %", "5.939", "72.4 %", "4.2"):
        assert figure in words
    assert "report.json in" in words and "moved or removed" in words  # the second phase's data


def test_a_phase_shows_examples_masked_as_it_masks(data_of_kind, tmp_path):
    prepared = data_of_kind("sop")
    folder = make_run(tmp_path / "run", FIRST_LOSS, phases=2)
    config = json.loads((folder / "config.json").read_text())
    masking = {"max_predictions": 32, "rate": 1.0, "mask_share": 1.0, "random_share": 0.0}
    for phase in config["phases"]:
        phase.update(data=str(prepared.path), length=32, eval_masking=phase["eval_masking"] | {"max_predictions": 20})
    config["phases"][0]["masking"].update(masking)
    (folder / "config.json").write_text(json.dumps(config))
    text = write_report(folder).read_text()
    page = Page(text)
    assert "Phase 2: the data of phase 1 again" in page.text and page.text.count("Examples with masks") == 1
    assert "in a row 100.0 % of the tokens, as single tokens, 32 at most" in page.text
    examples = text[text.index("class='examples'") : text.index("Phase 2: the data")]
    assert "<mark class=hidden>" in examples and not re.search("<mark class=(random|kept)", examples)
    assert "label “swapped”" in page.text and "SOP" in page.text
    shutil.copytree(prepared.path, tmp_path / "copy")
    (tmp_path / "copy" / "shards.json").write_text("[]")
    config["phases"][1].update(data=str(tmp_path / "copy"), length=64)
    (folder / "config.json").write_text(json.dumps(config))
    page = report_of(folder)
    assert "Examples cannot be shown" in page.text and page.text.count("Rows as the model reads them") == 1


def test_changed_settings_come_first_with_their_defaults(whole):
    words = whole[1].text
    changed, every = words[words.index("setting value default") :].split("All settings")
    assert "model.hidden 32 768" in changed and "phases.phase2.length 128" not in changed
    assert "phases.phase1.length 64 128" in changed and "optimizer.b1" not in changed
    assert "optimizer.b1 0.9" in every and "phases.phase2.length 128" in every


def test_names_of_the_data_report_are_those_of_prepare():
    names = {"random_share", "swapped_share"}
    for kind in ({}, {"kind": "sop"}, {"kind": "packed", "pieces": "pairs"}):
        report = make_report(Made(TextSummary(1, 1, {}, [], {}, seconds=1)), settings_of(**kind))
        names |= set(report) | {name for split in report["splits"].values() for name in split}
        names |= set(report["token_account"]) | set(report["dropped"])
    assert set(DATA_NAMES) <= names
    assert set(ACCOUNT_ORDER) <= set(report["token_account"])


def test_a_base_model_has_its_published_parameter_count(tmp_path):
    page = report_of(make_run(tmp_path / "run", FIRST_LOSS, steps=1, model={"layers": 12}))
    assert "110,106,428 parameters" in page.text
    assert "Its 1 step is done." in page.text


def test_curves_have_the_shape_of_the_figures(tmp_path):
    """Three losses 3, 1, 2 at steps 1, 2, 3: the path goes down by two units and up by one, in equal strides."""
    lines = [{"split": "train", "step": n, "loss": value} for n, value in ((1, 3.0), (2, 1.0), (3, 2.0))]
    text = write_report(make_run(tmp_path / "run", lines)).read_text()
    number = r"(-?[\d.]+)"
    path = re.compile(rf'd="M {number} {number} \nL {number} {number} \nL {number} {number} \n"[^>]*--train')
    found = [np.array(points, float).reshape(3, 2).T for points in path.findall(text)]
    ((x, y),) = [(x, y) for x, y in found if np.ptp(y)]  # the legend's sample is level
    assert np.allclose(np.diff(x), x[1] - x[0], atol=1e-3) and x[1] > x[0]
    assert y[1] - y[0] == pytest.approx(-2 * (y[2] - y[1]), abs=1e-3) and y[1] > y[0]  # SVG counts downwards


def test_ten_thousand_lines_stay_small(tmp_path):
    lines = metrics(10_000, every=100, first_phase=9000)
    lines[5000]["gradient_norm"] = 4321.0
    lines[5000]["step_seconds"] = 77.0
    text = write_report(make_run(tmp_path / "run", lines, phases=2, steps=500_000)).read_text()
    assert len(text) < 700_000
    words = Page(text).text
    assert "norm before clipping, log scale" in words and "seconds, higher spikes cut off" in words
    assert "All 1,000,000 steps are done" in words and "Drawn from 10,000 lines" in words


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.integers(4, 40))
def test_thinning_keeps_peaks_and_ends(values, most):
    steps, values = np.arange(len(values)) * 10.0, np.array(values)
    thin_steps, thin_values = thin(steps, values, most)
    assert len(thin_steps) <= most + 2
    assert thin_values.max() == values.max() and thin_values.min() == values.min()
    assert (thin_steps[0], thin_steps[-1]) == (steps[0], steps[-1])
    assert np.all(np.diff(thin_steps) > 0)
    assert np.array_equal(thin_values, values[(thin_steps / 10).astype(int)])


def test_smoothing_averages_a_window():
    values = np.random.default_rng(0).normal(size=300)
    steps, means = smooth(np.arange(300.0), values)
    half = 6  # 4 % of 300 points
    expected = np.convolve(values, np.ones(2 * half + 1) / (2 * half + 1), mode="valid")
    assert np.allclose(means[half:-half], expected)
    assert means[0] == values[0] and means[2] == pytest.approx(values[:5].mean())
    assert means[-1] == pytest.approx(values[-half - 1 :].mean())
    assert np.array_equal(steps, np.arange(300.0))
    assert len(smooth(np.arange(5000.0), np.zeros(5000))[0]) <= 400


def test_hostile_text_is_shown_as_text(tmp_path):
    folder = make_run(tmp_path / "run <b>&", FIRST_LOSS, data="<i>data</i>")
    report = data_report(warnings=[HOSTILE], rules=[HOSTILE])
    report[HOSTILE] = report["splits"]["train"][HOSTILE] = report["dropped"][HOSTILE] = HOSTILE
    (folder / "<i>data<" / "i>" / "report.json").write_text(json.dumps(report))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"platform": HOSTILE}))
    guesses = [[{"token": HOSTILE, "probability": 7.5}]]
    (folder / "predictions.json").write_text(json.dumps([{"text": HOSTILE + "[MASK]", "predictions": guesses}]))
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"split": "bad", "step": 2, "loss": HOSTILE, "example_ids": [HOSTILE]}) + "\n")
    page = report_of(folder)
    assert not {"script", "img", "b", "i"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert page.text.count(shown) >= 9
    assert "run <b>&" in page.text and "<i>data</i>" in page.text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "no such folder"),
        (lambda folder: folder.write_text("x"), "is a file"),
        (lambda folder: folder.mkdir(), "holds no run, expected metrics.jsonl and config.json"),
        (lambda folder: (folder / "metrics.jsonl").mkdir(parents=True), "not readable"),
    ],
)
def test_a_folder_without_a_run_is_named(tmp_path, capsys, make, message):
    make(tmp_path / "run")
    assert main(["report", f"--workdir={tmp_path / 'run'}"]) == 2
    error = capsys.readouterr().err
    assert message in error and str(tmp_path / "run") in error and error.count("\n") == 1
    assert not list(tmp_path.rglob("report.html*"))


def test_metrics_that_are_not_text_are_refused(tmp_path):
    folder = make_run(tmp_path / "run", [])
    (folder / "metrics.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not readable"):
        write_report(folder)


def test_a_run_that_has_just_begun_has_a_page(tmp_path):
    page = report_of(make_run(tmp_path / "run", []))
    assert "no figures yet" in page.text and "0 steps are done, of 50" in page.text
    assert "model.hidden 32 768" in page.text


def test_damage_is_told_and_the_rest_is_shown(tmp_path):
    folder = make_run(tmp_path / "run", metrics(6))
    kept = (folder / "metrics.jsonl").read_text().splitlines()
    odd = ['{"split": "train", "step": "x"}', "[1]", '{"split": "train", "step": 4, "loss": NaN, "mlm_loss": 1e400}']
    lines = [*odd, *kept[:6], '{"split": "tr', *kept[6:], '{"cut o']
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    (folder / "config.json").write_text('{"phases": 3}')
    (folder / "predictions.json").write_text('[{"text": "x", "predictions": [[{"token": "y", "probability": null}]]}]')
    (folder / "summary.json").write_text("[")
    text = write_report(folder).read_text()
    words = Page(text).text
    assert f"Line 10 of metrics.jsonl is damaged: it and the {len(kept) - 5} lines after it are left out." in words
    assert "2 lines of metrics.jsonl have no split and step" in words
    assert "config.json is not understood" in words and "predictions are not understood" in words
    assert "summary.json: not readable" in words
    assert "Masked-token loss" in words and "phases 3" in words
    assert not re.search(r'd="[^"]*(nan|inf)', text)


def test_a_line_cut_off_by_a_kill_is_no_damage(tmp_path):
    folder = make_run(tmp_path / "run", FIRST_LOSS)
    whole = report_of(folder).text
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"split": "train", "st')
    clock = r"on \d{4}-.*UTC"
    assert re.sub(clock, "", report_of(folder).text) == re.sub(clock, "", whole)
    assert "damaged" not in whole


def test_metrics_alone_are_drawn(tmp_path):
    folder = make_run(tmp_path / "run", FIRST_LOSS)
    (folder / "config.json").unlink()
    words = report_of(folder).text
    assert "config.json: not found." in words and "1 step is done." in words and "Total loss" in words


def test_the_command_prints_where_the_page_is_and_replaces_only_its_own(tmp_path, capsys):
    folder = make_run(tmp_path / "run", FIRST_LOSS)
    assert main(["report", f"--workdir={folder}"]) == main(["report", f"--workdir={folder}"]) == 0
    assert capsys.readouterr().out == f"report: {folder / 'report.html'}\n" * 2
    other = tmp_path / "new" / "page.html"
    assert write_report(folder, other, PREDICTIONS) == other and "31.2 %" in Page(other.read_text()).text
    config = (folder / "config.json").read_text()
    for taken, message in ((folder / "config.json", "no report of ours"), (tmp_path, "is a folder"),
                           (folder / "config.json" / "x.html", "cannot be written")):  # fmt: skip
        with pytest.raises(UserError, match=message):
            write_report(folder, taken)
    assert (folder / "config.json").read_text() == config
    assert not list(tmp_path.rglob("*.partial"))
