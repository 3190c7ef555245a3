# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A script asks for the size of each of 3,000 files two hundred times; remedied: once, and keeps what it was told.
. "$(dirname "$0")/common.sh"
mkdir items; (cd items && seq 3000 | xargs touch)
cat > check.py << 'P'
import os, sys
total, known = 0, {}
for _ in range(200):
    for name in os.listdir("items"):
        if name not in known: size = os.stat("items/" + name).st_size
        else: size = known[name]
        if sys.argv[1] == "once": known[name] = size
        total += size
open("total", "w").write(str(total))
P
echo './task check check python check.py each' > as_is.sh
echo './task check check python check.py once' > remedied.sh
