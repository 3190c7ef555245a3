"""A training loop over PyTorch's DataLoader, as in Table I of DFTracer's paper: workers read, the program that was
started computes.

    torch_loader.py INTERFACE FOLDER METHOD FILES EPOCHS WORKERS PERSISTENT LOG

INTERFACE is the module that the annotations come from (`tailrace.dftracer`, `dftracer.python`), or `none`. FOLDER has
0.npz, 1.npz, ...; METHOD starts the workers, PERSISTENT (0 or 1) keeps them from epoch to epoch. LOG becomes the
program's own account, JSON: `loads` and `computes`, lists of [t, t, t, t] in ns of CLOCK_MONOTONIC: before and after
the region's begin, before and after its end; `pids` of the workers by epoch; `seconds` of the loop.
"""

import contextlib
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy

INTERFACE, FOLDER, METHOD, FILES, EPOCHS, WORKERS, PERSISTENT, LOG = sys.argv[1:]


def _imported() -> Any:
    """The module of the annotations. DFTracer's refuses torch before 2.0, which it has no use for here."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    found = None if INTERFACE == "none" else importlib.import_module(INTERFACE)
    del sys.modules["torch"]
    return found


annotations = _imported()
import torch
from torch.utils.data import DataLoader, Dataset


class _Nothing:
    """No annotation."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *_: object) -> None:
        pass


event: Any = annotations.dft_fn if annotations else _Nothing
now = time.monotonic_ns


class Images(Dataset):
    """An image a file."""

    def __init__(self, folder: str, count: int) -> None:
        self.paths = [f"{folder}/{number}.npz" for number in range(count)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        times = [now()]
        with event("reader", "fetch", image_idx=number):
            times.append(now())
            with numpy.load(self.paths[number]) as file:
                image = file["x"]
            times.append(now())
        times.append(now())
        return torch.from_numpy(image), torch.tensor([os.getpid(), *times])


def compute(images: Any, times: list[list[int]]) -> None:
    """A step of the training."""
    own = [now()]
    with event("compute", "forward"):
        own.append(now())
        until = now() + 3_000_000
        while now() < until:
            images.float().mean()
        own.append(now())
    own.append(now())
    times.append(own)


def begin_worker(number: int) -> None:
    """In each worker: DFTracer records nothing in a spawned one that has not asked for it."""
    if annotations:
        annotations.dftracer.initialize_log(None, None, -1)


def train() -> dict[str, Any]:
    """All epochs; the program's own account."""
    loader = DataLoader(
        Images(FOLDER, int(FILES)),
        batch_size=2,
        num_workers=int(WORKERS),
        multiprocessing_context=METHOD,
        persistent_workers=PERSISTENT == "1",
        worker_init_fn=begin_worker,
    )
    loads: list[list[int]] = []
    computes: list[list[int]] = []
    pids: list[list[int]] = []
    begin = now()
    for epoch in range(int(EPOCHS)):
        found: set[int] = set()
        with event("pipeline", "epoch", epoch=epoch):
            for step, (images, accounts) in enumerate(loader):
                with event("pipeline", "step", step=step):
                    compute(images, computes)
                for pid, *times in accounts.tolist():
                    found.add(pid)
                    loads.append(times)
        pids.append(sorted(found))
    return {"loads": loads, "computes": computes, "pids": pids, "seconds": (now() - begin) / 1e9}


if __name__ == "__main__":
    tracer = annotations.dftracer.initialize_log(None, None, -1) if annotations else contextlib.nullcontext()
    torch.set_num_threads(1)
    account = train()
    Path(LOG).write_text(json.dumps(account))
    if annotations:
        tracer.finalize()
