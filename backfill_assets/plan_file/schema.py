"""The JSON Schema of a plan file, by which editors complete and check it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from backfill_assets.plan_file.declared import PlanFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(tables: Iterable[str]) -> dict[str, Any]:
    """Of a file that plans one of ``tables``. What a schema cannot say, such as the measures, the command checks."""
    found = _without_noise(PlanFile.model_json_schema())
    found["properties"]["target"]["enum"] = sorted(tables)
    return {"$schema": DIALECT, **found}


def _without_noise(part: Any) -> Any:
    """Names that only repeat the key, and defaults that are empty, would be offered as completions."""
    if isinstance(part, list):
        return [_without_noise(each) for each in part]
    if not isinstance(part, dict):
        return part
    empty = part.get("default") in ("", [], {})
    noise = {"title"} if isinstance(part.get("title"), str) else set()
    noise |= {"default"} if empty else set()
    return {name: _without_noise(each) for name, each in part.items() if name not in noise}


def schema_text(tables: Iterable[str]) -> str:
    return json.dumps(schema(tables), indent=2) + "\n"
