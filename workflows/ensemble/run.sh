#!/bin/sh
# Runs the campaign under Flux, traced, and shows what came out: run.sh [FOLDER]. README.md says what it needs.
set -eu
folder=${1:-ensemble-run}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
campaign=$(dirname "$0")/campaign.py
eval "$(tailrace flux paths --format shell)"
# shellcheck disable=SC2016 # it is the inner shell's to expand
flux start -s1 sh -euc '
  flux jobtap load "$(tailrace flux paths jobtap)" run="$1/run" workflow=ensemble
  exec "$2" "$3" "$1/files" --trace
' sh "$folder" "${PYTHON:-python3}" "$campaign"
tailrace report "$folder/run"
tailrace report "$folder/run" --html "$folder/report.html"
echo "the page: $folder/report.html"
