#!/bin/sh
# sh slurm.sh RUN, in the folder of genome.fa.gz, on a cluster whose plugstack.conf has tailrace's line: a job a task,
# which has its node for itself. RUN is the run directory.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
step=$here/step.sh
run=$1

# submit NAME SAMPLE JOB...: prints the job's id.
submit() {
  name=$1 sample=$2
  shift 2
  after=$(IFS=:; echo "$*")
  sbatch --parsable --nodes=1 --exclusive --output=/dev/null --job-name="$name" --trace --trace-run="$run" \
    --trace-tag=workflow=genomics ${after:+"--dependency=afterok:$after"} --wrap "sh '$step' $name $sample"
}

# shellcheck source=workflows/genomics/managers/jobs.sh
. "$here/jobs.sh"
submit_all
