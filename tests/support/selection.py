"""Which tests are fast, and why the others are not: the markers that conftest.py puts on every test.

    fast      needs what the README's first command installs, and takes seconds: `python -m pytest -m fast -n 2`
    slow      builds the C++ side, or runs whole programs and workflows, for minutes altogether
    flux      needs Flux
    browser   needs Playwright and Chromium
    root      needs root
    long      takes minutes, and guards what a release needs: skipped unless `-m long` asks for it (CONTRIBUTING.md)

`fast` is a test with none of the others. .ci/run runs all of them but the long ones.

With `-n N` the tests of a module run in one process, in their order, since they share fixtures; beside them run those
of any other module.

`--dist=loadgroup` of pytest-xdist 3.8 has no effect with pytest 9.2. Modules with slow tests begin first, since a long
one at the end would run alone.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

FIXTURES = {
    "binary": ("slow", "builds the C++ unit tests"),
    "browser": ("browser", "draws the page in Chromium"),
    "cpp_build": ("slow", "builds the core and the test programs"),
    "flux_program": ("flux", "starts a Flux instance"),
    "fuzzers": ("slow", "builds with clang and fuzzes for seconds each"),
    "jail": ("root", "changes the root directory"),
    "shares_blocks": ("root", "mounts a file system"),
    "slurm": ("root", "starts slurmctld and slurmd"),
}
"""Fixture -> marker of the tests that use it, and the reason."""

MODULES = {
    "test_flux_multiuser": ("flux", "starts a Flux instance of a system with several users"),
    "test_flux_python": ("flux", "imports Flux's Python bindings"),
}
"""Module -> the same."""

_CLOCK = "test_a_clock_that_is_set_changes_nothing_and_is_said"
_CLUSTER = "test_a_command_gives_the_same_on_a_cluster"
_LAYERS = (
    "test_rank_and_access_show_collective_calls",
    "test_ranks_that_come_late_are_named",
    "test_the_summary_and_the_page_have_the_sums",
    "test_the_time_of_collective_calls_has_the_parts_that_the_program_measured",
)
_WORK_QUEUE = (
    "test_tasks_tries_and_failures_are_those_of_parsl",
    "test_the_dataflow_is_that_of_the_same_tasks_in_threads",
    "test_what_a_lost_workers_task_did_is_its_own_both_times",
)
LONG = {
    "test_every_end_of_a_task_is_news[threads]": "runs the ends of tasks again, in threads",
    "test_exactly_the_edges_between_processes_are_observed[threads]": "runs the workflow again, in threads",
    "test_parsl_with_work_queue": "starts Work Queue's workers once more",
    "test_a_dry_run_makes_all_but_the_wheels": "makes a release's documents, as .ci/run does",
    "test_a_killed_worker_loses_and_doubles_no_run_of_a_store": "kills the workers of a cluster again and again",
    "test_a_part_that_expands_to_very_much_is_left_out_and_named[a text of 600 MB]": "makes and reads 600 MB",
    "test_a_process_that_dies_or_stops_refuses_the_file_that_it_was_at_alone": "waits until processes count as stopped",
    "test_axe_finds_nothing[dark]": "looks at the page again, in dark",
    "test_debians_packages_have_their_files_and_no_python": "builds the C++ side twice, as Debian's packages do",
    "test_debians_packages_record_what_their_own_test_runs": "builds the C++ side twice, as Debian's packages do",
    "test_each_workflow_of_a_process_has_the_run_that_it_asks_for[htex]": "starts two executors for each workflow",
    "test_every_call_of_the_workers_is_captured[forkserver]": "starts PyTorch in each of its workers",
    "test_every_call_of_the_workers_is_captured[spawn]": "starts PyTorch in each of its workers",
    "test_every_query_of_a_section_runs": "runs each command that the page shows",
    "test_fuzz_target": "builds with clang what is fuzzed, for a minute and a half",
    "test_lintian_finds_no_fault": "builds the C++ side twice, as Debian's packages do",
    "test_most_workflows_are_told_their_cause_and_few_anything_else": "runs 60 workflows, for five minutes",
    "test_no_answer_depends_on_the_hash_seed": "asks all questions again",
    "test_no_answer_depends_on_the_number_of_partitions": "asks all questions again",
    "test_the_source_distribution_builds_in_a_fresh_environment_and_traces": "builds all in an environment of its own",
    "test_the_suite_has_the_same_results[test_fork1]": "sleeps for most of its time",
    "test_the_suite_has_the_same_results[test_wait4]": "sleeps for most of its time",
    **{f"{_CLOCK}[{times}]": "sets the clock, as two others" for times in ("0.3--3600", "0.3-1", "0.8--1", "0.8-3600")},
    **{
        f"{_CLUSTER}[{words}]": "starts a cluster's reading again, as two others"
        for words in ("compare one two", "export one --to", "file one x", "graph one", "info one", "task one 107")
    },
    **{f"{name}[individual]": "runs ranks again, as two others" for name in _LAYERS},
    **{f"{name}[work_queue]": "starts Work Queue's factory of workers" for name in _WORK_QUEUE},
}
"""Test, with its parameters or with any -> why it takes long."""

INTEGRATION = ("slow", "runs real programs and workflows, traced and untraced")
FAST_INTEGRATION = {
    "test_cli_run",
    "test_compare_runs",
    "test_context",
    "test_demo",
    "test_export",
    "test_file_names",
    "test_processes",
    "test_untraced",
}
"""The modules of tests/integration that are not slow: what a user meets first, in seconds."""


@dataclass(frozen=True)
class Reason:
    """Why a test is not fast."""

    marker: str
    words: str


def reasons(item: pytest.Item) -> list[Reason]:
    """Why a test is not fast, by its fixtures and its module."""
    found = [Reason(*FIXTURES[name]) for name in sorted(FIXTURES) if name in getattr(item, "fixturenames", ())]
    module = Path(item.path)
    if module.stem in MODULES:
        found.append(Reason(*MODULES[module.stem]))
    if module.parent.name == "integration" and module.stem not in FAST_INTEGRATION and not found:
        found.append(Reason(*INTEGRATION))
    return found


def mark(items: list[pytest.Item], chosen: str) -> None:
    """Puts the markers on the tests, and modules with slow ones first; what needs root is skipped without, and what is
    long where the expression that chooses tests (-m) does not name it."""
    for item in items:
        if words := LONG.get(item.name) or LONG.get(item.name.partition("[")[0]):
            item.add_marker(pytest.mark.long(words))
            if "long" not in chosen:
                item.add_marker(pytest.mark.skip(f"{words}: with -m long"))
        for reason in reasons(item):
            item.add_marker(getattr(pytest.mark, reason.marker)(reason.words))
        if not any(item.get_closest_marker(name) for name in ("slow", "flux", "browser", "root")):
            item.add_marker(pytest.mark.fast)
        if item.get_closest_marker("root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip("only root may do that"))
    # A long module that begins last would run alone.
    slow = {item.path for item in items if not item.get_closest_marker("fast")}
    items.sort(key=lambda item: item.path not in slow)
