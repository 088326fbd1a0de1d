"""Settings: a recipe file with overrides becomes a PretrainConfig, or one line says what is wrong with it."""

import dataclasses

import pytest

from bert_jax.config import PhaseConfig, PretrainConfig, from_mapping, load, to_config_dict
from bert_jax.errors import UserError
from bert_jax.schedules import ScheduleConfig
from tests.e2e.conftest import REPOSITORY

TINY = REPOSITORY / "configs" / "bert_tiny.py"


def refused(*arguments, file=TINY):
    """The one line that refuses these arguments."""
    with pytest.raises(UserError) as caught:
        load([f"--config={file}", *arguments])
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_defaults_survive_the_way_through_a_config_dict():
    assert from_mapping(PretrainConfig, to_config_dict(PretrainConfig())) == PretrainConfig()
    schedule = ScheduleConfig("warmup_linear", peak=1e-4, warmup_steps=10, total_steps=30)
    phases = tuple(PhaseConfig(data=f"d{n}", steps=n) for n in (10, 20))
    two = dataclasses.replace(PretrainConfig(), phases=phases, schedule=schedule)
    assert from_mapping(PretrainConfig, to_config_dict(two)) == two


def test_ten_phases_keep_their_order():
    phases = tuple(PhaseConfig(steps=n) for n in range(1, 12))
    config = dataclasses.replace(
        PretrainConfig(), phases=phases, schedule=ScheduleConfig("constant", peak=1.0, warmup_steps=0, total_steps=66)
    )
    assert from_mapping(PretrainConfig, to_config_dict(config)).phases == phases


@pytest.mark.parametrize("separate", [True, False])
def test_overrides_reach_the_settings(separate):
    value = ["--config.seed", "7"] if separate else ["--config.seed=7"]
    config = load([f"--config={TINY}", *value, "--config.phases.phase1.data=some where", "--config.schedule.peak=1"])
    assert config.seed == 7 and config.phases[0].data == "some where"
    assert config.schedule.peak == 1.0 and isinstance(config.schedule.peak, float)


def test_the_schedule_spans_the_phases_also_when_their_steps_are_overridden():
    base = REPOSITORY / "configs" / "bert_base.py"
    config = load([f"--config={base}", "--config.phases.phase1.steps=20000", "--config.phases.phase2.steps=5"])
    assert config.total_steps == config.schedule.total_steps == 20005


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("sead", "seed"), ("model.hiden", "model.hidden"), ("phases.phase1.lenght", "phases.phase1.length"),
     ("phases.phase3.steps", "phases.phase1.steps"), ("zzz", ""), ("seed.zzz", "")],
)  # fmt: skip
def test_an_unknown_key_names_the_nearest(key, nearest):
    line = refused(f"--config.{key}=1")
    assert line.startswith(f"--config.{key}: no such setting")
    assert not nearest or line.endswith(f"the nearest is --config.{nearest}")


def test_an_unknown_key_in_the_file_itself_names_the_nearest(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(TINY.read_text().replace("    return", "    config.sead = 1\n    return"))
    assert refused(file=file) == "config.sead: no such setting; the nearest is config.seed"


@pytest.mark.parametrize(
    ("override", "words"),
    [("model.layers=two", ["model.layers", "two"]), ("model.layers=2.5", ["model.layers", "2.5"]),
     ("compute.scan_layers=3", ["scan_layers", "3"]), ("schedule.peak=fast", ["schedule.peak", "fast"]),
     ("optimizer.clip_norm=off", ["clip_norm", "off"])],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_by_name(override, words):
    line = refused(f"--config.{override}")
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["phases.phase1.length=1024", "model.max_positions=512"], ["phase1.length 1024", "model.max_positions 512"]),
        (["schedule.total_steps=70000"], ["schedule.total_steps", "70000", "1000000"]),
        (["phases.phase1.steps=5000"], ["warmup_steps 10000", "total_steps 5000"]),
        (["model.hidden=100", "model.heads=3"], ["model.hidden 100", "model.heads 3"]),
        (["phases.phase1.length=16"], ["max_predictions 20", "length 16"]),
        (["phases.phase1.batch_size=5000"], ["2^32"]),
        (["phases.phase1.batch_size=0"], ["batch_size", "0"]),
        (["log_every=0"], ["log_every", "0"]),
        (["model.dropout=1.0"], ["dropout", "1.0"]),
        (["model.activation=swish"], ["activation", "swish", "gelu"]),
        (["compute.dtype=float16"], ["dtype", "float16", "bfloat16"]),
        (["schedule.name=linaer"], ["linaer", "nearest: linear"]),
        (["optimizer.name=adam"], ["adam", "nearest: adamw"]),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(overrides, names):
    """Case H2: both sides of a contradiction are in the line."""
    line = refused(*(f"--config.{override}" for override in overrides))
    assert all(name in line for name in names), line


def test_what_is_no_setting_is_refused():
    assert "workdri" in refused("--workdri=x")
    assert "stray" in refused("stray")


def test_no_config_at_all():
    with pytest.raises(UserError, match="no --config=FILE given"):
        load([])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, ["nowhere.py"]),
        ("def get_config(arg=''):\n    return (\n", ["mine.py", "line 2"]),
        ("import no_such_module\n", ["mine.py, line 1", "no_such_module"]),
        ("def get_config(arg=''):\n    return undefined_name\n", ["mine.py, line 2", "undefined_name"]),
        ("def get_config(arg=''):\n    return 1 / 0\n", ["mine.py, line 2", "division by zero"]),
        ("x = 1\n", ["mine.py", "get_config"]),
        ("def get_config(arg=''):\n    return 5\n", ["mine.py", "int", "ConfigDict"]),
    ],
)
def test_a_config_file_that_cannot_be_read(tmp_path, source, words):
    file = tmp_path / ("nowhere.py" if source is None else "mine.py")
    if source is not None:
        file.write_text(source)
    line = refused(file=file)
    assert all(word in line for word in words), line


def test_a_recipe_argument_that_it_does_not_know():
    assert "debgu" in refused(file=f"{TINY}:debgu") and "expected debug" in refused(file=f"{TINY}:debgu")


@pytest.mark.parametrize("names", [["phase2"], ["phase1", "phase3"], ["first"], []])
def test_phases_are_numbered_without_a_gap(names):
    mapping = to_config_dict(PretrainConfig())
    phase = mapping.phases.phase1
    mapping.phases = type(mapping)({name: phase for name in names})
    with pytest.raises(UserError, match=r"config\.phases.*expected phase1"):
        from_mapping(PretrainConfig, mapping)
