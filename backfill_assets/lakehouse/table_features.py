"""Which settings and features of a Delta table a publication cannot write, or would write wrongly.

A publication commits files that exist already, with delta-rs. What delta-rs refuses was tried feature by feature; what
it accepts without carrying it out (constraints, generated values, mapped columns) would leave wrong rows in the table.
See https://github.com/delta-io/delta/blob/master/PROTOCOL.md#table-features.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

_WRITTEN = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
        "variantType-preview",
    }
)
"""Features with which delta-rs commits. Of some of them only as long as no column and no property uses them."""
_IDENTITY_WRITER = 6
_FEATURES_WRITER = 7
_CONSTRAINT = "delta.constraints."
_COLUMN_KEYS = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated value",
    "delta.identity.start": "an identity value",
    "CURRENT_DEFAULT": "a default value",
}


def write_problems(
    writer_version: int,
    writer_features: Collection[str] | None,
    properties: Mapping[str, str | None],
    schema: Mapping[str, Any],
    *,
    removes: bool,
) -> list[str]:
    """Why no publication can be committed to such a table, each with what to do; empty if it can.

    ``removes`` says whether the publication takes files out of the table. ``schema`` is Delta's JSON, parsed.
    """
    return [
        *_feature_problems(writer_version, writer_features or ()),
        *_property_problems({key: (value or "").lower() for key, value in properties.items()}, removes=removes),
        *_column_problems(schema),
    ]


def _feature_problems(writer_version: int, features: Collection[str]) -> Iterator[str]:
    if writer_version == _IDENTITY_WRITER or writer_version > _FEATURES_WRITER:
        yield (
            f"it demands Delta writer version {writer_version}, which delta-rs does not write (create the table again "
            "without identity columns)"
        )
    for feature in sorted(set(features) - _WRITTEN):
        yield (
            f"it has the writer feature {feature}, which delta-rs does not write (ALTER TABLE ... DROP FEATURE "
            f"{feature})"
        )


def _property_problems(properties: Mapping[str, str], *, removes: bool) -> Iterator[str]:
    if removes and properties.get("delta.appendOnly") == "true":
        yield "delta.appendOnly=true forbids to replace or compact days (ALTER TABLE ... SET it to false)"
    if properties.get("delta.columnMapping.mode", "none") != "none":
        yield "delta.columnMapping.mode renames the columns in its files (create the table again without it)"
    if properties.get("delta.checkpointPolicy", "classic") != "classic":
        yield "delta.checkpointPolicy=v2 writes checkpoints that are not read here (ALTER TABLE ... SET it to classic)"
    if properties.get("delta.checkpoint.writeStatsAsJson") == "false":
        yield "delta.checkpoint.writeStatsAsJson=false drops the row counts of its files (ALTER TABLE ... UNSET it)"
    if "delta.setTransactionRetentionDuration" in properties:
        yield (
            "delta.setTransactionRetentionDuration forgets which files were taken in, so they would count twice"
            " (ALTER TABLE ... UNSET it)"
        )
    for name in sorted(key.removeprefix(_CONSTRAINT) for key in properties if key.startswith(_CONSTRAINT)):
        yield (
            f"its constraint {name} is not checked by a publication (declare it as a gate, and ALTER TABLE ... DROP "
            f"CONSTRAINT {name})"
        )


def _column_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    for field in schema["fields"]:
        for key, what in _COLUMN_KEYS.items():
            if key in (field.get("metadata") or {}):
                yield f"its column {field['name']} has {what}, which a publication does not carry out (drop it)"
