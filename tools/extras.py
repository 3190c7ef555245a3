"""Prints what extras of the installed tailrace ask for, a requirement a line: python tools/extras.py dev docs"""

import sys
from importlib import metadata

from packaging.requirements import Requirement


def requirements(extras: list[str]) -> list[str]:
    """Of these extras, without what tailrace itself needs. Raises SystemExit for one that there isn't."""
    if unknown := set(extras) - set(metadata.metadata("tailrace").get_all("Provides-Extra") or ()):
        raise SystemExit(f"tools/extras.py: tailrace has no extra {', '.join(sorted(unknown))}: see pyproject.toml")
    found = []
    for one in map(Requirement, metadata.requires("tailrace") or ()):
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            continue
        if one.name != "tailrace" and any(one.marker.evaluate({"extra": extra}) for extra in extras):
            one.marker = None
            found.append(str(one))
    return found


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
