"""flux-core's own tests with tailrace's plugins loaded, beside the same tests without them: a table of what differs.

    make check TESTS=                                          # in the tree, once: its test programs
    python tests/suites/flux_core.py TREE [t2802 ...] [--rounds 2] [--work DIR]

TREE is a built source tree of flux-core, of the version that the installed plugins were built for. Nothing is fetched,
and nothing is written to TREE: the tests run in a copy. Without names the tests are `TESTS`.

Traced is every job of every instance without a configuration of its own: by FLUX_CONF_DIR its job manager loads
tailrace-jobtap.so with `jobs = "all"`, and its shells find tailrace-shell.so as a user's settings say. The tests unset
these variables when they begin, so the copy's `sharness.d` has one more file, which sets them. The column `processes`
says how many left a trace, so that a file in which nothing was traced shows as such.

How the two are compared: `results.py`. The exit code is 1 if something differs each time.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from results import TAP, Results, Unit, environment, parsed, run_words, table

from tailrace.flux.paths import MISSING, PARTS, user_settings

TESTS = """
t0005-exec t0005-exec-jobid t0025-broker-state-machine t0100-modprobe t1105-proxy t2100-job-ingest t2201-job-cmd
t2202-job-manager t2206-job-manager-annotate t2208-job-manager-wait t2210-job-manager-events-journal
t2212-job-manager-plugins t2219-job-manager-restart t2226-housekeeping t2230-job-info-lookup
t2231-job-info-eventlog-watch t2233-job-info-update t2260-job-list t2261-job-list-update t2262-job-list-stats
t2270-job-dependencies t2271-job-dependency-after t2274-manager-perilog-per-rank t2280-job-memo t2290-job-update
t2292-job-update-running t2300-sched-simple t2403-job-exec-conf t2406-job-exec-cleanup t2417-job-exec-shell-exit
t2500-job-attach t2501-job-status t2602-job-shell t2603-job-shell-initrc t2604-job-shell-affinity
t2604-job-shell-affinity-xmlfile t2606-job-shell-output-flow t2606-job-shell-output-redirection
t2607-job-shell-input t2608-job-shell-log t2609-job-shell-events t2610-job-shell-mpir t2612-job-shell-pty
t2613-job-shell-batch t2614-job-shell-doom t2615-job-shell-rlimit t2616-job-shell-taskmap
t2616-job-shell-taskmap-hostfile t2617-job-shell-stage-in t2618-job-shell-signal t2619-job-shell-hwloc
t2620-job-shell-mustache t2621-job-shell-plugin-fork t2622-job-shell-sysmon t2623-job-shell-oom
t2624-job-shell-coprocess t2710-python-cli-submit t2711-python-cli-run t2712-python-cli-alloc
t2713-python-cli-bulksubmit t2714-python-cli-batch t2715-python-cli-cancel t2716-python-cli-batch-conf
t2717-python-cli-plugins t2720-python-cli-multi-prog t2800-jobs-cmd t2800-jobs-instance-info t2800-jobs-recursive
t2801-top-cmd t2802-uri-cmd t2803-flux-pstree t2808-shutdown-cmd t2811-flux-pgrep t2812-flux-job-last
t2813-flux-watch t2900-job-timelimits t3000-mpi-basic t3001-mpi-personalities t3002-pmi t3003-mpi-abort
t3100-flux-in-flux t3200-instance-restart
""".split()
"""What runs jobs, and what asks for them."""
TIMEOUT_S = 1800
_SETTINGS = "SUITE_SETTINGS"
_PROGRAM = "t/job-manager/list-jobs"


def main(arguments: Sequence[str]) -> int:
    """Runs the tests, prints the table and the differences; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("tests", nargs="*", help="names, or their beginnings as t2802")
    parser.add_argument("--rounds", type=int, default=2, help="how often a file that differs is run")
    parser.add_argument("--work", type=Path, help="a directory for the copy and the traces, which stay there")
    given = parser.parse_args(arguments)
    if not (given.tree / _PROGRAM).exists():
        parser.error(f"{given.tree}/{_PROGRAM} is missing: run `make check TESTS=` in the tree")
    if not all(part.installed for part in PARTS):
        parser.error(MISSING)
    work = given.work or Path(tempfile.mkdtemp(prefix="flux-core-"))
    try:
        named = names_in(given.tree, given.tests)
        return table("file", groups(copy_of(given.tree, work), work, named), given.rounds)
    finally:
        if given.work is None:
            shutil.rmtree(work)


def copy_of(tree: Path, work: Path) -> Path:
    """The folder of tests in a copy of the tree, with its times, by which make's products stay up to date."""
    copy = work / "src"
    if not copy.exists():
        subprocess.run(["cp", "-a", tree.resolve(), copy], check=True)
    # Read after flux-core's own files.
    (copy / "t" / "sharness.d" / "tailrace.sh").write_text(f'test -n "${_SETTINGS}" && . "${_SETTINGS}"\n:\n')
    return copy / "t"


def names_in(tree: Path, wanted: Sequence[str]) -> list[str]:
    """The names of the test files that begin with one of `wanted`; without, those of `TESTS`."""
    there = sorted(path.stem for path in (tree / "t").glob("t[0-9]*.t"))
    return [name for name in there if (name.startswith(tuple(wanted)) if wanted else name in TESTS)]


def groups(tests: Path, work: Path, names: Sequence[str]) -> Iterator[tuple[str, list[Unit]]]:
    """A row for each file."""
    for name in names:
        yield name, [Unit("", partial(run, tests, name, work))]


def run(tests: Path, name: str, work: Path, traced: bool) -> Results:
    """Runs a file in its folder; traced: with its runs below `work`."""
    runs = work / "runs" / name
    variables = {**environment(), **({_SETTINGS: str(settings(work, runs))} if traced else {})}
    output = tests / f"{name}.{'traced' if traced else 'plain'}.output"
    end = run_words(["sh", f"./{name}.t"], tests, variables, output, TIMEOUT_S)
    found = parsed(TAP, output.read_text(errors="replace"))
    return Results(found, end, sum(1 for _ in runs.glob("*/trace/*")) if traced else 0)


def settings(work: Path, runs: Path) -> Path:
    """Writes a configuration by which all jobs are traced, each into a run below `runs`, and the commands of a shell
    that set the variables which lead to it; returns the latter."""
    folder = work / "conf"
    folder.mkdir(exist_ok=True)
    jobtap = next(part.path for part in PARTS if part.name == "jobtap")
    policy = f'{{ jobs = "all", run = "{runs}/{{{{id.f58plain}}}}" }}'
    # As the plugin's own, which a test that loads another configuration does not replace.
    (folder / "tailrace.toml").write_text(f'[[job-manager.plugins]]\nload = "{jobtap}"\nconf = {policy}\n')
    variables = {**user_settings({}), "FLUX_CONF_DIR": str(folder)}
    commands = work / "settings.sh"
    commands.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))
    return commands


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
