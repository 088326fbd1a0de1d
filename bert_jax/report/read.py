"""JSON of a run or of prepared data, read so that nothing it may hold breaks the page."""

import json

LARGEST = 2**53  # numbers from here on are no figures


def is_figure(value):
    """Whether it is a number that can be shown and drawn: finite and not absurd."""
    return type(value) in (int, float) and -LARGEST < value < LARGEST


def is_count(value):
    """Whether it is a figure that counts something."""
    return type(value) is int and 0 <= value < LARGEST


def read_json(path, kind, notes):
    """The content of a JSON file, a `kind`; None, with a note, where it is not there or not that."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        notes.append(f"{path}: not found.")
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{path}: not readable as JSON ({error}).")
    else:
        if isinstance(value, kind):
            return value
        notes.append(f"{path}: holds a JSON {type(value).__name__}, expected a {kind.__name__}.")
    return None


def mapping_at(mapping, *names):
    """The mapping found under the names, one inside the other; an empty one where there is none."""
    for name in names:
        mapping = mapping.get(name) if isinstance(mapping, dict) else None
    return mapping if isinstance(mapping, dict) else {}


def list_at(mapping, name):
    """The list that `mapping` holds under `name`; an empty one where there is none."""
    value = mapping.get(name)
    return value if isinstance(value, list) else []


def figure_at(mapping, name):
    """The figure that `mapping` holds under `name`; None where there is none."""
    value = mapping.get(name)
    return value if is_figure(value) else None
