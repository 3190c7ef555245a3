#!/bin/sh
# sh slurm.sh RUN, in the folder of genome.fa.gz, on a cluster whose plugstack.conf has tailrace's line: a job a task,
# which has its node for itself. RUN is the run directory.
set -eu
step=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/step.sh
run=$1

# submit NAME SAMPLE JOB...: prints the job's id.
submit() {
  name=$1 sample=$2
  shift 2
  after=$(IFS=:; echo "$*")
  sbatch --parsable --nodes=1 --exclusive --output=/dev/null --job-name="$name" --trace --trace-run="$run" \
    --trace-tag=workflow=genomics ${after:+"--dependency=afterok:$after"} --wrap "sh '$step' $name $sample"
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
submit summarize '' "$merge" $rest
