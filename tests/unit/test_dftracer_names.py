"""The stand-ins for DFTracer's Python modules have all names that a program may import from them.

tests/data/dftracer/names.json lists those of pydftracer 2.0.6: by module, with members and parameters of classes.
"""

import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace.dftracer
from tailrace.dftracer import DFTracerAI, Dynamo, ai, dftracer, kinds, nodes, torch_operations

NAMES = json.loads((Path(__file__).parents[1] / "data" / "dftracer" / "names.json").read_text())
STAND_INS = Path(tailrace.dftracer.__file__).parents[1] / "stand_ins"


@pytest.fixture(scope="module", autouse=True)
def path_of_the_stand_ins() -> Iterator[None]:
    sys.path.insert(0, str(STAND_INS))
    yield
    sys.path.remove(str(STAND_INS))


@pytest.mark.parametrize("module", sorted(NAMES["modules"]))
def test_each_module_has_each_name(module: str) -> None:
    importlib.import_module(module)
    found = sys.modules[module]
    assert Path(str(found.__file__)).is_relative_to(STAND_INS)
    assert [name for name in NAMES["modules"][module] if not hasattr(found, name)] == []


def takes(function: Callable[..., Any], names: list[str]) -> bool:
    """Whether each can be passed by its name."""
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return takes_any or set(names) <= set(parameters)


@pytest.mark.parametrize("name", sorted(NAMES["classes"]))
def test_each_class_has_each_member_with_its_parameters(name: str) -> None:
    found = getattr(tailrace.dftracer, name)
    for member, expected in NAMES["classes"][name].items():
        if member == "cat" or member == "name":
            continue  # of each node, below
        assert hasattr(found, member), member
        value = getattr(found, member)
        if isinstance(expected, list):
            assert takes(value, expected), (member, expected)
        elif expected is not None:
            assert value.value == expected, member


def test_functions_and_constants_are_the_same() -> None:
    assert {name: takes(getattr(tailrace.dftracer, name), given) for name, given in NAMES["functions"].items()} == {
        name: True for name in NAMES["functions"]
    }
    assert {name: getattr(tailrace.dftracer, name) for name in NAMES["constants"]} == NAMES["constants"]


def test_the_tree_of_ai_has_the_same_nodes_categories_and_names() -> None:
    def tree(node: DFTracerAI) -> dict[str, Any]:
        return {at: [child.cat, child.name, tree(child)] for at, child in node._children.items()}

    assert tree(ai) == NAMES["ai"]
    assert ai.other.log is ai.other._children["log"]


def test_all_lists_each_public_name_of_the_parts() -> None:
    parts = (kinds, nodes, torch_operations, tailrace.dftracer.events)
    own = {
        name
        for part in parts
        for name, value in vars(part).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == part.__name__
    }
    assert own - {"arguments_of"} - set(tailrace.dftracer.__all__) == set()


def test_star_imports_of_an_unchanged_program_work_in_a_new_process() -> None:
    program = """
from dftracer.logger import *
from dftracer.python.common import *
from dftracer.python import *
from dftracer.python.dynamo import Dynamo, create_backend
from dftracer.python.torch import trace_handler
from dftracer.python.dbg.ai import compute
class Mine(DFTracerAI):
    def __init__(self):
        super().__init__(cat="mine", name="mine")
        self.create_children({"part": "mine.part"})
@Mine().part(args={"loss": 0.5})
def f(x): return x
with dft_fn("cat", "name") as event:
    event.uses("dataset", 7, EntityStore.PARALLEL_FS)
    f(1)
tracer = dftracer.initialize_log(None, None, -1)
tracer.relate_entities(EntityRelation.DERIVED_FROM, 1, 2)
tracer.log_event("e", "c", 0, 1, int_args={"a": TagValue("7", TagDType.INT).value()})
print(int(TagType.VALUE), ProfileCategory.COMM, get_iter_block_name("x.block"), get_default_args(lambda a, b=2: 0))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(STAND_INS)}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("1 comm x.block {'b': 2}\n", "")


def test_compiling_without_pytorch_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_operations, "TORCH_AVAILABLE", False)
    with pytest.raises(RuntimeError, match="PyTorch is not installed"):
        Dynamo().compile(lambda: None)
    with pytest.raises(RuntimeError, match="PyTorch is not installed"):
        tailrace.dftracer.create_backend()


class Graph:
    """As much of torch.fx's as is used."""

    def __init__(self, *nodes: Any) -> None:
        self.nodes = list(nodes)
        self._at = 0

    def inserting_before(self, node: Any) -> "Graph":
        self._at = self.nodes.index(node)
        return self

    def inserting_after(self, node: Any) -> "Graph":
        self._at = self.nodes.index(node) + 1
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def call_function(self, function: Any, args: tuple[Any, ...] = ()) -> None:
        self.nodes.insert(self._at, Node("call_function", function, args))


class Node:
    def __init__(self, op: str, target: Any, args: tuple[Any, ...] = ()) -> None:
        self.op, self.target, self.args = op, target, args


class Module:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.compiled = 0

    def recompile(self) -> None:
        self.compiled += 1

    def get_submodule(self, target: str) -> Graph:
        return self.graph


def test_a_graph_gets_a_begin_and_an_end_around_each_operation() -> None:
    module = Module(Graph(Node("placeholder", "x"), Node("call_module", "a.b"), Node("call_method", "relu")))
    dynamo = Dynamo()
    assert dynamo.add_enhanced_timing_to_graph(module) is module
    assert module.compiled == 1
    told = [node.args[0] if node.args else getattr(node.target, "__name__", node.target) for node in module.graph.nodes]
    assert told == ["x", "a.b.Graph_a_b", "a.b", "_end", "method.relu", "relu", "_end"]


def test_events_of_pytorchs_profiler_are_instants(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event:
        key, device_type, cpu_memory_usage = "aten::mm", "CPU", 10

        class time_range:
            start = 5

            @staticmethod
            def elapsed_us() -> int:
                return 7

    class Result:
        @staticmethod
        def events() -> list[Any]:
            return [Event]

    told: list[dict[str, Any]] = []
    monkeypatch.setattr(dftracer, "log_event", lambda _, **given: told.append(given))
    tailrace.dftracer.trace_handler(Result)
    assert [(one["name"], one["cat"], one["start_time"], one["duration"]) for one in told] == [("aten::mm", "PP", 5, 7)]
