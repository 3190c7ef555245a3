"""The writer of declared lines: complete lines, one file per process; counted losses that stop no workflow."""

import json
import logging
import os
import resource
import signal
import threading
import time
from datetime import datetime

import pytest

from tailrace.integrations import declared_log
from tailrace.integrations.declared_log import DeclaredLog, declared_line

END = {"workflow": "w", "task": "1", "t_end_ns": 5, "status": "done", "tries": 1}


def run_directory(tmp_path):
    (tmp_path / "declared").mkdir()
    return tmp_path


def test_a_line_has_what_it_must_and_nothing_that_is_unknown():
    assert json.loads(declared_line("end", **END, error=None)) == {"type": "end", **END}
    with pytest.raises(TypeError, match="needs tries"):
        declared_line("end", **{**END, "tries": None})


def test_lines_are_appended_to_one_file(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    assert log.path is None
    log.write("end", **END)
    log.close()
    log.write("end", **END)
    log.close()
    assert [json.loads(line)["task"] for line in log.path.read_text().splitlines()] == ["1", "1"]
    assert [log.path] == list((tmp_path / "declared").iterdir()) and log.path.name.startswith("m-")


def test_values_that_json_has_not_are_written_as_their_text(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    config = {"path": tmp_path, "huge": 2**70, "since": datetime(2026, 1, 2), 3: "\udcff"}
    for given in ({key: value} for key, value in config.items()):
        log.write("workflow", workflow="w", manager="m", version="1", t_ns=0, config=given)
    log.close()
    found = [json.loads(line)["config"] for line in log.path.read_bytes().splitlines()]
    assert found == [{"path": str(tmp_path)}, {"huge": 2**70}, {"since": "2026-01-02 00:00:00"}, {"3": "\udcff"}]


def test_a_line_is_asked_for_its_keys_when_it_is_written(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    awaited = ["1"]
    log.add_later("wait", lambda: {"workflow": "w", "task": "2", "awaited": awaited})
    awaited.append("3")
    log.close()
    assert json.loads(log.path.read_text())["awaited"] == ["1", "3"]


def test_a_removed_directory_is_reported_once(tmp_path, caplog):
    log = DeclaredLog(tmp_path / "gone", "m")
    with caplog.at_level(logging.WARNING):
        log.write("end", **END)
        log.write("end", **END)
        log.flush()
    assert log.lost == 2
    assert len(caplog.records) == 1 and "gone" in caplog.text and "the workflow continues" in caplog.text


def test_a_line_torn_by_a_full_disk_damages_no_other(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    log.write("end", **END)
    log.flush()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.path.stat().st_size + 10, limits[1]))
    try:
        log.write("end", **END)
        log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.lost == 1
    log.write("end", **{**END, "task": "3"})
    log.flush()
    first, torn, last = log.path.read_text().splitlines()
    assert len(torn) == 10 and [json.loads(line)["task"] for line in (first, last)] == ["1", "3"]


def test_what_fits_on_a_full_disk_is_kept_of_lines_written_at_once(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    log.write("end", **END)
    log.flush()
    size = log.path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * size + 10, limits[1]))
    try:
        for task in ("2", "3", "4", "5"):
            log.write("end", **{**END, "task": task})
        log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.write("end", **{**END, "task": "6"})
    log.close()
    lines = log.path.read_text().splitlines()
    assert len(lines[3]) == 10
    assert [json.loads(line)["task"] for line in (*lines[:3], *lines[4:])] == ["1", "2", "3", "6"]
    assert log.lost == 2


def test_lines_are_written_without_a_call_and_a_later_thread_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(declared_log, "_IDLE_S", 0.01)
    log = DeclaredLog(run_directory(tmp_path), "m")
    for count in (1, 2):
        log.write("end", **END)
        while log.path is None or len(log.path.read_text().splitlines()) < count or log._writer is not None:
            time.sleep(0.01)


def test_a_path_is_told_only_when_its_file_is_there(tmp_path, monkeypatch):
    log = DeclaredLog(run_directory(tmp_path), "m")
    seen = []

    def opened(path, *arguments):
        if str(path).startswith(str(tmp_path)):
            seen.append(log.path)
        return os_open(path, *arguments)

    os_open = os.open
    monkeypatch.setattr(declared_log.os, "open", opened)
    log.write("end", **END)
    log.close()
    assert seen == [None] and log.path.exists()


def test_lines_of_many_threads_are_whole_and_complete(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")

    def add(first):
        for task in range(first, first + 500):
            log.write("end", **{**END, "task": str(task)})

    threads = [threading.Thread(target=add, args=(500 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert sorted(int(json.loads(line)["task"]) for line in log.path.read_text().splitlines()) == list(range(2000))


def test_a_value_that_is_no_json_costs_its_line(tmp_path, caplog):
    log = DeclaredLog(run_directory(tmp_path), "m")
    endless = []
    endless.append(endless)
    log.write("end", **END, more=endless)
    log.write("end", **END)
    log.close()
    assert log.lost == 1 and len(log.path.read_text().splitlines()) == 1 and "continues" in caplog.text


def test_a_child_does_not_wait_for_a_lock_held_at_fork(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    log.write("end", **END)
    log.flush()
    locked, done = threading.Event(), threading.Event()

    def hold():
        with log._lock:
            locked.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    child = os.fork()
    if child == 0:
        log.write("end", **{**END, "task": "child"})
        log.flush()
        os._exit(0)
    done.set()
    holder.join()
    end = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            pytest.fail("the child waits for a lock that no thread holds")
        time.sleep(0.01)
    texts = {path.read_text() for path in (tmp_path / "declared").iterdir()}
    assert {json.loads(text)["task"] for text in texts} == {"1", "child"}
