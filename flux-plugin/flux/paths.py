"""Where the parts that Flux loads are installed, and the settings by which Flux finds them.

The wheels of a release lack the two plugins, which are built against a site's own flux-core. Whoever is asked for
tracing says so then: here for Python and `tailrace flux`, in etc/cli/plugins for `flux submit --trace`.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tailrace import installation

_HERE = installation.PACKAGE / "flux"
_SHELL_PLUGIN = "tailrace-shell.so"
MISSING = (
    "this tailrace was installed without its Flux plugins, which wheels lack: where flux-core's and jansson's headers"
    f" are, run {installation.FROM_SOURCE} (docs/flux.md)"
)
"""What to do without the plugins."""


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
    Part("shell", _HERE / "lib/shell" / _SHELL_PLUGIN, "puts the core into tasks; loaded by the job shell"),
    Part(
        "shellrc", _HERE / "etc/shell/tailrace.lua", "makes the job shell load the shell plugin", "FLUX_SHELL_RC_PATH"
    ),
    Part("cli", _HERE / "etc/cli/plugins/tailrace_trace.py", "flux submit --trace", "FLUX_CLI_PLUGINPATH"),
    Part(
        "modprobe", _HERE / "etc/modprobe", "traces inner instances, collects at their end", "FLUX_MODPROBE_PATH_APPEND"
    ),
)


def find_shell_plugin(environment: Mapping[str, str]) -> Path | None:
    """The plugin that would trace a job which is submitted with this environment: of this installation, of one that
    FLUX_SHELL_RC_PATH names, or in the prefix of the `flux` on PATH."""
    return next((path for path in _places(environment) if path.is_file()), None)


def _places(environment: Mapping[str, str]) -> Iterator[Path]:
    yield from (part.path for part in PARTS if part.name == "shell")
    for folder in filter(None, environment.get("FLUX_SHELL_RC_PATH", "").split(":")):
        yield Path(folder, "../../lib/shell", _SHELL_PLUGIN)
    flux = shutil.which("flux", path=environment.get("PATH"))
    for prefix in Path(flux).resolve().parents[1:2] if flux else ():
        for libraries in ("lib*", "lib/*"):
            yield from prefix.glob(f"{libraries}/flux/shell/plugins/{_SHELL_PLUGIN}")


def user_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Name -> value of the search paths: our folders, then those in `environment`."""
    out = {}
    for part in PARTS:
        if part.variable and part.installed:
            others = [entry for entry in environment.get(part.variable, "").split(":") if entry]
            ours = str(part.folder)
            out[part.variable] = ":".join([ours, *(entry for entry in others if entry != ours)])
    return out
