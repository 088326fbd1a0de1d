"""The tasks of a preparation over Apache Beam (extra [beam]): on one machine, Dataflow, Flink or Spark.

A task is the same call as in a local worker, and leaves its result in the same place: a folder that all machines must
reach. So Beam only spreads the calls.
"""

import shlex
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial

from bert_jax.errors import UserError

SECONDS_BETWEEN_LOOKS = 1.0


@contextmanager
def beam_pool(options, initializer, *arguments):
    """Yields run_all(function, tasks) as workers.worker_pool does; `function` is a journal.Recorded.

    options: what Beam's PipelineOptions take, as on a command line. `initializer(*arguments)` is called once for each
    of Beam's threads that run tasks. A UserError in a task is raised here once the other tasks are done.
    """
    try:
        import apache_beam  # noqa: F401
    except ImportError as error:
        raise UserError("Apache Beam is not installed: expected pip install 'bert-jax[beam]'") from error
    yield partial(_run_pipeline, options, initializer, arguments)


def _run_pipeline(options, initializer, arguments, function, tasks):
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    class Task(beam.DoFn):
        def setup(self):
            initializer(*arguments)

        def process(self, numbered):
            try:
                function(numbered)
            except UserError as error:  # Beam would tell it in a page of traceback, and try again
                _failure(function, numbered[0]).write_text(str(error))

    def run():
        pipeline = beam.Pipeline(options=PipelineOptions(shlex.split(options)))
        # Reshuffle keeps Beam from fusing all tasks into the one bundle that made them.
        _ = pipeline | beam.Create(tasks) | beam.Reshuffle() | beam.ParDo(Task())
        pipeline.run().wait_until_finish()

    tasks = list(tasks)
    pending = [index for index, *_ in tasks]
    for index in pending:  # of an earlier run, which does not fit
        function.path(index).unlink(missing_ok=True)
        _failure(function, index).unlink(missing_ok=True)
    # Results are looked for while the pipeline runs, so that progress is told.
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(run) if tasks else None
        while running and not running.done():
            wait([running], timeout=SECONDS_BETWEEN_LOOKS)
            finished = [index for index in pending if function.path(index).exists()]
            yield from finished
            pending = [index for index in pending if index not in finished]
        if running:
            running.result()  # raises what Beam raised
    for index in pending:
        if _failure(function, index).exists():
            raise UserError(_failure(function, index).read_text())
        yield index


def _failure(function, index):
    path = function.path(index)
    return path.with_name(f".{path.name}.failed")
