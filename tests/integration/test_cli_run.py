"""`tailrace run`, `env`, `seal` as a user calls them: what is traced, what is said, and the exit codes."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tailrace
from support import sanitizer
from support.commands import TAILRACE


def test_a_command_is_traced_and_summed_up_in_one_line(tmp_path, cli, read_trace):
    source, target, run = tmp_path / "in", tmp_path / "out", tmp_path / "run"
    source.write_bytes(b"x" * 10_000)
    done = cli(
        "run", "-o", run, "--tag", "stage=copy", "--", "dd", f"if={source}", f"of={target}", "bs=1000", "status=none"
    )
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(
        rf"tailrace: [\d,]+ events of 1 process, \S+ \S+ read, \S+ \S+ written, nothing lost; {re.escape(str(run))}",
        line,
    )
    trace = read_trace(run)
    reads = [event["args"] for event in trace.of(source, {"read"})]
    assert sum(args["size"] for args in reads) == 10_000
    assert sum(event["args"]["size"] for event in trace.of(target, {"write"})) == 10_000
    assert {args["stage"] for args in reads} == {"copy"}
    described = json.loads((run / "run.json").read_text())
    assert described["command"][0] == "dd"
    assert described["tags"] == "stage=copy"


@pytest.mark.parametrize(
    ("code", "line", "outcome", "finding"),
    [
        (
            "exit 3",
            "exit code 3, ",
            "The command ended with exit code 3.",
            "The command ended with exit code 3; {files}",
        ),
        (
            "kill -9 $$",
            "exit code 137 (signal 9 (SIGKILL)), ",
            "The command was killed by signal 9 (SIGKILL).",
            "The command was killed by signal 9 (SIGKILL); {files}",
        ),
        (
            "sh -c 'echo x > {inner}; exit 5' || exit 4",
            "exit code 4, ",
            "The command ended with exit code 4.",
            "The command ended with exit code 4; SHELL ended with exit code 5; its last files: {inner}",
        ),
        (
            "sh -c 'echo x > {inner}; kill -SEGV $$'; true",
            "",
            "1 process was ended by signal 11 (SIGSEGV).",
            "SHELL was killed by signal 11 (SIGSEGV); its last files: {inner}",
        ),
    ],
)
def test_a_command_that_failed_is_the_first_news(tmp_path, cli, code, line, outcome, finding):
    run, file, inner = tmp_path / "run", tmp_path / "file", tmp_path / "inner"
    # The script goes on after the last program, so that it runs in a process of its own.
    done = cli("run", "-o", run, "--", "sh", "-c", f"echo x > {file}; {code.format(inner=inner)}")
    assert done.stderr.splitlines()[-1].startswith(f"tailrace: {line}"), done.stderr
    assert re.search(r"^ outcome +" + re.escape(outcome), cli("info", run).stdout, re.MULTILINE)
    assert cli("report", run).stdout.splitlines()[1] == outcome
    first = tailrace.open(run).findings()[0]
    title = re.sub(r"\S*sh \S+:\d+", "SHELL", first.title)
    assert title == finding.format(files=f"its last files: {file}", inner=inner)
    assert str(inner if "inner" in code else file) in cli(*shlex.split(first.query)[1:]).stdout


def test_a_command_that_succeeds_has_no_outcome(tmp_path, cli):
    cli("run", "-o", tmp_path / "run", "--", "sh", "-c", "yes | head -1; kill -0 $$")
    assert "outcome" not in cli("info", tmp_path / "run").stdout
    assert [found for found in tailrace.open(tmp_path / "run").findings() if found.about == "failure"] == []


def test_records_of_a_removed_run_stay_out_of_the_next_one(tmp_path, cli, read_trace):
    run, out = tmp_path / "run\x1b[31m", tmp_path / "out"
    words = ["-m", "tailrace.cli.main", "run", "-o", run, "--", "sh", "-c", f"echo $$ > {out}; exec sleep 100"]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL) as launcher:
        while not (out.exists() and out.read_text().endswith("\n")):
            time.sleep(0.05)
        pid = int(out.read_text())
        launcher.kill()
    os.kill(pid, signal.SIGKILL)
    while is_running(pid):
        time.sleep(0.05)
    shutil.rmtree(run)
    done = cli("run", "-o", run, "--", "true")
    dropped, summary = done.stderr.splitlines()
    assert "\x1b" not in done.stderr
    where = str(run).replace("\x1b", "\\x1b")
    assert dropped.endswith(f"dropped the unsealed events of a process of an earlier run in {where}, which was removed")
    assert " of 1 process, " in summary
    assert pid not in read_trace(run).processes
    # A further run in it keeps all there is.
    assert cli("run", "-q", "-o", run, "--", "true").stderr == ""
    assert len(read_trace(run).processes) == 2


def test_the_summary_counts_the_bytes(tmp_path, cli):
    done = cli("run", "-o", tmp_path / "run", "--", "dd", "if=/dev/zero", f"of={tmp_path / 'out'}", "bs=1M", "count=3")
    assert re.search(r"3\.0\d MiB read, 3\.0\d MiB written", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -KILL $$"], 128 + 9),
        (["no-such-command-anywhere"], 127),
        ([os.sep], 126),
    ],
)
def test_it_exits_as_the_command_did(tmp_path, cli, command, code):
    done = cli("run", "-o", tmp_path / "run", "--", *command)
    assert done.returncode == code
    if code in (126, 127):
        assert f"tailrace: {command[0]}: " in done.stderr


def test_options_behind_the_command_are_the_commands(tmp_path, cli):
    done = cli("run", "-o", tmp_path / "run", "echo", "-n", "--tag", "x")
    assert (done.returncode, done.stdout) == (0, "--tag x")


def test_the_streams_are_the_commands(tmp_path, cli):
    done = cli("run", "-q", "-o", tmp_path / "run", "--", "sh", "-c", "cat; echo err >&2", input="in")
    assert (done.returncode, done.stdout, done.stderr) == (0, "in", "err\n")


def test_without_a_directory_a_new_one_is_made_and_named(tmp_path, cli, read_trace):
    done = cli("run", "true", cwd=tmp_path)
    (run,) = (tmp_path / "tailrace-runs").iterdir()
    assert run.name.endswith("-true")
    assert done.stderr.rstrip().endswith(f"; {run}")
    assert read_trace(run).processes


def test_the_command_sees_no_settings_or_preload(tmp_path, cli):
    plain = subprocess.run(["env", "-u", sanitizer.HIDDEN], capture_output=True, text=True, check=True)
    traced = cli("run", "-q", "-o", tmp_path / "run", "env")
    added = set(traced.stdout.splitlines()) - set(plain.stdout.splitlines())
    assert [line for line in added if "TAILRACE" in line or "tailrace" in line] == []
    assert sorted(traced.stdout.splitlines()) == sorted(plain.stdout.splitlines())


def test_a_second_run_is_added_and_counted_alone(tmp_path, cli, read_trace):
    first = cli("run", "-o", tmp_path / "run", "cat", "/etc/hostname")
    second = cli("run", "-o", tmp_path / "run", "cat", "/etc/hostname")
    assert "of 1 process," in first.stderr
    assert "of 1 process," in second.stderr
    assert len(read_trace(tmp_path / "run").processes) == 2
    assert len(json.loads((tmp_path / "run" / "run.json").read_text())["restarts"]) == 1


def test_a_run_within_a_run_is_one_run(tmp_path, cli, read_trace):
    inner = [*TAILRACE, "run", "--tag", "stage=inner", "cat", "/etc/hostname"]
    done = cli("run", "-o", tmp_path / "run", "--tag", "workflow=w", "--", *inner, cwd=tmp_path)
    assert done.returncode == 0
    assert not (tmp_path / "tailrace-runs").exists()
    trace = read_trace(tmp_path / "run")
    cat = [event for event in trace.of("/etc/hostname", {"read"}) if event["args"].get("stage")]
    assert trace.tags(cat, "workflow", "stage") == {("w", "inner")}


def test_a_run_within_a_run_can_not_go_elsewhere(tmp_path, cli, read_trace):
    inner = [*TAILRACE, "run", "-o", str(tmp_path / "other"), "cat", "/etc/hostname"]
    done = cli("run", "-o", tmp_path / "run", "--", *inner)
    assert done.returncode == 0
    assert f"recording there, not in {tmp_path}/other" in done.stderr
    assert not (tmp_path / "other").exists()
    assert read_trace(tmp_path / "run").of("/etc/hostname", {"read"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--tag", "Stage=x", "true"], "Stage"),
        (["run", "--tag", "stage", "true"], "key=value"),
        (["run", "--tag", "stage=", "true"], "stage"),
        (["run"], "Missing argument"),
        (["run", "--no-such-option", "true"], "--no-such-option"),
        (["no-such-subcommand"], "no-such-subcommand"),
        (["env"], "--output"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(tmp_path, cli, arguments, said):
    done = cli(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("tailrace: ")
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_can_not_be_made_is_a_usage_error_and_nothing_runs(tmp_path, cli):
    (tmp_path / "file").write_text("")
    done = cli("run", "-o", tmp_path / "file" / "run", "touch", tmp_path / "ran")
    assert done.returncode == 2
    assert f"{tmp_path}/file/run" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_directory_with_other_files_is_unchanged(tmp_path, cli):
    (tmp_path / "thesis.tex").write_text("x")
    done = cli("run", "-o", tmp_path, "true")
    assert done.returncode == 2
    assert "neither empty nor a run directory" in done.stderr


@pytest.mark.parametrize("subcommand", ["seal", "info", "report"])
def test_a_directory_that_is_no_run_is_named(tmp_path, cli, subcommand):
    done = cli(subcommand, tmp_path)
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_to_the_command_and_nothing_is_lost(tmp_path, read_trace, number):
    run, ready, data = tmp_path / "run", tmp_path / "ready", tmp_path / "data"
    script = f"trap 'exit 42' {number.name[3:]}; echo kept > {data}; : > {ready}; while :; do sleep 0.05; done"
    command = [*TAILRACE, "run", "-o", str(run), "--", "sh", "-c", script]
    # The tests themselves may have been started with it ignored, in the background.
    process = subprocess.Popen(command, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    wait_for(ready)
    process.send_signal(number)
    assert process.wait(120) == 42
    assert read_trace(run).of(data, {"write"})


def test_records_of_a_killed_command_are_sealed(tmp_path, cli, read_trace):
    data = tmp_path / "data"
    done = cli("run", "-o", tmp_path / "run", "--", "sh", "-c", f"echo kept > {data}; kill -KILL $$")
    assert done.returncode == 137
    assert [event["args"]["size"] for event in read_trace(tmp_path / "run").of(data, {"write"})] == [5]


def test_a_command_continues_after_its_run_directory_is_removed(tmp_path, cli):
    run = tmp_path / "run"
    done = cli("run", "-o", run, "--", "sh", "-c", f"rm -rf {run}; echo done; exit 5")
    assert (done.returncode, done.stdout) == (5, "done\n")
    assert "tailrace: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_static_program_runs_and_is_reported_as_untraced(tmp_path, cli):
    (tmp_path / "static.c").write_text("int main(void) { return 6; }\n")
    subprocess.run(["cc", "-static", "-o", tmp_path / "static", tmp_path / "static.c"], check=True)
    done = cli("run", "-o", tmp_path / "run", tmp_path / "static")
    assert done.returncode == 6
    assert "statically linked" in done.stderr


def test_env_traces_the_command_started_with_it(tmp_path, cli, read_trace):
    run = tmp_path / "run"
    shell = cli("env", "-o", run, "--tag", "workflow=my work")
    assert shell.returncode == 0
    subprocess.run(["sh", "-c", f"{shell.stdout}\ncat /etc/hostname"], check=True, stdout=subprocess.DEVNULL)
    trace = read_trace(run)
    assert trace.tags(trace.of("/etc/hostname", {"read"}), "workflow") == {("my work",)}
    variables = json.loads(cli("env", "-o", run, "--format", "json").stdout)
    assert variables["TAILRACE_RUN"] == str(run)
    assert variables["LD_PRELOAD"].endswith("libtailrace.so")


def test_env_prints_the_chosen_settings(tmp_path, cli):
    chosen = {"TAILRACE_LAYERS": "none", "TAILRACE_BLOCK_AGE": "10"}
    printed = cli("env", "-o", tmp_path / "run", "--format", "json", env={**os.environ, **chosen})
    variables = json.loads(printed.stdout)
    assert variables["TAILRACE_LAYERS"] == "none"
    assert not {"TAILRACE_BLOCK_AGE", "TAILRACE_CLOCK", "TAILRACE_PROCESS"} & set(
        variables
    ), "a default, or a node's own"


def test_seal_recovers_records_of_a_killed_process(tmp_path, cli, read_trace):
    run, data = tmp_path / "run", tmp_path / "data"
    variables = json.loads(cli("env", "-o", run, "--format", "json").stdout)
    script = f"echo kept > {data}; kill -KILL $$"
    subprocess.run(["sh", "-c", script], env={**os.environ, **variables}, check=False)
    assert read_trace(run).of(data, {"write"}) == []
    done = cli("seal", run)
    assert done.returncode == 0
    assert done.stdout.startswith("1 journal sealed")
    assert len(read_trace(run).of(data, {"write"})) == 1
    assert cli("seal", run).stdout.startswith("0 journals sealed")


def test_output_into_a_closed_pipe_gives_no_traceback(tmp_path):
    """`tailrace ... | head -1`: no traceback."""
    command = f"{sys.executable} -m tailrace.cli.main --help | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage")
    assert done.stderr == ""


def test_version(cli):
    done = cli("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"tailrace, version \d+\.\d+\.\d+\n", done.stdout)


def is_running(pid):
    """Whether a process has not ended; whoever inherited it may never reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(path):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)
