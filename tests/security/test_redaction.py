"""Passwords and tokens of command lines are in no file of a run."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.commands import TAILRACE, run_cli
from tailrace import _native

SECRET = "s3cr3t-d41d8c"


def redact(*words: str, mode: str = "secrets") -> list[str]:
    return [word.decode() for word in _native.redact([word.encode() for word in words], mode)]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--token=S"], ["--token=[redacted]"]),
        (["--token", "S", "in.csv"], ["--token", "[redacted]", "in.csv"]),
        (["-password", "S"], ["-password", "[redacted]"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["GITHUB_TOKEN=S"], ["GITHUB_TOKEN=[redacted]"]),
        (["--aws-secret-access-key=S"], ["--aws-secret-access-key=[redacted]"]),
        (["--apiKey=S", "--clientSecret", "S"], ["--apiKey=[redacted]", "--clientSecret", "[redacted]"]),
        (["spark.hadoop.fs.s3a.secret.key=S"], ["spark.hadoop.fs.s3a.secret.key=[redacted]"]),
        (["-H", "Authorization: Bearer S"], ["-H", "Authorization: [redacted]"]),
        (["-H", "X-Auth-Token:S"], ["-H", "X-Auth-Token:[redacted]"]),
        (["-d", '{"user": "a", "password": "S"}'], ["-d", '{"user": "a", "password": "[redacted]"}']),
        (["https://a:S@host:80/x?b=1"], ["https://a:[redacted]@host:80/x?b=1"]),
        (["https://S@host/x"], ["https://[redacted]@host/x"]),
        (["https://host/x?token=S&b=1"], ["https://host/x?token=[redacted]&b=1"]),
        (["-c", "curl -H 'Cookie: a=S; b=S' x"], ["-c", "curl -H 'Cookie: [redacted]' x"]),
        (["export DB_PASSWORD=S; a --token S -v"], ["export DB_PASSWORD=[redacted]; a --token [redacted] -v"]),
        (["-c", "password = 'S'"], ["-c", "password = '[redacted]'"]),
        (
            ["PGPASSWORD=S", "MYSQL_PWD=S", "DB_PASS=S"],
            [f"{n}=[redacted]" for n in ("PGPASSWORD", "MYSQL_PWD", "DB_PASS")],
        ),
        (["--private-key-data", "S", "token_value=S"], ["--private-key-data", "[redacted]", "token_value=[redacted]"]),
        (["https://h/x?X-Amz-Signature=S&sig=S"], ["https://h/x?X-Amz-Signature=[redacted]&sig=[redacted]"]),
        (['PASSWORD="a b S"', "password=a;S b"], ['PASSWORD="[redacted]"', "password=[redacted]"]),
        (["-c", "x --password 'a b S' y"], ["-c", "x --password '[redacted]' y"]),
        (["--token", "-Xk3S", "in.csv"], ["--token", "[redacted]", "in.csv"]),
        (["--token", "--Xk3S"], ["--token", "[redacted]"]),
        (["-c", "a --token -Xk3S -v"], ["-c", "a --token [redacted] -v"]),
        (["ftp://S@host/x", "ftps://S@host"], ["ftp://[redacted]@host/x", "ftps://[redacted]@host"]),
        (["git+https://S@host/x", "redis://:S@host"], ["git+https://[redacted]@host/x", "redis://:[redacted]@host"]),
        (
            ["AWS_SECRET_ACCESS_KEY=S", "AWS_SESSION_TOKEN=S"],
            [f"AWS_{n}=[redacted]" for n in ("SECRET_ACCESS_KEY", "SESSION_TOKEN")],
        ),
        (["curl", "-u", "a:S", "x"], ["curl", "-u", "a:[redacted]", "x"]),
        (["/usr/bin/curl", "-ua:S S", "-sSu", "a:S b"], ["/usr/bin/curl", "-ua:[redacted]", "-sSu", "a:[redacted]"]),
        (
            ["curl", "--user", "a:S", "--proxy-user=b:S"],
            ["curl", "--user", "a:[redacted]", "--proxy-user=b:[redacted]"],
        ),
        (["-c", "curl -u 'a:S' x; curl -L -u b:S y"], ["-c", "curl -u 'a:[redacted]' x; curl -L -u b:[redacted] y"]),
        (["sshpass", "-p", "S", "mysql", "-pS", "db"], ["sshpass", "-p", "[redacted]", "mysql", "-p[redacted]", "db"]),
        (["mysqldump", "-u", "root", "-p", "S"], ["mysqldump", "-u", "root", "-p", "[redacted]"]),
        (["-c", "x|(mysql -pS)&&true"], ["-c", "x|(mysql -p[redacted])&&true"]),
        (["docker", "login", "-u", "a", "-p", "S"], ["docker", "login", "-u", "a", "-p", "[redacted]"]),
        (["smbclient", "-U", "a%S"], ["smbclient", "-U", "a%[redacted]"]),
        (["x", "ghp_" + "S" * 36, "--as=glpat-" + "S" * 20], ["x", "[redacted]", "--as=[redacted]"]),
        (["-----BEGIN RSA PRIVATE KEY-----\nS\n"], ["[redacted]"]),
        (
            ["https://h/x?a=1&access_token=S#b", "https://h/?sv=1&sig=S"],
            ["https://h/x?a=1&access_token=[redacted]", "https://h/?sv=1&sig=[redacted]"],
        ),
    ],
)
def test_values_of_secret_names_are_redacted(words: list[str], kept: list[str]) -> None:
    assert redact("program", *words)[1:] == kept


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        ("a --token \\\n  S --password \\\n  S", "a --token \\\n  [redacted] --password \\\n  [redacted]"),
        ("curl -u \\\n a:S x; sshpass -p \\\n S y", "curl -u \\\n a:[redacted] x; sshpass -p \\\n [redacted] y"),
        ("a --token=S\\\nS y", "a --token=[redacted] y"),
        ("a --token=$(echo S) b", "a --token=[redacted] b"),
        ("a --token $(echo S $(cat 'S)')) b", "a --token [redacted] b"),
        ("a --token=`echo S` b; c", "a --token=[redacted] b; c"),
        ("a --token=${S:-S S} b", "a --token=[redacted] b"),
        ('a --token="$(echo "S")" b', 'a --token="[redacted]" b'),
        ("a --token=$(echo S", "a --token=[redacted]"),
        ("mysql -p$(cat S) db; curl -u a:$(cat S) x", "mysql -p[redacted] db; curl -u a:[redacted] x"),
        ('a --token=b"S S"S b', "a --token=[redacted] b"),
        ("a --token='S'S b", "a --token='[redacted] b"),
        ("a --token=S\\ S b", "a --token=[redacted] b"),
        ("sh -c 'a --token=S' b", "sh -c 'a --token=[redacted]' b"),
        ("sh -c 'a --token=' b", "sh -c 'a --token=' b"),
        ("don't --token='S S' b", "don't --token='[redacted]' b"),
        ("f(password='S', a=1, token=\"S\")", "f(password='[redacted]', a=1, token=\"[redacted]\")"),
        ('curl -d "{\\"token\\": \\"S\\", \\"a\\": 1}" x', 'curl -d "{\\"token\\": \\"[redacted]\\", \\"a\\": 1}" x'),
        ("scp a:S@host:/x . && x --url=b:S@host/y", "scp a:[redacted]@host:/x . && x --url=b:[redacted]@host/y"),
        (
            "curl https://a:S&S@host https://a:S@S@host/x@y",
            "curl https://a:[redacted]@host https://a:[redacted]@host/x@y",
        ),
    ],
)
def test_a_value_is_redacted_to_the_end_of_its_word_as_the_shell_reads_it(script: str, kept: str) -> None:
    assert redact("sh", "-c", script) == ["sh", "-c", kept]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["password", "=", "S", "a"], ["password", "=", "[redacted]", "a"]),
        (["password", "=S"], ["password", "=[redacted]"]),
        (["password=", "S"], ["password=", "[redacted]"]),
        (["token:", "S"], ["token:", "[redacted]"]),
        (["Authorization:", "Bearer", "S", "a"], ["Authorization:", "[redacted]", "[redacted]", "a"]),
        (["user:S@host", "-x", "a:S@[::1]:80"], ["user:[redacted]@host", "-x", "a:[redacted]@[::1]:80"]),
    ],
)
def test_a_value_in_words_of_its_own_is_redacted(words: list[str], kept: list[str]) -> None:
    assert redact("program", *words)[1:] == kept


@pytest.mark.parametrize("part", ["$(a ", "curl -u $(", '--token=a"$(b ', "a:=", "://", "`'", "'a ", '"$(', "-p`'\" "])
def test_a_text_of_begins_without_an_end_is_read_once(part: str) -> None:
    text = part.encode() * (4_000_000 // len(part))
    assert len(_native.redact([b"curl", text], "secrets")[1]) < 5 * len(text)


@pytest.mark.parametrize(
    "words",
    [
        ["--tokenizer=bert", "--max-tokens=100", "--token-file", "a.txt", "--password-stdin"],
        ["PWD=/home/a", "OLDPWD=/", "key=value", "--keys", "a,b", "--sort-key=name", "secretary=x"],
        ["/data/run:1/a=b", "http://host:80/a@b", "user@host:/path", "ssh://git@host/x", "a:b", "x", "", "--", "-"],
        ["token", "password", "s3://bucket/token/part-0"],
        ["--token", "-v", "--password", "--sha256", "--secret", "-j8", "--token", "--count=5", "--password", "-"],
        ["ssh", "-p", "22", "sshpass-host", "curl -o u:p", "abfss://container@account.net/x", "ssh://git@h/x"],
        ["mysql", "-p", "-h", "host", "-P", "3306", "docker", "run", "-p", "80:80", "tar", "-pxf", "a.tar"],
        ["-c", "mysql -h x; ssh -p 22 h | tar -p", "-p", "1", "curl -sS -u a x", "sk-learn", "hf_model", "ghp_x"],
        ["\udcff=\u00e9 \U0001f600"],
        ["img:tag@sha256:0a1b", "mailto:a@host", "host:/a@b", "pkg@1:2", "env", "DB_PASSWORD=", "prog", "a", "=", "b"],
    ],
)
def test_what_only_looks_like_a_secret_stays(words: list[str]) -> None:
    given = [os.fsencode(word) for word in ("program", *words)]
    assert _native.redact(given, "secrets") == given


def test_all_arguments_or_none() -> None:
    words = ["program", "--token=S", "in.csv"]
    assert redact(*words, mode="none") == words
    assert redact(*words, mode="arguments") == ["program", "[redacted]", "[redacted]"]
    assert redact(*words, mode="argument") == ["program", "[redacted]", "[redacted]"], "a mistyped value redacts most"
    assert redact(*words, mode="") == redact(*words)


def content(run: Path) -> bytes:
    """All bytes of a run's files, trace files unpacked."""
    found = b""
    for path in run.rglob("*"):
        if path.name.endswith(".gz"):
            found += subprocess.run(["gzip", "-dc", path], capture_output=True, check=True).stdout
        elif path.is_file():
            found += path.read_bytes()
    return found


@pytest.mark.parametrize(("mode", "kept"), [(None, False), ("arguments", False), ("none", True)])
def test_no_file_of_a_run_has_the_secret_of_its_command_line(tmp_path: Path, mode: str | None, kept: bool) -> None:
    run = tmp_path / "run"
    environment = {**os.environ, **({} if mode is None else {"TAILRACE_REDACT": mode})}
    script = f"/bin/echo --token={SECRET} plain-5f3a; env -i /bin/echo --password {SECRET} plain-5f3a"
    words = [*TAILRACE, "run", "-o", str(run), "--", "sh", "-c", script]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.count(SECRET) == 2, "the program itself gets it"
    assert run_cli("report", run, "--html", tmp_path / "page.html").returncode == 0
    everything = content(run) + (tmp_path / "page.html").read_bytes()
    assert (SECRET.encode() in everything) == kept
    assert (b"plain-5f3a" in everything) == (mode != "arguments")
    command = json.loads((run / "run.json").read_text())["command"]
    assert command[0] == "sh"
