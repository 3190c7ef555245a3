"""The mount table of run.json as input of the readers: which files are one file on every host.

Invariants: a file on a network file system is identified by the mount's source and root, any other by machine
and device number (docs/trace-format.md, "run.json"). A machine is a running kernel: the containers on it have their own
names and its device numbers. Rows with unknown values are left out, so their files are local: a missed match is better
than a false one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

Mount = tuple[str, str, str, str]
"""Host, "major:minor", mount point, and the network file system's name or ""; or host, "", "", and the first name that
the same machine has."""


class Place(NamedTuple):
    """A mount: point, type of its file system, and what is mounted."""

    point: str
    fstype: str
    source: str


NETWORK_TYPES = frozenset(
    {
        "nfs",
        "nfs4",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "cifs",
        "smb3",
        "afs",
        "glusterfs",
        "orangefs",
        "pvfs2",
        "panfs",
    }
    | {
        "wekafs",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.sshfs",
        "fuse.beegfs",
        "fuse.dfuse",
        "fuse.juicefs",
    }
)


def mount_rows(run_json: Mapping[str, object]) -> list[Mount]:
    """The mounts of all hosts in run.json: of the run itself and of its restarts."""
    rows: dict[Mount, None] = {}
    names: dict[str, str] = {}
    for part in descriptions(run_json):
        host = str(part.get("host", run_json.get("host")) or "")
        mounts = part.get("mounts")
        if isinstance(mounts, list):
            rows.update(dict.fromkeys(_rows_of_host(host, mounts)))
        boot = part.get("boot_id")
        if isinstance(boot, str) and names.setdefault(boot, host) != host:
            rows[host, "", "", names[boot]] = None
    return list(rows)


def descriptions(run_json: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The descriptions of each run in the directory and of each host: run.json itself, its restarts, and those in
    hosts/ (`Run.meta`)."""
    lists = [run_json.get(key) for key in ("restarts", "hosts")]
    more = (one for found in lists if isinstance(found, list) for one in found)
    return [run_json, *(one for one in more if isinstance(one, Mapping))]


def finder(run_json: Mapping[str, object]) -> Callable[[str, str], Place | None]:
    """(host, path) -> the mount that the path is on; of a host that no description names, the first one's."""
    of: dict[str, list[Place]] = {}
    for part in descriptions(run_json):
        rows = part.get("mounts")
        # The last one mounted at a place hides those before it.
        known = {one.point: one for row in (rows if isinstance(rows, list) else []) if (one := _place(row)) is not None}
        of.setdefault(str(part.get("host", "")), sorted(known.values(), key=lambda one: -len(one.point)))
    first = next(iter(of.values()), [])
    seen: dict[tuple[str, str], Place | None] = {}

    def find(host: str, path: str) -> Place | None:
        folder = path.rpartition("/")[0]
        if (host, folder) not in seen:
            there = (one for one in of.get(host, first) if f"{folder}/".startswith(f"{one.point.rstrip('/')}/"))
            seen[host, folder] = next(there, None)
        return seen[host, folder]

    return find


def _place(row: object) -> Place | None:
    if not isinstance(row, Mapping):
        return None
    point, fstype, source = (row.get(name) for name in ("point", "fstype", "source"))
    if not isinstance(point, str) or not isinstance(fstype, str):
        return None
    return Place(point, fstype, source if isinstance(source, str) else "")


def undescribed(run_json: Mapping[str, object], hosts: Iterable[str]) -> list[str]:
    """Those of the hosts that have no description with mounts, if there are several hosts at all: what of their files
    other hosts have, too, can't be told."""
    found = set(hosts)
    return without_mounts(run_json, found) if len(found) > 1 else []


def without_mounts(run_json: Mapping[str, object], hosts: Iterable[str]) -> list[str]:
    """Those of the hosts that have no description with mounts."""
    described = (one for one in descriptions(run_json) if isinstance(one.get("mounts"), list))
    known = {str(one.get("host", run_json.get("host"))) for one in described}
    return [host for host in sorted(set(hosts)) if host not in known]


def _rows_of_host(host: str, mounts: list[object]) -> list[Mount]:
    keys = ("dev", "point", "source", "root", "fstype")
    known = [m for m in mounts if isinstance(m, Mapping) and all(isinstance(m.get(k), str) for k in keys)]
    # A part of a file system that is mounted again elsewhere has the same device: the mount nearest to its root names
    # both.
    roots: dict[str, Mapping[str, str]] = {}
    for mount in known:
        if mount["fstype"] in NETWORK_TYPES:
            best = roots.setdefault(mount["dev"], mount)
            if len(mount["root"]) < len(best["root"]):
                roots[mount["dev"]] = mount
    return [(host, m["dev"], m["point"], _file_system(roots.get(m["dev"]))) for m in known]


def _file_system(mount: Mapping[str, str] | None) -> str:
    return "" if mount is None else f"{mount['source']}:{mount['root']}"
