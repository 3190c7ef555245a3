# shellcheck shell=bash source=tests/diagnosis/common.sh
# Flux: two jobs that compute, and one that depends on both.
. "$(dirname "$0")/../common.sh"
cat > jobs.sh << 'S'
one=$(flux submit tailrace tag --stage part --task a -- sh -c 'python burn.py 1; seq 100000 > a')
two=$(flux submit tailrace tag --stage part --task b -- sh -c 'python burn.py 1; seq 100000 > b')
flux submit --quiet --dependency=afterok:$one --dependency=afterok:$two \
  tailrace tag --stage join --task join -- sh -c 'sort a b > c'
flux queue drain
S
traced flux start -Slog-stderr-level=3 bash jobs.sh
