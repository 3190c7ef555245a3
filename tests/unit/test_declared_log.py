"""The writer of declared lines: complete lines, one file per process; counted losses that stop no workflow."""

import json
import logging
import os
import resource
import signal
import threading
import time

import pytest

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
    assert [json.loads(line)["task"] for line in log.path.read_text().splitlines()] == ["1", "1"]
    assert [log.path] == list((tmp_path / "declared").iterdir()) and log.path.name.startswith("m-")


def test_a_removed_directory_is_reported_once(tmp_path, caplog):
    log = DeclaredLog(tmp_path / "gone", "m")
    with caplog.at_level(logging.WARNING):
        log.write("end", **END)
        log.write("end", **END)
    assert log.lost == 2
    assert len(caplog.records) == 1 and "gone" in caplog.text and "the workflow continues" in caplog.text


def test_a_line_torn_by_a_full_disk_damages_no_other(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    log.write("end", **END)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.path.stat().st_size + 10, limits[1]))
    try:
        log.write("end", **END)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.lost == 1
    log.write("end", **{**END, "task": "3"})
    first, torn, last = log.path.read_text().splitlines()
    assert len(torn) == 10 and [json.loads(line)["task"] for line in (first, last)] == ["1", "3"]


def test_a_child_does_not_wait_for_a_lock_held_at_fork(tmp_path):
    log = DeclaredLog(run_directory(tmp_path), "m")
    log.write("end", **END)
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
