"""OpenTelemetry's spans as regions, by the real SDK: nesting, threads, coroutines, processes, attributes."""

import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand
from support.run_files import Line, Trace
from tailrace.tags import decode

pytest.importorskip("opentelemetry.sdk", reason="no opentelemetry-sdk (pip install opentelemetry-sdk)")

SETUP = """
import asyncio, concurrent.futures, contextvars, os, sys, threading, time
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from tailrace.opentelemetry import RegionProcessor
import tailrace

trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(RegionProcessor())
tracer = trace.get_tracer("my.solver")

def touch(name):
    open(f"{sys.argv[1]}/{name}", "w").close()
"""


class Traced:
    """A program's regions by path, and the path that each file which it opened has."""

    def __init__(self, directory: Path, run_traced: TracedCommand, code: str) -> None:
        program, self.files = directory / "program.py", directory / "files"
        self.files.mkdir()
        program.write_text(SETUP + textwrap.dedent(code))
        run_traced(sys.executable, program, self.files)
        self.run = run_traced.run
        self.trace = Trace(self.run)
        self.own: list[Line] = [e for e in self.trace.events if e["cat"] == "APP"]

    def counts(self) -> dict[str, int]:
        return dict(Counter(e["args"]["region"] for e in self.own if not e["args"].keys() & {"kind", "open"}))

    def paths(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for file in self.files.iterdir():
            opens = self.trace.of(file, {"open", "openat"})
            assert len(opens) == 1, file
            found[file.name] = opens[0]["args"].get("region", "")
        return found

    def named(self, name: str) -> Line:
        (found,) = (e for e in self.own if e["name"] == name and "open" not in e["args"])
        return found


def test_spans_are_regions_with_times_and_attributes(tmp_path: Path, run_traced: TracedCommand) -> None:
    code = """
        import json
        with tracer.start_as_current_span("train", attributes={"epoch": 3, "model": "u net", "sizes": [1, 2]}) as train:
            touch("in train")
            before = time.monotonic_ns()
            with tailrace.region("inside"), tracer.start_as_current_span("step") as step:
                begun = time.monotonic_ns()
                touch("in step")
                step.set_attributes({"step": 7, "loss": 0.5, "region": "no key of a region", "tailrace.category": "io"})
                time.sleep(0.02)
                ending = time.monotonic_ns()
            bounds = [ending - begun, time.monotonic_ns() - before]
            touch("in train again")
        compute = tracer.start_span("other", attributes={"tailrace.category": "compute", "long": "x" * 9000})
        for number in range(70):
            compute.set_attribute(f"key{number}", "y" * 250)
        compute.end()
        touch("in none")
        try:
            with tracer.start_as_current_span("raises"):
                raise KeyError("why")
        except KeyError:
            touch("after")
        late = tracer.start_span("late", start_time=10**18)
        late.end(end_time=2 * 10**18)
        ids = [f"{train.get_span_context().trace_id:032x}", f"{step.get_span_context().span_id:016x}"]
        print(json.dumps([*ids, *bounds]), file=open("ids", "w"))
    """
    traced = Traced(tmp_path, run_traced, code)
    assert traced.counts() == dict.fromkeys(
        ("train", "train/inside", "train/inside/step", "other", "raises", "late"), 1
    )
    assert traced.paths() == {
        "in train": "train", "in step": "train/inside/step", "in train again": "train", "in none": "", "after": "",
    }  # fmt: skip
    trace_id, span_id, least_ns, most_ns = json.loads((run_traced.work / "ids").read_text())
    train, step = traced.named("train"), traced.named("step")
    assert (train["args"]["category"], train["args"]["epoch"]) == ("my.solver", 3)
    keys = decode(train["args"]["keys"])
    assert (keys["model"], keys["sizes"], keys["trace_id"]) == ("u net", "(1, 2)", trace_id)
    assert step["args"]["step"] == 7
    keys = decode(step["args"]["keys"])
    assert keys == {"loss": "0.5", "trace_id": trace_id, "span_id": span_id}
    assert least_ns <= step["dur"] * 1000 <= most_ns
    assert traced.named("other")["args"]["category"] == "compute"
    assert "key69" in decode(traced.named("other")["args"]["keys"])
    assert decode(traced.named("raises")["args"]["keys"])["status"] == "error KeyError: 'why'"
    late_keys = decode(traced.named("late")["args"]["keys"])
    assert (late_keys["begin_ns"], late_keys["end_ns"]) == (str(10**18), str(2 * 10**18))
    assert traced.named("late")["dur"] < 1e6
    table = tailrace.open(run_traced.run).regions.table().set_index("region")
    assert (table["open"] == 0).all()


def test_a_span_is_on_the_calls_of_its_context_only(tmp_path: Path, run_traced: TracedCommand) -> None:
    code = """
        def in_thread(span, name):
            with trace.use_span(span, end_on_exit=name == "ends"):
                touch(name)
            touch(f"after {name}")

        with tracer.start_as_current_span("outer"):
            span = tracer.start_span("handed")
            touch("started only")
            with tracer.start_as_current_span("root", context=context.Context()):
                touch("root")
            token = context.attach(context.set_value("baggage", 1))
            touch("baggage")
            context.detach(token)
        threads = [threading.Thread(target=in_thread, args=(span, name)) for name in ("stays",)]
        threads += [threading.Thread(target=in_thread, args=(span, name)) for name in ("ends",)]
        for thread in threads:
            thread.start()
            thread.join()
        touch("last")
        pool = concurrent.futures.ThreadPoolExecutor(1)
        pool.submit(int).result()
        with tracer.start_as_current_span("caller"):
            with tracer.start_as_current_span("child", context=trace.set_span_in_context(trace.get_current_span())):
                touch("child")
            pooled = tracer.start_as_current_span("pooled")(touch)
            pool.submit(contextvars.copy_context().run, pooled, "pooled").result()
        pool.submit(touch, "pool after").result()
        child = os.fork()
        if child == 0:
            with tracer.start_as_current_span("forked"):
                touch("forked")
            os._exit(0)
        os.waitpid(child, 0)
        off = TracerProvider(sampler=ALWAYS_OFF)
        off.add_span_processor(RegionProcessor())
        with off.get_tracer("off").start_as_current_span("not sampled"):
            touch("not sampled")
    """
    traced = Traced(tmp_path, run_traced, code)
    assert traced.paths() == {
        "started only": "outer", "root": "root", "baggage": "outer", "stays": "outer/handed", "after stays": "",
        "ends": "outer/handed", "after ends": "", "last": "", "child": "caller/child", "pooled": "caller/pooled",
        "pool after": "", "forked": "forked", "not sampled": "",
    }  # fmt: skip
    names = ("outer", "outer/handed", "root", "caller", "caller/child", "caller/pooled", "forked")
    assert traced.counts() == dict.fromkeys(names, 1)
    table = tailrace.open(run_traced.run).regions.table().set_index("region")
    assert table["count"].to_dict() == dict.fromkeys(names, 1)


def test_coroutines_that_take_turns_have_their_own_spans(tmp_path: Path, run_traced: TracedCommand) -> None:
    code = """
        async def work(name, turns):
            touch(f"{name} before")
            with tracer.start_as_current_span(name):
                for turn in range(turns):
                    touch(f"{name} {turn}")
                    await asyncio.sleep(0)
                with tracer.start_as_current_span("inner"):
                    await asyncio.to_thread(touch, f"{name} thread")
                    await asyncio.sleep(0.001 * turns)
                    touch(f"{name} inner")
            await asyncio.sleep(0)
            touch(f"{name} after")

        async def plain():
            for turn in range(6):
                touch(f"plain {turn}")
                await asyncio.sleep(0.001)

        async def block():
            with tailrace.region("block"):
                for turn in range(3):
                    touch(f"block {turn}")
                    await asyncio.sleep(0.001)

        async def main():
            with tracer.start_as_current_span("main"):
                await asyncio.gather(work("a", 3), work("b", 5))
                touch("main")

        async def both():
            await asyncio.gather(plain(), block(), main())

        asyncio.run(both())
        touch("last")
    """
    traced = Traced(tmp_path, run_traced, code)
    expected = {f"plain {turn}": "" for turn in range(6)} | {"main": "main", "last": ""}
    expected |= {f"block {turn}": "block" for turn in range(3)}
    for name, turns in (("a", 3), ("b", 5)):
        expected |= {f"{name} {turn}": f"main/{name}" for turn in range(turns)}
        expected |= {f"{name} before": "main", f"{name} after": "main"}
        expected |= {f"{name} {what}": f"main/{name}/inner" for what in ("thread", "inner")}
    assert traced.paths() == expected
    assert traced.counts() == {"block": 1, "main": 1, "main/a": 1, "main/b": 1, "main/a/inner": 1, "main/b/inner": 1}


def test_untraced_the_processor_leaves_opentelemetry_as_it_is(tmp_path: Path) -> None:
    code = SETUP + textwrap.dedent("""
        assert type(context._RUNTIME_CONTEXT).__name__ == "ContextVarsRuntimeContext"
        assert not hasattr(asyncio.Handle._run, "__wrapped__")
        with tracer.start_as_current_span("span", attributes={"a": 1}):
            touch("untraced")
    """)
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "untraced").exists()
