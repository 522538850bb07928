"""Editors are given what the command takes: the schema is made of the model, and kept beside the docs."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill_assets.campaign.plan_file import PlanFile
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.limits import Limits
from backfill_assets.plan.records import Scope
from backfill_assets_tests.campaign.schema_page import PAGE, current_schema
from backfill_assets_tests.campaign.test_plan_file import WHOLE

EXAMPLES = sorted((Path(__file__).parents[2] / "backfills").glob("*.yaml"))
SCHEMA = json.loads(current_schema())
_TYPES: dict[str, Any] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def test_the_schema_beside_the_docs_is_that_of_the_model() -> None:
    """``make pins`` writes it."""
    assert PAGE.read_text() == current_schema()


def test_the_schema_has_every_key_scope_limit_and_table() -> None:
    found = SCHEMA
    assert found["properties"].keys() == PlanFile.model_fields.keys()
    assert found["$defs"]["Scope"]["enum"] == [scope.value for scope in Scope]
    assert found["$defs"]["PlanFileLimits"]["properties"].keys() == vars(Limits()).keys()
    assert found["properties"]["target"]["enum"] == sorted([table.name for table in CATALOG.tables])
    assert found["required"] == ["target", "days"] and not found["additionalProperties"]
    described = [*found["properties"].items(), *found["$defs"]["PlanFileLimits"]["properties"].items()]
    assert [name for name, each in described if name != "scope" and not each.get("description")] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_editors_accept_the_examples_and_find_them_by_their_first_line(path: Path) -> None:
    text = path.read_text()
    assert problems(as_editors_read(text), SCHEMA) == []
    first, named = text.splitlines()[0].split("=")
    assert first == "# yaml-language-server: $schema" and (path.parent / named).resolve() == PAGE


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("target: fact_sales_transactions", "target: facts"),
        ("days: 2017-03-01..2017-05-29", "days: March"),
        ("scope: downstream", "scope: all"),
        ("title: Rates", "titel: Rates"),
        ("force: true", "force: maybe"),
        ("waves: [5%, 100%]", "waves: [5, 100]"),
        ("waves: [5%, 100%]", "waves: 5%"),
        ("deviation: 2.0%", "deviation: 2"),
        ("seconds: 3600", "seconds: 5%"),
        ("gates: none", "gate: none"),
        ("approvals: 2", "approvals: 0"),
        ("- store-managers", "- https://chat.example.com/hook"),
    ],
)
def test_editors_refuse_what_the_command_refuses(was: str, now: str) -> None:
    """And accept the file that the command accepts."""
    assert problems(as_editors_read(WHOLE), SCHEMA) == []
    assert was in WHOLE and problems(as_editors_read(WHOLE.replace(was, now)), SCHEMA) != []


def as_editors_read(text: str) -> Any:
    """By YAML 1.2, which has no dates: they are text."""
    found = yaml.safe_load(text)
    return {key: str(value) if isinstance(value, date) else value for key, value in found.items()}


def problems(value: Any, part: dict[str, Any], whole: dict[str, Any] | None = None) -> list[str]:
    """What a validator of JSON Schema finds, by the words of it that the schema uses."""
    whole = whole or part
    if "$ref" in part:
        return problems(value, whole["$defs"][part["$ref"].rsplit("/", 1)[1]], whole)
    unknown = part.keys() - {"$schema", "$defs", "default", "description", "title", *_WORDS}
    assert not unknown, f"this validator has to learn {unknown}"
    return [each for word in _WORDS if word in part for each in _WORDS[word](value, part, whole)]


def _type(value: Any, part: dict[str, Any], _: dict[str, Any]) -> list[str]:
    kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
    fits = any(isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean") for kind in kinds)
    return [] if fits else [f"{value!r} is no {kinds}"]


def _properties(value: Any, part: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    known = part["properties"]
    return [found for key, each in _dict(value).items() if key in known for found in problems(each, known[key], whole)]


def _additional(value: Any, part: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    others = {key: each for key, each in _dict(value).items() if key not in part.get("properties", {})}
    rule = part["additionalProperties"]
    return (
        list(others) if rule is False else [found for each in others.values() for found in problems(each, rule, whole)]
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_WORDS: dict[str, Any] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": lambda value, part, whole: [
        found for each in (value if isinstance(value, list) else ()) for found in problems(each, part["items"], whole)
    ],
    "required": lambda value, part, _: [key for key in part["required"] if key not in value],
    "enum": lambda value, part, _: [] if value in part["enum"] else [f"{value!r} is none of {part['enum']}"],
    "pattern": lambda value, part, _: (
        [] if not isinstance(value, str) or re.search(part["pattern"], value) else [f"{value!r} does not match"]
    ),
    "minimum": lambda value, part, _: [] if not isinstance(value, int) or value >= part["minimum"] else ["too small"],
    "maximum": lambda value, part, _: [] if not isinstance(value, int) or value <= part["maximum"] else ["too large"],
}
