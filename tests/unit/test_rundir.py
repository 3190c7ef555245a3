"""Run directories: creation, the contents of run.json, and what is refused."""

import fcntl
import json
import os
import resource
import socket
import stat
import threading
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest

from support import run_schema
from tailrace import _native
from tailrace.analyzer.store.mounts import mount_rows
from tailrace.errors import NotARunError, RunError, UsageError
from tailrace.integrations import rundir


def described(directory):
    return json.loads((directory / "run.json").read_text())


@contextmanager
def held(directory):
    descriptor = os.open(directory, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


def test_a_new_run_directory_is_private_and_described(tmp_path):
    directory = rundir.open_run_directory(tmp_path / "a" / "run", ["dd", "if=x"], "stage=s")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert (directory / "trace").is_dir()
    assert (directory / "declared").is_dir()
    run = described(directory)
    assert run["format"] == 1
    assert run["command"] == ["dd", "if=x"]
    assert run["tags"] == "stage=s"
    assert run["host"] == socket.gethostname()
    assert run["uid"] == os.getuid()
    assert run["cpu"]["count"] == os.cpu_count()
    assert run["cpu"]["model"]
    assert run["restarts"] == []
    age = datetime.now(timezone.utc) - datetime.fromisoformat(run["created"].replace("Z", "+00:00"))
    assert abs(age.total_seconds()) < 60


def test_run_json_follows_its_schema(tmp_path):
    pytest.importorskip("jsonschema")
    for command in (["dd", "if=x"], ["restarted"]):
        directory = rundir.open_run_directory(tmp_path / "run", command, "stage=s")
        assert run_schema.faults(described(directory)) == []
    run = described(directory)
    assert len(run["restarts"]) == 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"format": 2}, "$.format"),
        ({"uid": "0"}, "$.uid"),
        ({"new": 1}, "the schema lacks 'new'"),
        ({"cpu": {"model": "m"}}, "'count' is a required property"),
        ({"restarts": [{}]}, "$.restarts[0]"),
    ],
)
def test_the_schema_finds_a_wrong_run_json(tmp_path, change, fault):
    pytest.importorskip("jsonschema")
    run = described(rundir.open_run_directory(tmp_path / "run", ["true"]))
    assert any(fault in found for found in run_schema.faults({**run, **change}))


def test_each_description_says_where_the_run_was_recorded(tmp_path):
    """A reader knows the run's own files by it when the run has moved."""
    first = rundir.open_run_directory(tmp_path / "run", ["true"])
    moved = first.rename(tmp_path / "moved")
    again = rundir.open_run_directory(moved, ["true"])
    run = described(again)
    assert (run["directory"], run["restarts"][0]["directory"]) == (str(first), str(moved))


def test_the_mount_of_the_run_directory_is_among_the_mounts(tmp_path):
    directory = rundir.open_run_directory(tmp_path / "run", ["true"])
    number = directory.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    if f" {device} " not in Path("/proc/self/mountinfo").read_text():
        pytest.skip("the root directory is no mount point (chroot): the kernel lists no mount for its files")
    assert device in {mount["dev"] for mount in described(directory)["mounts"]}


def test_escapes_in_mountinfo_are_undone(tmp_path):
    table = tmp_path / "mountinfo"
    table.write_text(
        "36 35 98:0 /sub\\040dir /mnt\\0112 rw,noatime shared:1 master:2 - nfs4 srv:/a\\134b rw\n"
        "37 35 0:5 / /proc rw - proc proc rw\n"
        "nonsense\n"
    )
    assert _native.mounts(table) == [
        ("98:0", "srv:/a\\b", "/sub dir", "/mnt\t2", "nfs4"),
        ("0:5", "proc", "/", "/proc", "proc"),
    ]


def test_a_second_run_adds_a_restart_and_leaves_the_rest(tmp_path):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    before = described(directory)
    assert rundir.open_run_directory(tmp_path / "run", ["second"], "stage=s") == directory
    after = described(directory)
    (restart,) = after.pop("restarts")
    assert after == {key: value for key, value in before.items() if key != "restarts"}
    assert restart["command"] == ["second"]
    assert restart["tags"] == "stage=s"
    assert restart["run_id"] != before["run_id"]


def test_concurrent_starts_are_all_recorded(tmp_path):
    threads = [
        threading.Thread(target=rundir.open_run_directory, args=(tmp_path / "run", [f"c{number}"]))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run = described(tmp_path / "run")
    commands = [run["command"], *(restart["command"] for restart in run["restarts"])]
    assert sorted(commands) == [[f"c{number}"] for number in range(8)]
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(".")] == []


