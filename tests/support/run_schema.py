"""run.json against its JSON Schema (core/python/tailrace/schemas/run.schema.json), for the tests of both writers."""

import json
from importlib.resources import files
from typing import Any


def schema() -> dict[str, Any]:
    """The schema, as installed."""
    text = files("tailrace").joinpath("schemas/run.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def faults(run: Any) -> list[str]:
    """What in `run` breaks the schema, or is a key that it lacks: a writer may not add one without describing it."""
    import jsonschema

    root = schema()
    validator = jsonschema.Draft202012Validator(root)
    found = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(run)]
    return [*found, *_unknown_keys(run, root, root, "$")]


def _unknown_keys(value: Any, node: dict[str, Any], root: dict[str, Any], place: str) -> list[str]:
    node = _resolved(node, root)
    if isinstance(value, list):
        items = node.get("items", {})
        return [fault for i, one in enumerate(value) for fault in _unknown_keys(one, items, root, f"{place}[{i}]")]
    if not isinstance(value, dict):
        return []
    properties = dict(node.get("properties", {}))
    for part in node.get("allOf", []):
        properties |= _resolved(part, root)["properties"]
    out = [f"{place}: the schema lacks {key!r}" for key in value if key not in properties]
    for key in value.keys() & properties.keys():
        out += _unknown_keys(value[key], properties[key], root, f"{place}.{key}")
    return out


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = root["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    return found
