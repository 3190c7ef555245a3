#!/bin/sh
# flux start sh flux.sh RUN, in the folder of genome.fa.gz: a job a task; they begin when all are submitted. RUN is the run
# directory.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
step=$here/step.sh
run=$1
eval "$(tailrace flux paths --format shell)"

# submit NAME SAMPLE JOB...: prints the job's id.
submit() {
  name=$1 sample=$2
  shift 2
  after=$(for job in "$@"; do printf -- ' --dependency=afterok:%s' "$job"; done)
  # shellcheck disable=SC2086 # a list
  flux submit -N1 --exclusive --job-name="$name" --trace="$name" --trace-run="$run" --trace-tag=workflow=genomics $after \
    sh "$step" "$name" $sample
}

# shellcheck source=workflows/genomics/managers/jobs.sh
. "$here/jobs.sh"
# A command takes a quarter of a second to submit a job, in which the one before it is over.
flux queue stop --all --quiet
last=$(submit_all)
flux queue start --all --quiet
flux job attach "$last"
flux queue drain
tailrace flux collect -q "$run"
