"""Checks a configuration of the jobtap plugin without Flux: the plugin's own code judges it (check_policy.cc)."""

import importlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace import installation
from tailrace.errors import ManagerError, UsageError
from tailrace.flux.paths import MISSING

_PROGRAM = installation.PACKAGE / "flux" / "lib" / "check-policy"
_TIMEOUT_S = 60


@dataclass
class Checked:
    """settings: all in effect; jobs: for each jobspec its verdict (trace, leave, reject), and event or fault."""

    settings: dict[str, Any]
    jobs: list[dict[str, Any]]


def check(configuration: Mapping[str, Any], jobspecs: Sequence[Mapping[str, Any]] = ()) -> Checked:
    """What the plugin makes of a Flux configuration. Raises UsageError with the plugin's message; ManagerError without
    the plugins."""
    if not _PROGRAM.is_file():
        raise ManagerError(MISSING)
    asked = {
        "table": configuration.get("tailrace"),
        "load": _loaded_with(configuration),
        "library": str(installation.PACKAGE / "lib" / "libtailrace.so"),
        "jobs": list(jobspecs),
    }
    done = subprocess.run(
        [str(_PROGRAM)], input=json.dumps(asked).encode(), capture_output=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode:
        raise ManagerError(f"{_PROGRAM} failed: {done.stderr.decode(errors='replace').strip()}")
    answer = json.loads(done.stdout)
    if "fault" in answer:
        raise UsageError(str(answer["fault"]).removeprefix("tailrace: "))
    return Checked(answer["settings"], answer["jobs"])


def read_configuration(path: Path) -> dict[str, Any]:
    """A Flux configuration file, TOML or JSON. Raises UsageError, OSError."""
    text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text) if path.suffix == ".json" else _toml().loads(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path}: a configuration is a table")
    return found


def named_job(name: str, queue: str | None = None) -> dict[str, Any]:
    """A jobspec with what a policy looks at."""
    system: dict[str, Any] = {"job": {"name": name}}
    if queue is not None:
        system["queue"] = queue
    return {"tasks": [{"command": [name]}], "attributes": {"system": system}}


def _loaded_with(configuration: Mapping[str, Any]) -> Any:
    """`conf` of the plugin's entry in [[job-manager.plugins]]."""
    manager = configuration.get("job-manager")
    plugins = manager.get("plugins") if isinstance(manager, dict) else None
    for entry in plugins if isinstance(plugins, list) else []:
        if isinstance(entry, dict) and Path(str(entry.get("load"))).name == "tailrace-jobtap.so":
            return entry.get("conf")
    return None


def _toml() -> Any:
    for name in ("tomllib", "tomli"):
        with suppress(ImportError):
            return importlib.import_module(name)
    raise UsageError("Python before 3.11 can't read TOML: pip install tomli, or give a JSON file")
