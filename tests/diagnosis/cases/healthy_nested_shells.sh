# shellcheck shell=bash source=tests/diagnosis/common.sh
# A shell in a shell in a task, with functions, here documents and tar.
. "$(dirname "$0")/../common.sh"
cat > pack.sh << 'S'
pack() { (cd "$1" && tar cf - .) | gzip -1 > "$1.tgz"; }
for d in one two; do
  mkdir -p $d; bash -c "seq 150000 > $d/a; seq 150000 -1 1 > $d/b"
  pack $d
done
S
cat > flow.sh << 'S'
task pack pack bash -c 'sh -c "bash pack.sh"'
task list list sh -c 'for d in one two; do tar tzf $d.tgz; done > names'
S
traced bash flow.sh