def test_a_restart_on_the_same_machine_has_the_mounts_only_where_they_changed(tmp_path):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    first = described(directory)
    for change in ({}, {"mounts": first["mounts"][:-1]}, {"boot_id": "another"}, {"host": "elsewhere"}):
        (directory / "run.json").write_text(json.dumps({**first, **change, "restarts": []}))
        for _ in range(2):
            rundir.open_run_directory(directory, ["again"])
        restarts = described(directory)["restarts"]
        assert [restart.get("mounts") for restart in restarts] == [first["mounts"] if change else None, None]
    assert mount_rows(described(directory)) == [
        *mount_rows({**first, "host": "elsewhere"}),
        *(row for row in mount_rows(first) if row[1]),
        (first["host"], "", "", "elsewhere"),
    ]


def test_a_description_of_full_size_does_not_keep_a_run_from_starting(tmp_path, capfd):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    os.truncate(directory / "run.json", (64 << 20) + 1)
    assert rundir.open_run_directory(directory, ["again"]) == directory
    assert (directory / "run.json").stat().st_size == (64 << 20) + 1
    assert "run.json has more than 64.0 MiB" in capfd.readouterr().err


def test_a_lock_that_is_held_does_not_keep_a_run_from_starting(tmp_path):
    """As one that `tailrace compact` holds for minutes."""
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    with held(directory):
        rundir.open_run_directory(directory, ["again"])
    assert [restart["command"] for restart in described(directory)["restarts"]] == [["again"]]


@pytest.mark.parametrize("name", ["trace", "declared", "accounts", "manifest", "hosts"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path, name):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    (tmp_path / "elsewhere").mkdir()
    if (directory / name).exists():
        (directory / name).rmdir()
    (directory / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=f"run/{name} is not a directory"):
        rundir.open_run_directory(directory, ["again"])


def test_a_host_is_described_once(tmp_path):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    rundir.describe_host(directory, ["pool"])
    assert described(directory)["restarts"] == []
    run = described(directory)
    (directory / "run.json").write_text(json.dumps({**run, "host": "elsewhere"}))
    rundir.describe_host(directory, ["pool"])
    rundir.describe_host(directory, ["pool"])
    assert [restart["host"] for restart in described(directory)["restarts"]] == [socket.gethostname()]


def test_a_full_directory_that_is_no_run_is_refused_unchanged(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="neither empty nor a run directory"):
        rundir.open_run_directory(tmp_path, ["true"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_that_can_not_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/run"):
        rundir.open_run_directory(tmp_path / "file" / "run", ["true"])


def test_a_broken_description_is_named(tmp_path):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    (directory / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json"):
        rundir.open_run_directory(tmp_path / "run", ["second"])


@pytest.mark.parametrize("text", ["[1]", '{"restarts": 5}'])
def test_a_description_of_something_else_is_named(tmp_path, text):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    (directory / "run.json").write_text(text)
    with pytest.raises(RunError, match=r"run\.json does not describe a run"):
        rundir.open_run_directory(tmp_path / "run", ["second"])


def test_a_file_in_the_directorys_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is not a directory: give"):
        rundir.open_run_directory(tmp_path / "file", ["true"])


def test_a_file_that_can_not_be_written_leaves_no_scratch(tmp_path):
    directory = rundir.open_run_directory(tmp_path / "run", ["first"])
    before = sorted(directory.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # Python ignores SIGXFSZ
    try:
        with pytest.raises(UsageError, match="File too large"):
            rundir.open_run_directory(directory, ["second"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(directory.iterdir()) == before


def test_a_run_from_a_directory_that_was_removed(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    directory = rundir.open_run_directory(tmp_path / "run", ["true"])
    assert json.loads((directory / "run.json").read_text())["cwd"] == ""
    with pytest.raises(UsageError, match="run directory"):
        rundir.open_run_directory(rundir.default_run_directory(["true"]), ["true"])


def test_only_a_run_is_an_existing_run(tmp_path):
    with pytest.raises(NotARunError, match="not a directory"):
        rundir.existing_run_directory(tmp_path / "nothing")
    with pytest.raises(NotARunError, match="not a run directory"):
        rundir.existing_run_directory(tmp_path)
    made = rundir.open_run_directory(tmp_path / "run", ["true"])
    assert rundir.existing_run_directory(tmp_path / "run") == made


def test_default_names_are_distinct(tmp_path):
    first = rundir.default_run_directory(["/usr/bin/my prog"], tmp_path)
    assert first.name.endswith("-my_prog")
    taken = [first, first.with_name(f"{first.name}-2")]
    for path in taken:
        path.mkdir()
    assert rundir.default_run_directory(["/usr/bin/my prog"], tmp_path) not in taken


def test_the_clock_error_is_a_bound_or_unknown():
    error_ns = _native.clock_error_ns()
    assert error_ns is None or 0 <= error_ns < 3600 * 10**9
