"""Where the parts that Flux loads are installed, and the settings by which Flux finds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tailrace import installation

_HERE = installation.PACKAGE / "flux"


@dataclass(frozen=True)
class Part:
    """A part that Flux loads. variable: the search path that a user extends by `folder`, or ""."""

    name: str
    path: Path
    what: str
    variable: str = ""

    @property
    def installed(self) -> bool:
        """Whether it is installed: the C++ parts are built only where CMake finds Flux."""
        return self.path.exists()

    @property
    def folder(self) -> Path:
        """The folder for `variable`."""
        return self.path if self.path.suffix == "" else self.path.parent


PARTS = (
    Part("jobtap", _HERE / "lib/jobtap/tailrace-jobtap.so", "decides which jobs are traced; loaded by the job manager"),
    Part("shell", _HERE / "lib/shell/tailrace-shell.so", "puts the core into tasks; loaded by the job shell"),
    Part(
        "shellrc", _HERE / "etc/shell/tailrace.lua", "makes the job shell load the shell plugin", "FLUX_SHELL_RC_PATH"
    ),
    Part("cli", _HERE / "etc/cli/plugins/tailrace_trace.py", "flux submit --trace", "FLUX_CLI_PLUGINPATH"),
    Part(
        "modprobe", _HERE / "etc/modprobe", "traces inner instances, collects at their end", "FLUX_MODPROBE_PATH_APPEND"
    ),
)


def user_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Name -> value of the search paths: our folders, then those in `environment`."""
    out = {}
    for part in PARTS:
        if part.variable and part.installed:
            others = [entry for entry in environment.get(part.variable, "").split(":") if entry]
            ours = str(part.folder)
            out[part.variable] = ":".join([ours, *(entry for entry in others if entry != ours)])
    return out
