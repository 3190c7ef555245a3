# shellcheck shell=sh
# Sourced by flux.sh and slurm.sh: the computation as jobs, submitted at once. Theirs is submit NAME SAMPLE JOB..., which
# submits a task that begins when those jobs have succeeded, and prints its id.

# Prints the last job's id.
submit_all() {
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
}
