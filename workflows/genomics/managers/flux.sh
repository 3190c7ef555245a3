#!/bin/sh
# flux start sh flux.sh RUN, in the folder of genome.fa.gz: a job a task, submitted at once. RUN is the run directory.
set -eu
step=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/step.sh
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

unpack=$(submit unpack '')
index=$(submit index '' "$unpack")
called='' rest=''
for sample in ada bo cy dee; do
  simulate=$(submit simulate $sample "$unpack")
  align=$(submit align $sample "$simulate" "$index")
  sort=$(submit sort $sample "$align")
  count=$(submit count $sample "$sort")
  pile=$(submit pile $sample "$sort" "$unpack")
  call=$(submit call $sample "$pile")
  called="$called $call" rest="$rest $simulate $count"
done
# shellcheck disable=SC2086 # lists
merge=$(submit merge '' $called)
# shellcheck disable=SC2086
flux job attach "$(submit summarize '' "$merge" $rest)"
flux queue drain
tailrace flux collect -q "$run"
