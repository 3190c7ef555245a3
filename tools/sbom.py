"""The bill of materials of a release: a CycloneDX document of what its wheels have in them, and what they require.

Libraries of other projects that are in the portable wheels (packaging/wheels/bundled.toml) have their exact source: the
file of PyPI that carries it, with its SHA-256. Python's packages, which pip installs beside, have the versions that
pyproject.toml takes. The document is a function of the version, the commit and its time: two makes are equal.

    python tools/sbom.py > tailrace.cdx.json
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
BUNDLED = ROOT / "packaging" / "wheels" / "bundled.toml"
NAMESPACE = uuid.UUID("6f0d9b0e-7d0c-5f4c-9d53-5f1c6b1f7a1e")
"""Of serial numbers: any number that is always the same."""


@dataclass(frozen=True)
class Library:
    """A row of bundled.toml."""

    name: str
    version: str
    licence: str
    carrier: str
    inside: str
    sha256: str
    project: str
    files: list[str]


def bundled() -> list[Library]:
    """The libraries that are in the portable wheels."""
    return [Library(**row) for row in tomllib.loads(BUNDLED.read_text())["library"]]


def carrier_url(package: str) -> PackageURL:
    """Where a file of PyPI, `name==version`, is: in the words of package URLs."""
    name, version = package.split("==")
    return PackageURL(type="pypi", name=name, version=version)


def library_component(library: Library) -> Component:
    source = ExternalReference(
        type=ExternalReferenceType.SOURCE_DISTRIBUTION,
        url=XsUri(str(carrier_url(library.carrier))),
        comment=f"the file of PyPI that has this SHA-256; inside of it: {library.inside}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=library.sha256)],
    )
    return Component(
        type=ComponentType.LIBRARY,
        name=library.name,
        version=library.version,
        bom_ref=f"bundled:{library.name}",
        scope=ComponentScope.REQUIRED,
        licenses=[LicenseExpression(library.licence)],
        external_references=[source, ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(library.project))],
        properties=[Property(name="tailrace:file", value=file) for file in library.files],
    )


def requirement_component(requirement: str) -> Component:
    """A package that pip installs beside the wheel, which has the version that pip chooses."""
    found = re.match(r"([\w.-]+)", requirement)
    assert found is not None, requirement
    return Component(
        type=ComponentType.LIBRARY,
        name=found[1],
        bom_ref=f"requirement:{found[1]}",
        scope=ComponentScope.EXCLUDED,
        purl=PackageURL(type="pypi", name=found[1].lower()),
        properties=[Property(name="tailrace:requirement", value=requirement)],
    )


def document(version: str, commit: str, at: datetime.datetime) -> str:
    """The bill of materials as JSON, which CycloneDX's schema takes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = Component(
        type=ComponentType.APPLICATION,
        name=project["name"],
        version=version,
        bom_ref="tailrace",
        description=project["description"],
        licenses=[LicenseExpression(project["license"]["text"])],
        purl=PackageURL(type="pypi", name=project["name"], version=version),
        properties=[Property(name="tailrace:commit", value=commit)],
    )
    parts = [library_component(library) for library in bundled()]
    required = [requirement_component(requirement) for requirement in project["dependencies"]]
    bom = Bom(
        serial_number=uuid.uuid5(NAMESPACE, f"{version} {commit}"),
        metadata=BomMetaData(component=own, timestamp=at),
        components=[*parts, *required],
    )
    bom.register_dependency(own, [*parts, *required])
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    if (fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"the bill of materials is not CycloneDX 1.6: {fault}")
    return text


def commit_and_time() -> tuple[str, datetime.datetime]:
    """The commit that is checked out, and its time."""
    shown = subprocess.run(
        ["git", "-C", ROOT, "log", "-1", "--format=%H %ct"], check=True, capture_output=True, text=True
    ).stdout.split()
    return shown[0], datetime.datetime.fromtimestamp(int(shown[1]), datetime.timezone.utc)


if __name__ == "__main__":
    from release import version_of

    sys.stdout.write(document(version_of(ROOT), *commit_and_time()))
