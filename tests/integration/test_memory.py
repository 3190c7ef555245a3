"""Programs that choose the addresses of their memory: the tracer's lies where they don't look, and goes where they do.

Each runs untraced and traced (support/harm.py); ../programs/memory.c says what it does and checks its memory itself.
"""

import platform
import resource
import subprocess
from pathlib import Path

import pytest

import tailrace
from support.harm import Harm, Program
from tailrace.analyzer.store import ledger, problems

PREFIXES = {
    "plain": (),
    "without randomization": ("setarch", "-R"),
    "from the bottom up": ("setarch", "-L"),
    "with an unlimited stack": ("sh", "-c", 'ulimit -s unlimited && exec "$@"', "sh"),
    "in 400 MB": ("sh", "-c", 'ulimit -v 400000 && exec "$@"', "sh"),
}


@pytest.fixture(params=list(PREFIXES))
def layout(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What a program is started by, so that its address space is laid out in another way."""
    if request.param == "with an unlimited stack" and resource.getrlimit(resource.RLIMIT_STACK)[1] >= 0:
        pytest.skip("the stack can't be unlimited here")
    words = PREFIXES[request.param]
    if words and subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"no {words[0]}")
    return words


@pytest.mark.parametrize("how", ["fixed", "noreplace"])
def test_memory_mapped_where_some_was_freed_stays_the_programs(
    harm: Harm, program: Program, how: str, layout: tuple[str, ...]
) -> None:
    done = harm(program("memory"), "freed", how, prefix=layout)
    assert len(done.seen.events) > 150_000
    assert tailrace.open(done.run).losses.empty


def recorded_in_part(run: Path) -> bool:
    """The run says so, whatever share of the bytes is in the trace."""
    opened = tailrace.open(run)
    losses = opened.losses[["cause", "unit", "count"]].values.tolist()
    said = losses == [["gave_way", "processes", 1]] and problems.LOSSES["gave_way"] in " ".join(opened.problems)
    return said and ledger.GAVE_WAY in set(opened.coverage["cause_key"])


@pytest.mark.parametrize("how", ["fixed", "none", "noreplace", "number", "mremap", "shmat"])
def test_the_tracers_memory_is_the_programs_when_it_takes_it(harm: Harm, program: Program, how: str) -> None:
    done = harm(program("memory"), "taken", how)
    assert done.seen.events
    assert recorded_in_part(done.run), done.stderr
    assert "1 process recorded in part" in done.stderr and "nothing lost" not in done.stderr


HOW = ["munmap", "munmap by number", "mincore", "mprotect", "madvise", "msync", "mlock", "mremap"]


@pytest.mark.parametrize("how", HOW)
def test_the_tracers_memory_is_none_for_the_program(harm: Harm, program: Program, how: str) -> None:
    done = harm(program("memory"), "left", how)
    assert len(done.seen.events) > 5000
    assert tailrace.open(done.run).losses.empty


def test_pages_around_the_tracers_memory_are_seen_and_go_alone(harm: Harm, program: Program) -> None:
    done = harm(program("memory"), "around")
    assert tailrace.open(done.run).losses.empty


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the sizes are those of an address space of 47 bits")
@pytest.mark.parametrize("program_name", ["memory", "memory_fixed"])
def test_as_much_of_the_address_space_can_be_reserved(
    harm: Harm, program: Program, program_name: str, layout: tuple[str, ...]
) -> None:
    harm(program(program_name), "largest", prefix=layout)


@pytest.mark.parametrize("how", ["fork", "raw"])
def test_generations_of_children_leave_no_memory_to_each_other(harm: Harm, program: Program, how: str) -> None:
    done = harm(program("memory"), "chain", how)
    assert tailrace.open(done.run).losses.empty


@pytest.mark.parametrize("how", ["left", "taken"])
def test_a_forked_childs_memory_is_its_own(harm: Harm, program: Program, how: str) -> None:
    done = harm(program("memory"), "child", how)
    assert recorded_in_part(done.run) == (how == "taken")
