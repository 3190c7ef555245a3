"""The C API for plugins of managers: a launcher in C, compiled against the installed header and library."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from tailrace import installation

LAUNCHER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tailrace/plugin.h>
#include <unistd.h>

static void set(void *data, const char *name, const char *value) {
  (void)data;
  setenv(name, value, 1);
}

static int task(const tailrace_run *run, const char *name, const char *command) {
  static char *const base[] = {"PATH=/usr/bin:/bin", "TAILRACE_TAGS=zone=z", NULL};
  char text[8192], message[512];
  tailrace_tag tags[] = {{"workflow", "w"}, {"stage", "st"},   {"task", name},
                         {"try", "0"},      {"empty", "\n"}, {"none", NULL}};
  if (tailrace_encode_tags(tags, 6, text, sizeof text) < 0) return 90;
  pid_t child = fork();
  if (child == 0) {
    clearenv();
    for (char *const *entry = base; *entry; entry++) putenv(*entry);
    const char *const *given = (const char *const *)base;
    if (tailrace_run_environment(run, text, given, set, NULL, message, sizeof message) != 0) _exit(91);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  int status;
  return waitpid(child, &status, 0) == child ? status : 92;
}

int main(int argc, char **argv) {
  char message[512], text[16];
  tailrace_tag wrong = {"Bad", "x"}, longer = {"task", "123456789012345"};
  printf("%d ", tailrace_encode_tags(&wrong, 1, text, sizeof text));
  printf("%d\n", tailrace_encode_tags(&longer, 1, text, sizeof text));
  if (tailrace_run_open(argv[2], "", message, sizeof message) != NULL) return 1;
  puts(message);
  tailrace_run *run = tailrace_run_open(argv[1], "", message, sizeof message);
  if (run == NULL) return puts(message), 2;
  const char *line = "{\"type\":\"task\",\"workflow\":\"w\",\"stage\":\"st\",\"task\":\"a b\",\"kind\":\"job\","
                     "\"name\":\"a\",\"deps\":[],\"inputs\":[],\"outputs\":[]}";
  if (tailrace_run_declare(run, "clauncher", line, message, sizeof message) != 0) return puts(message), 3;
  const char *wrong_names[] = {"", "a manager", "../../elsewhere"}, *wrong_lines[] = {"", "{}\n{}", "no object"};
  for (int i = 0; i < 3; i++) {
    if (tailrace_run_declare(run, wrong_names[i], line, message, sizeof message) != -1) return 5;
    if (strstr(message, "no word of letters and digits") == NULL) return puts(message), 6;
    if (tailrace_run_declare(run, "clauncher", wrong_lines[i], message, sizeof message) != -1) return 7;
    if (strstr(message, "no JSON object without newlines") == NULL) return puts(message), 8;
  }
  int first = task(run, "a b", "echo 1 > one; sort one > two");
  int second = task(run, "c\"d:\xff", "echo 2 > three; kill -9 $$");
  printf("%d %d %s\n", WEXITSTATUS(first), WTERMSIG(second), tailrace_run_directory_of(run));
  if (tailrace_run_finish(run, message, sizeof message) != 0) return puts(message), 4;
  return argc != 3 || getenv("LD_PRELOAD") != NULL;
}
"""


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler as cc")
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "launcher.c").write_text(LAUNCHER)
    library = installation.PACKAGE / "lib"
    words = ["-Wall", "-Werror", "-std=gnu11", f"-I{installation.PACKAGE / 'include'}", f"-L{library}"]
    link = ["launcher.c", "-o", "launcher", "-ltailrace-plugin", f"-Wl,-rpath,{library}"]
    subprocess.run([compiler, *words, *link], cwd=folder, check=True)
    return folder / "launcher"


def test_a_launcher_in_c_traces_its_tasks(launcher: Path, tmp_path: Path, read_trace, declared) -> None:
    (tmp_path / "file").touch()
    run, unusable = tmp_path / "run", tmp_path / "file" / "run"
    done = subprocess.run([launcher, run, unusable], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    refused, why, told = done.stdout.splitlines()
    assert (refused, told, done.stderr) == ("-1 -1", f"0 9 {run.resolve()}", "")
    assert "can't use" in why and str(unusable) in why
    trace = read_trace(run)
    keys = ("workflow", "stage", "task", "tag.try", "tag.zone", "tag.empty")
    found = {
        name: trace.tags(trace.of(tmp_path / name, {"write", "fwrite"}), *keys) for name in ("one", "two", "three")
    }
    first = ("w", "st", "a b", "0", "z", None)
    assert found == {"one": {first}, "two": {first}, "three": {("w", "st", 'c"d:', "0", "z", None)}}
    (line,) = declared(run)
    assert line["task"] == "a b"
    opened = tailrace.open(run)
    assert opened.losses.empty and opened.declared_problems.empty
    assert json.loads((run / "run.json").read_text())["command"] == [str(launcher)]


def test_a_launcher_in_c_opens_no_run_where_names_are_to_be_hashed(launcher: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TAILRACE_REDACT": "paths"}
    words = [launcher, tmp_path / "run", tmp_path / "other"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout.count("can't hash names") == 2
    assert list(tmp_path.iterdir()) == []


def test_the_library_brings_its_runtime_and_shows_its_functions_only() -> None:
    library = installation.PACKAGE / "lib" / "libtailrace-plugin.so"
    words = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    header = (installation.PACKAGE / "include/tailrace/plugin.h").read_text()
    names = {line.split()[-1].split("@")[0] for line in words.splitlines()}
    # The command is another part of the same installation (core/launcher/command_line.h).
    assert names - {"tailrace_command_line"} == set(re.findall(r"\b(tailrace_\w+)\(", header))
    assert "tailrace_run_open" in names
    needed = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" not in needed and sys.platform == "linux"
