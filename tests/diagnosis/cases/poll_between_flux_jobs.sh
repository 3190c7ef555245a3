# shellcheck shell=bash source=tests/diagnosis/common.sh
# A job of Flux waits for the file of another one in a loop, where it could depend on it.
. "$(dirname "$0")/../common.sh"
cat > jobs.sh << 'S'
flux submit --quiet tailrace tag --stage use --task use -- sh -c 'until [ -e model ]; do sleep 0.1; done; wc -c < model > size'
flux submit --quiet tailrace tag --stage make --task make -- sh -c 'python burn.py 1.5; seq 50000 > m; mv m model'
flux queue drain
S
traced flux start -Slog-stderr-level=3 bash jobs.sh
