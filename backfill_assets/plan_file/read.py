"""Reads a plan file: the plan that it asks for, or every problem of it with its line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.catalog import Catalog
from backfill_assets.plan_file.declared import PlanFile, PlanFileLimits
from backfill_assets.plan_file.document import Document, FileProblem, Place, read_document
from backfill_assets.text import suggest_or_list

_KINDS = {
    "string_type": "takes one value",
    "tuple_type": "takes a list",
    "list_type": "takes a list",
    "dict_type": "takes lines of `name: value`",
    "model_type": "takes lines of `name: value`",
    "model_attributes_type": "takes lines of `name: value`",
    "bool_type": "takes one value",
    "int_type": "takes one value",
    "enum": "takes one value",
}


class InvalidPlanFile(InvalidRequest):
    """A plan file cannot be read as a plan; ``problems`` has all that is wrong with it."""

    def __init__(self, path: str, problems: Collection[FileProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(each.shown(path) for each in self.problems))


def read_plan_file(catalog: Catalog, path: Path, shown: str | None = None) -> PlanFile:
    """Raises :class:`InvalidPlanFile` with all that is wrong; its messages name the file as ``shown``."""
    name = str(path) if shown is None else shown
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text in UTF-8"
        raise InvalidPlanFile(name, [FileProblem(f"The file cannot be read: {reason}.")]) from None
    document = read_document(text)
    if not document.values and document.problems:
        raise InvalidPlanFile(name, document.problems)
    found: PlanFile | None = None
    problems = [*document.problems, *_unknown_target(catalog, document)]
    try:
        found = PlanFile.model_validate(document.values)
    except ValidationError as error:
        problems += [_problem(each, document) for each in error.errors()]
    if problems or found is None:
        raise InvalidPlanFile(name, sorted(problems, key=lambda each: each.line or 0))
    return found


def _unknown_target(catalog: Catalog, document: Document) -> Iterator[FileProblem]:
    target = document.values.get("target")
    if isinstance(target, str) and target:
        try:
            catalog.table(target)
        except InvalidRequest as error:
            yield FileProblem(error.message, error.hint or "", document.line_of(("target",)))


def _problem(error: ErrorDetails, document: Document) -> FileProblem:
    place: Place = tuple(error["loc"])
    context: Mapping[str, Any] = error.get("ctx", {})
    if key := context.get("key"):
        place = (key,)
    line = document.line_of(place)
    name = _name(place)
    match error["type"]:
        case "extra_forbidden":
            known = PlanFileLimits.model_fields if place[0] == "limits" else PlanFile.model_fields
            return FileProblem(
                f"There is no key {place[-1]!r}.", suggest_or_list(str(place[-1]), list(known), "Keys"), line
            )
        case "missing":
            return FileProblem(f"The key {name} is missing.", f"Add a line `{name}: ...`.", line)
        case "refused":
            return FileProblem(
                f"{name}: {context['message']}" if name else context["message"], context["next_step"], line
            )
        case kind:
            return FileProblem(f"{name} {_KINDS.get(kind, error['msg'])}.", "", line)


def _name(place: Place) -> str:
    """``expectations 2``: the second item."""
    return " ".join(str(part + 1) if isinstance(part, int) else part for part in place)
