"""An installation without the Flux plugins, as a wheel's, says so to whoever asks for tracing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tailrace import installation
from tailrace.cli import flux as command
from tailrace.errors import ManagerError
from tailrace.flux import jobspec, paths


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The parts of a wheel, and no plugins of another installation."""
    parts = [replace(p, path=tmp_path / p.name) if p.name in ("jobtap", "shell") else p for p in paths.PARTS]
    monkeypatch.setattr(paths, "PARTS", parts)
    monkeypatch.delenv("FLUX_SHELL_RC_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("words", [["--format", "shell"], ["--format", "toml"], ["jobtap"]])
def test_settings_that_lead_nowhere_are_not_printed(words: list[str]) -> None:
    done = CliRunner().invoke(command.paths, words)
    assert isinstance(done.exception, ManagerError)
    assert installation.FROM_SOURCE in str(done.exception) and not done.stdout


@pytest.mark.usefixtures("wheel")
def test_the_table_says_how_to_get_what_was_not_built() -> None:
    done = CliRunner().invoke(command.paths, [])
    assert done.exit_code == 0
    assert "not built" in done.stdout and installation.FROM_SOURCE in done.stderr


@pytest.mark.usefixtures("wheel")
def test_a_request_from_python_warns_without_a_plugin() -> None:
    with pytest.warns(UserWarning, match="will not be traced.*--no-binary"):
        jobspec.traced({})  # type: ignore[typeddict-item]
    jobspec.traced({}, trace=False)  # type: ignore[typeddict-item]


@pytest.mark.usefixtures("wheel")
def test_the_plugin_of_another_installation_is_found(tmp_path: Path) -> None:
    site, prefix = tmp_path / "site", tmp_path / "prefix"
    (site / "etc/shell").mkdir(parents=True)
    files = {
        "rc path": site / "lib/shell/tailrace-shell.so",
        "lib64": prefix / "lib64/flux/shell/plugins/tailrace-shell.so",
        "Debian": prefix / "lib/x86_64-linux-gnu/flux/shell/plugins/tailrace-shell.so",
    }
    program = prefix / "bin/flux"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    environment = {"PATH": str(program.parent), "FLUX_SHELL_RC_PATH": f"/nowhere:{site}/etc/shell"}
    assert paths.find_shell_plugin(environment) is None
    for file in files.values():
        file.parent.mkdir(parents=True)
        file.touch()
        found = paths.find_shell_plugin(environment)
        assert found is not None and found.samefile(file)
        file.unlink()
