"""What a folder of prepared data tells of itself, read back for a report: report.json, settings, some examples."""

from dataclasses import dataclass

from etils import epath

from bert_jax.errors import UserError
from bert_jax.report.masked_sample import MaskedSample, draw_sample
from bert_jax.report.read import read_json

# What files of another version, or of somebody else, make of the reading of examples besides a UserError.
NOT_UNDERSTOOD = (OSError, ValueError, TypeError, LookupError, AttributeError)


@dataclass(frozen=True)
class DataRecord:
    """What is known of a folder of prepared data."""

    path: str
    report: dict | None  # report.json; None where it is not there or not readable
    preparation: dict  # preparation.json, {} likewise
    sample: MaskedSample | None  # None where the examples cannot be read
    notes: list[str]  # in words, what is missing or damaged


def read_data(folder, masking=None):
    """The DataRecord of a folder, whatever is in it, and if there is none; masking: see masked_sample.draw_sample."""
    path, notes = epath.Path(folder), []
    try:
        found = {name: bool(folder) and (path / name).exists() for name in ("report.json", "preparation.json")}
    except (OSError, ValueError) as error:  # no such path can be
        return DataRecord(str(folder), None, {}, None, [f"{folder!r}: {error}."])
    report = read_json(path / "report.json", dict, notes) if found["report.json"] else None
    preparation = read_json(path / "preparation.json", dict, notes) if found["preparation.json"] else None
    sample = _sample(path, masking, notes) if found["preparation.json"] else None
    if report is not None and not found["preparation.json"]:
        notes.append("There is no preparation.json beside report.json: settings and examples cannot be shown.")
    return DataRecord(str(folder), report, preparation or {}, sample, notes)


def read_data_folder(folder):
    """The DataRecord of what the user named. Raises UserError where that holds no prepared data."""
    path = epath.Path(folder)
    if not path.is_dir():
        raise UserError(f"--data {folder}: {'is a file' if path.exists() else 'no such folder'}")
    record = read_data(folder)
    if record.report is None and not record.preparation and not record.notes:
        raise UserError(f"--data {folder}: holds no prepared data, expected report.json and preparation.json")
    if not (path / "report.json").exists():
        record.notes.append("There is no report.json: the figures of the preparation cannot be shown.")
    return record


def _sample(path, masking, notes):
    try:
        return draw_sample(path, masking)
    except UserError as error:
        notes.append(f"Examples cannot be shown: {error}.")
    except NOT_UNDERSTOOD as error:
        notes.append(f"Examples cannot be shown, {path} is not understood ({type(error).__name__}: {error}).")
    return None
