# shellcheck shell=bash source=tests/diagnosis/common.sh
# Nextflow: two tasks of a process, and one that joins their files.
. "$(dirname "$0")/../common.sh"
cat > main.nf << 'N'
process PART {
  input: val x
  output: path "part_${x}.txt"
  script: "python ${launchDir}/burn.py 1; seq ${x}00000 > part_${x}.txt"
}
process JOIN {
  input: path parts
  output: path "all.txt"
  script: "sort ${parts} > all.txt"
}
workflow { JOIN(PART(Channel.of(1, 2)).collect()) }
N
export NXF_OFFLINE=true NXF_HOME=${NXF_HOME:-$HOME/.nextflow}
traced nextflow -q -c "$(tailrace adapter nextflow)" run main.nf -with-trace trace.txt
tailrace declare run --from trace.txt
