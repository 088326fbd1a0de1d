#!/usr/bin/env bash
# Sets up .venv and runs the tests: bash tests/run.sh [--parity] [pytest arguments]
# Without --parity: the default suite. With it: also installs what tests and benchmarks compare against (torch,
# transformers and others, gigabytes) and what optional parts need, and runs everything but nightly.
set -eu
cd "$(dirname "$0")/.."
extras=test
marks='not slow and not nightly'
if [ "${1:-}" = --parity ]; then
  shift
  extras=test,parity,beam,clean
  marks='not nightly'
fi
. launch/setup.sh "$extras"

export JAX_PLATFORMS=cpu
export TPU_SKIP_MDS_QUERY=1 # where libtpu is installed it would ask a metadata server that is not there
export TOKENIZERS_PARALLELISM=false
exec "$python" -m pytest -m "$marks" "$@"
