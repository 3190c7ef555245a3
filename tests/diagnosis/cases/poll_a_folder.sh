# shellcheck shell=bash source=tests/diagnosis/common.sh
# A program looks into a folder until four others have put their parts there.
. "$(dirname "$0")/../common.sh"
cat > join.py << 'P'
import glob, time
while len(glob.glob("parts/*.txt")) < 4: time.sleep(0.1)
open("all", "w").write("".join(open(p).read() for p in sorted(glob.glob("parts/*.txt"))))
P
cat > part.sh << 'S'
python burn.py 0.5; numbers() { seq 20000; }; numbers > parts/$1.tmp; mv parts/$1.tmp parts/$1.txt
S
mkdir parts
cat > flow.sh << 'S'
task join join python join.py &
for i in 1 2 3 4; do task part p$i bash part.sh $i; done
wait
S
traced bash flow.sh
