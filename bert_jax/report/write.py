"""A run's report, or that of prepared data, as one HTML file: the verb `report`, and functions for programs.

run.py, tuned_run.py and prepared.py read what there is, masked_sample.py draws examples and masks them; words.py and
data_words.py say what the figures mean, curves.py and tuned_plots.py draw them; page.py, tuned_page.py and data_page.py
make the page, of elements from html.py, data.py and examples.py.
"""

from etils import epath

from bert_jax.errors import UserError

DESCRIPTION = """Writes a report as one HTML file that needs nothing else; an older report is replaced, and no other
file touched.

  --workdir=DIR   of a run, also while it goes on: curves, config, data and sample predictions; or of fine-tuning:
                  learning curves, confusion, calibration, and of a sweep its scores by setting
  --data=DIR      of prepared data: warnings, where every token went, lengths, sources, examples with masks"""
EXAMPLE = """bert-jax report --workdir=runs/quickstart
  bert-jax report --data=prepared/books-128"""

MARK = '<meta name="generator" content="bert-jax report">'  # tells our pages from other files
MARK_WITHIN = 500  # bytes from the start


def add_arguments(parser):
    parser.add_argument("--workdir", metavar="DIR", help="folder of a run")
    parser.add_argument("--data", metavar="DIR", help="folder of prepared data")
    parser.add_argument("--out", metavar="FILE", help="where to write the page (default: DIR/report.html)")


def run(args):
    """The verb: prints where the page is."""
    if (args.workdir is None) == (args.data is None):
        found = "neither" if args.data is None else "both"
        raise UserError(f"expected one of --workdir=DIR (a run) and --data=DIR (prepared data), found {found}")
    write, folder = (write_report, args.workdir) if args.data is None else (write_data_report, args.data)
    print(f"report: {write(folder, args.out)}")


def write_report(workdir, out=None, predictions=None):
    """Writes the page of a run and returns its path.

    out: default `workdir`/report.html; an earlier report there is replaced, any other file refused. predictions: a
    list of {"text", "predictions": [[{"token", "probability"}, ...] for each mask]}, default what predictions.json
    holds. Raises UserError where `workdir` holds no run, or `out` cannot be written. Whatever else is missing or
    damaged is said in the page.
    """
    from bert_jax.report import page, run, tuned_page, tuned_run  # here: --help needs neither jax nor matplotlib

    if tuned_run.is_tuned(workdir):
        return _write(workdir, out, lambda: tuned_page.make_page(tuned_run.read_tuned(workdir), MARK))
    return _write(workdir, out, lambda: page.make_page(run.read_run(workdir, predictions), MARK))


def write_data_report(data, out=None):
    """Writes the page of a folder of prepared data and returns its path; `out` and errors as in `write_report`."""
    from bert_jax.report.data_page import make_page
    from bert_jax.report.prepared import read_data_folder

    return _write(data, out, lambda: make_page(read_data_folder(data), MARK))


def _write(folder, out, make_page):
    path = epath.Path(out) if out else epath.Path(folder) / "report.html"
    page = make_page()
    _check_replaceable(path)
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(page, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error
    return path


def _check_replaceable(path):
    if path.is_dir():
        raise UserError(f"{path}: is a folder, expected the name of a file to write")
    try:
        if path.exists() and MARK not in path.read_bytes()[:MARK_WITHIN].decode("utf-8", "replace"):
            raise UserError(f"{path}: exists and is no report of ours: remove it or name another --out")
    except OSError as error:
        raise UserError(f"{path}: not readable ({error.strerror or error})") from error
