# shellcheck shell=bash source=tests/diagnosis/common.sh
# A program looks for each of its 4,000 inputs in nine folders, and finds it in the tenth.
. "$(dirname "$0")/../common.sh"
cat > find.py << 'P'
import os
found = 0
for i in range(4000):
    for place in [f"lib{n}" for n in range(10)]:
        if os.path.exists(f"{place}/item{i}"):
            found += 1
            break
open("found", "w").write(str(found))
P
mkdir lib9; (cd lib9 && seq -f item%.0f 0 3999 | xargs touch)
cat > flow.sh << 'S'
task find find python find.py
S
traced bash flow.sh
