# shellcheck shell=bash source=tests/diagnosis/common.sh
# A script makes thousands of small files; another one looks at each again and again.
. "$(dirname "$0")/../common.sh"
cat > split.py << 'P'
for i in range(6000):
    with open(f"items/{i}", "w") as f: f.write(str(i))
P
cat > check.py << 'P'
import os
total = 0
for _ in range(5):
    for name in os.listdir("items"): total += os.stat("items/" + name).st_size
open("total", "w").write(str(total))
P
mkdir items
cat > flow.sh << 'S'
task split split python split.py
task check check python check.py
S
traced bash flow.sh
