"""The types of a contract's columns, from its annotations: pandera, which takes seconds to import, is not needed."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

from backfill_assets.model.contract import Contract, once

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@once
def declared_types(contract: type[Contract]) -> dict[str, str]:
    """The Spark type of each column, by the name that Spark has for it: ``decimal(6,3)``."""
    annotations = get_type_hints(contract, include_extras=True)
    return {name: _type_name(annotations[name]) for name in contract.fields()}


def _type_name(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        native, *arguments = get_args(annotation)
        return str(native(*arguments).simpleString())
    return str((annotation() if isinstance(annotation, type) else annotation).simpleString())
