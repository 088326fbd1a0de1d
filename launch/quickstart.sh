#!/usr/bin/env bash
# From nothing to a small pretrained BERT in minutes, on any machine: bash launch/quickstart.sh [--corpus=DIR]
set -eu
here=$PWD
cd "$(dirname "$0")/.."
. launch/setup.sh ""

arguments=()
for argument in "$@"; do # a relative path is one from where the user stands
  case "$argument" in
  --corpus=[!/]*) argument="--corpus=$here/${argument#--corpus=}" ;;
  --workdir=[!/]*) argument="--workdir=$here/${argument#--workdir=}" ;;
  esac
  arguments+=("$argument")
done
exec "$python" -m bert_jax.quickstart ${arguments[@]+"${arguments[@]}"}
