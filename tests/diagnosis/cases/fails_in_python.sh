# shellcheck shell=bash source=tests/diagnosis/common.sh
# One of four compressed tables is cut off; the script that runs gzip looks at no exit code, and sums what there is.
. "$(dirname "$0")/../common.sh"
for part in a b c d; do numbers 300000 7 | gzip > table.$part.gz; done
truncate -s 700000 table.c.gz
cat > sums.py << 'P'
import subprocess
for part in "abcd":
    with open(f"table.{part}", "w") as out:
        subprocess.run(["gzip", "-dc", f"table.{part}.gz"], stdout=out, stderr=subprocess.DEVNULL)
    with open(f"table.{part}") as rows:
        print(part, sum(int(row.split()[0]) for row in rows if row.endswith("\n")))
P
traced python sums.py
