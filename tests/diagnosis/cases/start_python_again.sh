# shellcheck shell=bash source=tests/diagnosis/common.sh
# Twenty-four tasks of a moment each start Python and import the same modules.
. "$(dirname "$0")/../common.sh"
cat > one.py << 'P'
import asyncio, email, http.client, json, sqlite3, sys, unittest, xml.dom.minidom
open("out" + sys.argv[1], "w").write(json.dumps(sys.argv))
P
cat > flow.sh << 'S'
for i in $(seq 24); do task one o$i python one.py $i; done
task join join sh -c 'cat out* > all'
S
traced bash flow.sh
