"""DFTracer's annotations of what PyTorch runs: a region for each operation of a compiled model (`dynamo`), and an
instant for each event of PyTorch's profiler (`trace_handler`). PyTorch is imported where it is used."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tailrace.dftracer.events import dftracer
from tailrace.dftracer.kinds import CAT_DYNAMO
from tailrace.dftracer.nodes import DFTracerAI
from tailrace.regions import region

TORCH_AVAILABLE = importlib.util.find_spec("torch") is not None
_CALLS = ("call_module", "call_function", "call_method")


@dataclass
class CallStackRecord:
    """An operation that runs. timestamp_us: when it began."""

    op_name: str
    op_type: str
    target: str
    timestamp_us: int
    grad_enabled: bool


def create_detailed_op_name(node: Any, gm: Any) -> str:
    """What an operation of a graph is called: by its kind, and its module's class or its function."""
    target = str(node.target)
    plain = target.replace(".", "_")
    if node.op == "call_module":
        return f"{target}.{type(gm.get_submodule(node.target)).__name__}_{plain}"
    if node.op == "call_function":
        return f"function.{getattr(node.target, '__name__', target)}"
    return f"{'method' if node.op == 'call_method' else node.op}.{plain}"


class Dynamo(DFTracerAI):
    """Compiles a model so that each of its operations is a region; else a node as those of `ai`."""

    def __init__(self, name: str | None = None, **arguments: Any) -> None:
        super().__init__(cat=CAT_DYNAMO, name=name, **arguments)
        self.call_stack: list[CallStackRecord] = []
        self._operations: list[region] = []

    def reset(self) -> None:
        """Forgets the operations that run."""
        super().reset()
        self.call_stack.clear()
        self._operations.clear()

    def _begin(self, name: str, kind: str, target: str) -> None:
        import torch

        grad = bool(torch.is_grad_enabled())
        self.call_stack.append(CallStackRecord(name, kind, target, time.time_ns() // 1000, grad))
        self._operations.append(region(name, self.cat, grad_enabled=str(int(grad))).__enter__())

    def _end(self) -> None:
        if self.call_stack:
            self.call_stack.pop()
        if self._operations:
            self._operations.pop().__exit__(None, None, None)

    def add_enhanced_timing_to_graph(self, gm: Any) -> Any:
        """Puts a begin before each operation of an FX graph, and an end behind it."""
        for node in [node for node in gm.graph.nodes if node.op in _CALLS]:
            with gm.graph.inserting_before(node):
                told = (create_detailed_op_name(node, gm), node.op, str(node.target))
                gm.graph.call_function(self._begin, args=told)
            with gm.graph.inserting_after(node):
                gm.graph.call_function(self._end)
        gm.recompile()
        return gm

    def compile(self, f_py: Any = None, autograd: bool = True) -> Any:
        """A decorator: `torch.compile` with a region for each operation. Raises RuntimeError without PyTorch."""
        _need_torch()
        if not self._enabled:
            return f_py if f_py is not None else lambda given: given
        backend = _backend(self, autograd)

        def compiled(function: Callable[..., Any]) -> Any:
            import torch

            return torch.compile(function, backend=backend)

        return compiled if f_py is None else compiled(f_py)

    def count_parameters(self, module: Any) -> int | None:
        """Of a module; None where it has none."""
        return int(sum(one.numel() for one in module.parameters())) if hasattr(module, "parameters") else None


def create_backend(name: str | None = None, *, autograd: bool = True, **arguments: Any) -> Any:
    """A backend of `torch.compile` with a region for each operation. Raises RuntimeError without PyTorch."""
    _need_torch()
    return _backend(Dynamo(name, **arguments), autograd)


def _need_torch() -> None:
    if not TORCH_AVAILABLE:
        raise RuntimeError("PyTorch is not installed: without it there is nothing to compile")


def _backend(tracer: Dynamo, autograd: bool) -> Any:
    def instrumented(gm: Any, _inputs: Any, **_: Any) -> Any:
        return tracer.add_enhanced_timing_to_graph(gm).forward

    if not autograd:
        return instrumented
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=lambda gm, inputs, **more: make_boxed_func(instrumented(gm, inputs, **more)))


def trace_handler(profiler_result: Any) -> None:
    """For `torch.profiler.profile(on_trace_ready=trace_handler)`: an instant for each event, with its times as keys."""
    for event in profiler_result.events():
        dftracer.get_instance().log_event(
            name=str(event.key),
            cat="PP",
            start_time=int(event.time_range.start),
            duration=int(event.time_range.elapsed_us()),
            int_args={"device": str(event.device_type), "cpu_memory": event.cpu_memory_usage},
        )


dynamo = Dynamo()
