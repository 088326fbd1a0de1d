"""A run's report as one HTML file: `bert-jax report`, and `write_report` for programs.

run.py reads what the run left, words.py says what it means, curves.py draws it, data.py
tells of its data, and page.py makes the page, of elements from html.py.
"""

from etils import epath

from bert_jax.errors import UserError

DESCRIPTION = """Writes a run's report: curves, config, data report and sample predictions in one HTML file that needs
nothing else, DIR/report.html. Also while the run goes on; an older report is replaced."""
EXAMPLE = "bert-jax report --workdir=runs/quickstart"

MARK = '<meta name="generator" content="bert-jax report">'  # tells our pages from other files
MARK_WITHIN = 500  # bytes from the start


def add_arguments(parser):
    parser.add_argument("--workdir", required=True, metavar="DIR", help="folder of the run")
    parser.add_argument("--out", metavar="FILE", help="where to write the page (default: DIR/report.html)")


def run(args):
    """The verb: prints where the page is."""
    print(f"report: {write_report(args.workdir, args.out)}")


def write_report(workdir, out=None, predictions=None):
    """Writes the page and returns its path.

    out: default `workdir`/report.html; an earlier report there is replaced, any other file refused. predictions: a
    list of {"text", "predictions": [[{"token", "probability"}, ...] for each mask]}, default what predictions.json
    holds. Raises UserError where `workdir` holds no run, or `out` cannot be written. Whatever else is missing or
    damaged is said in the page.
    """
    from bert_jax.report.page import make_page  # imported here: --help needs neither jax nor matplotlib
    from bert_jax.report.run import read_run

    path = epath.Path(out) if out else epath.Path(workdir) / "report.html"
    record = read_run(workdir, predictions)
    _check_replaceable(path)
    page = make_page(record, MARK)
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
