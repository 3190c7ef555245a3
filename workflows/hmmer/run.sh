#!/bin/sh
# Runs the HMMER workflow traced and shows what came out: run.sh [FOLDER]. Needs tailrace[parsl], hmmer, hmmer-examples.
set -eu
folder=${1:-hmmer-run}
python3 "$(dirname "$0")/workflow.py" "$folder"
tailrace report "$folder/run"
tailrace report "$folder/run" --html "$folder/report.html"
echo "the page: $folder/report.html"
