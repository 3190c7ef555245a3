"""The mount table of run.json, as the readers need it."""

from typing import Any

import pytest

from tailrace.analyzer.store.mounts import mount_rows

ROOT = {"dev": "254:1", "source": "/dev/vda1", "root": "/", "point": "/", "fstype": "ext4"}
NET = {"dev": "0:52", "source": "nas:/export", "root": "/", "point": "/net", "fstype": "nfs4"}
HOME = {"dev": "0:52", "source": "nas:/export", "root": "/home", "point": "/home", "fstype": "nfs4"}


def test_a_network_file_system_is_named_by_its_source() -> None:
    assert mount_rows({"host": "a", "mounts": [ROOT, HOME, NET]}) == [
        ("a", "254:1", "/", ""),
        ("a", "0:52", "/home", "nas:/export:/"),
        ("a", "0:52", "/net", "nas:/export:/"),
    ]


def test_hosts_of_one_kernel_are_one_machine() -> None:
    restarts = [
        {"host": "pod-7", "boot_id": "x", "mounts": []},
        {"host": "b", "boot_id": "y", "mounts": []},
        {"host": "pod-8", "boot_id": "x"},
        {"host": "a", "boot_id": "x"},
        {"host": "c", "boot_id": None},
        {"host": "d"},
    ]
    rows = mount_rows({"host": "a", "boot_id": "x", "mounts": [ROOT], "restarts": restarts})
    assert rows == [("a", "254:1", "/", ""), ("pod-7", "", "", "a"), ("pod-8", "", "", "a")]


@pytest.mark.parametrize(
    "damaged",
    [{}, {"mounts": 3}, {"mounts": [3, {"dev": 1}], "boot_id": 7}, {"restarts": [None, "x", {"mounts": {}}]}],
)
def test_unknown_mounts_are_left_out(damaged: dict[str, Any]) -> None:
    assert mount_rows(damaged) == []
