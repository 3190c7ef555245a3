"""Tasks in the stories of flowcase.py, and what a manager declared of them.

    story = Story()
    task(story, "make", 0, 10, writes="/a")
    task(story, "use", 12, 20, reads="/a")
    run = story.run(**declared(("make", "use", "file")))

Times are ms since the story began. A task's stage is the first letter of its name.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from support.flowcase import MS, T0_NS, Story


def moment(story: Story, at_ms: float, **values: Any) -> None:
    """An event that moves nothing and takes no time: the task is there."""
    story.event("start", at_ms=at_ms, cat="PROCESS", dur=0, **values)


def task(
    story: Story, name: str, start: float, end: float, reads: str = "", writes: str = "", io: float = 1, pid: int = 1
) -> None:
    """A task that reads at its start and writes at its end, `io` ms each."""
    tags: dict[str, Any] = {"task": name, "stage": name[0], "pid": pid}
    moment(story, start, **tags)
    if reads:
        for number, path in enumerate(reads.split()):
            story.read(path, **tags, at_ms=start + number * io, dur=round(io * MS))
    for path in writes.split():
        story.create(path, **tags, at_ms=end - io, dur=0)
        story.write(path, **tags, at_ms=end - io, dur=round(io * MS))
    moment(story, end, **tags)


def diamond() -> Story:
    """make 0..10 -> (fast 12..20, slow 15..40) -> join 45..50."""
    story = Story()
    task(story, "make", 0, 10, writes="/a")
    task(story, "fast", 12, 20, reads="/a", writes="/b")
    task(story, "slow", 15, 40, reads="/a", writes="/c")
    task(story, "join", 45, 50, reads="/b /c", writes="/d")
    return story


def declared(*deps: tuple[str, str, str], files: tuple[tuple[str, str, str], ...] = ()) -> dict[str, pd.DataFrame]:
    """What a manager declared: (producer, consumer, via), and (task, direction, path) of files."""
    names = sorted({name for dep in deps for name in dep[:2]} | {f[0] for f in files})
    return {
        "declared_tasks": pd.DataFrame([{"workflow": "w", "stage": n[0], "task": n, "parent": None} for n in names]),
        "declared_deps": pd.DataFrame(
            [{"workflow": "w", "task": c, "dep": p, "via": via, "path": f"/{p}"} for p, c, via in deps],
            columns=["workflow", "task", "dep", "via", "path"],
        ),
        "declared_files": pd.DataFrame(
            [{"workflow": "w", "task": t, "direction": d, "path": p, "url": None} for t, d, p in files],
            columns=["workflow", "task", "direction", "path", "url"],
        ),
    }


def declared_jobs(*deps: tuple[str, str], parents: dict[str, str] | None = None, **submitted: float) -> dict[str, Any]:
    """The same of jobs: (producer, consumer), task -> parent, task -> when it was submitted (ms)."""
    inside = parents or {}
    names = sorted({*(name for dep in deps for name in dep), *inside, *inside.values(), *submitted})
    tasks = pd.DataFrame({"workflow": "w", "stage": n[0], "task": n, "parent": inside.get(n)} for n in names)
    at = [T0_NS + round(submitted[n] * MS) if n in submitted else None for n in names]
    rows = [{"workflow": "w", "task": c, "dep": p, "via": "afterok", "path": None} for p, c in deps]
    return {
        "declared_tasks": tasks.assign(t_submit_ns=pd.array(at, dtype="Int64")),
        "declared_deps": pd.DataFrame(rows),
    }
