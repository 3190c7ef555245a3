# shellcheck shell=bash
# What the workflows share. A script makes, in an empty folder, what a workflow needs, and two scripts: as_is.sh runs the
# workflow, remedied.sh runs it with one thing changed. Both name their tasks by `./task STAGE TASK COMMAND...`, which
# costs the same whether the workflow is traced or not.
# shellcheck source=tests/diagnosis/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../diagnosis/common.sh"
cat > task << 'S'
#!/bin/sh
TAILRACE_TAGS=stage=$1,task=$2; export TAILRACE_TAGS; shift 2
exec "$@"
S
chmod +x task
