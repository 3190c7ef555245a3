# shellcheck shell=bash source=tests/diagnosis/common.sh
# Each step fails at its end, since a folder is missing that it then makes, and its script runs it again.
. "$(dirname "$0")/../common.sh"
for n in a b c; do numbers 200000 "$((16#$n))" > "in.$n"; done
cat > step.sh << 'S'
sort "$1" > "sorted.$2"
if ! mv "sorted.$2" "out/$2/result" 2> /dev/null; then
  mkdir -p "out/$2"
  exit 1
fi
S
cat > flow.sh << 'S'
for n in a b c; do
  until bash step.sh "in.$n" "$n"; do :; done
done
S
traced bash flow.sh
