"""The order in which programs that are no tasks (scripts, `make`, a pool of threads) started tasks and waited for them.

A program that started a task while none of the others that it had started ran had waited for those before. One that
started it while others ran is taken to have had no reason to wait but for a worker.
"""

from __future__ import annotations

import numpy as np

from tailrace.analyzer.insights import process_tree
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.util.types import Bools, Ints


def program_order(inputs: Inputs, first_actor: Ints) -> list[tuple[list[int], list[int]]]:
    """(tasks, the tasks that began after these); first_actor: of each task the actor as which it began."""
    programs = _programs(inputs, first_actor)
    started_by = {child: p for p, program in programs.items() for _, _, child in program}
    phase: dict[int, list[int]] = {}  # child -> the children of the same program that were over before
    for program in programs.values():
        before, now, running = list[int](), list[int](), list[int]()
        for begin, over, child in sorted(program):
            if now and all(end <= begin for end in running):
                before, now = now, []
            running = [end for end in running if end > begin] + [over]
            now.append(child)
            phase[child] = before
    groups: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    for t in np.flatnonzero(inputs.works).tolist():
        node, met = t, set[int]()
        while node in started_by and node not in met and not phase[node]:
            met.add(node)
            node = started_by[node]
        if found := phase.get(node, []):
            key = tuple(found)
            groups.setdefault(key, (_tasks_of(found, programs, inputs.works), []))[1].append(t)
    return list(groups.values())


def _tasks_of(nodes: list[int], programs: dict[int, list[tuple[int, int, int]]], works: Bools) -> list[int]:
    """The tasks among nodes, and those that programs among them started."""
    out, queue, met = list[int](), list(nodes), set(nodes)
    while queue:
        node = queue.pop()
        if works[node]:
            out.append(node)
            continue
        below = [child for _, _, child in programs.get(node, ()) if child not in met]
        met.update(below)
        queue += below
    return sorted(out)


def _programs(inputs: Inputs, first_actor: Ints) -> dict[int, list[tuple[int, int, int]]]:
    """Untagged process -> (begin, when it had waited for it, task or process) of all that it started. A task that is a
    part of the process (its tags were set and taken away) was waited for at its end."""
    rows = inputs.handovers
    out: dict[int, list[tuple[int, int, int]]] = {}
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    never = np.iinfo(np.int64).max
    made = rows[(rows["via"] == process_tree.FORK).to_numpy()]
    for p, c, at in zip(*(made[n].tolist() for n in ("producer", "consumer", "given_ns")), strict=True):
        if not inputs.works[p]:
            begin, over = spans.get((p, c), (never, -1))
            spans[(p, c)] = (min(begin, at), over)
    ended = rows[(rows["via"] == process_tree.EXIT).to_numpy()]
    for c, p, at in zip(*(ended[n].tolist() for n in ("producer", "consumer", "taken_ns")), strict=True):
        if (p, c) in spans:
            spans[(p, c)] = (spans[(p, c)][0], max(spans[(p, c)][1], at))
    lives, of_who = inputs.lives, inputs.of_who
    start, end = inputs.tasks["start_ns"].tolist(), inputs.tasks["end_ns"].tolist()
    started = {c for _, c in spans}
    for t in np.flatnonzero(inputs.works).tolist():
        process = int(lives.process[first_actor[t]])
        maker = next((int(of_who[a]) for a in lives.actors[process] if not inputs.works[of_who[a]]), -1)
        if maker >= 0 and t not in started:
            spans[(maker, t)] = (start[t], end[t])
    for (p, c), (begin, over) in spans.items():
        out.setdefault(p, []).append((begin, over if over >= 0 else never, c))
    return out
