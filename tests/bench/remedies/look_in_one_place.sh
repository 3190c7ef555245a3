# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A program looks 60,000 times for inputs in nine folders and finds them in the tenth; remedied: it looks there first.
. "$(dirname "$0")/common.sh"
cat > find.py << 'P'
import os, sys
found = 0
places = [f"lib{n}" for n in range(10)]
if sys.argv[1] == "last": places.reverse()
for i in range(60_000):
    for place in places:
        if os.path.exists(f"{place}/item{i % 5000}"):
            found += 1
            break
open("found", "w").write(str(found))
P
mkdir lib9; (cd lib9 && seq -f item%.0f 0 4999 | xargs touch)
echo './task find find python find.py first' > as_is.sh
echo './task find find python find.py last' > remedied.sh
