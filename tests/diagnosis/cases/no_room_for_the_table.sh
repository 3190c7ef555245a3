# shellcheck shell=bash source=tests/diagnosis/common.sh
# A script in perl reaches a limit on a file's size, looks at no result of print or close, and its table is sorted.
. "$(dirname "$0")/../common.sh"
numbers 400000 5 > hits.txt
cat > table.pl << 'P'
$SIG{XFSZ} = "IGNORE";
open(my $in, "<", "hits.txt") or die;
open(my $out, ">", "table.txt") or die;
while (<$in>) { print $out "hit $_" }
close($out);
P
cat > flow.sh << 'S'
bash -c 'ulimit -f 4096; exec perl table.pl'
sort -k2 table.txt | tail -n 1 > last.txt
S
traced bash flow.sh
