"""A source of many columns: its fields, and its two tables as one would write them in Spark SQL, by field.

``{raw}`` stands for the table that is read, ``{days}`` for a condition on ``day``.
"""

from __future__ import annotations

from benchmarks.backfill.contenders.tables import bronze_of, quarantine_of

KEY, MOMENT, VERSION = "reading_id", "measured_at", "sent_at"
COLUMNS = 40
"""Besides the key."""
NAME = f"wide_{COLUMNS}"
RAW, BRONZE_TABLE, QUARANTINE_TABLE = f"raw_{NAME}", f"bronze_{NAME}", f"quarantine_{NAME}"
_TYPES = ("bigint", "decimal(12,2)", "timestamp", "date", "string")
_SOUND = {
    "bigint": "{value} BETWEEN 0 AND 1000000000",
    "decimal(12,2)": "{value} >= 0",
    "timestamp": "{value} IS NOT NULL",
    "date": "{value} IS NOT NULL",
    "string": "length({value}) > 0",
}


def fields_of(columns: int) -> dict[str, str]:
    """The key and ``columns`` other fields, with the types that their texts stand for."""
    generated = {f"field_{n}": _TYPES[n % len(_TYPES)] for n in range(columns - 2)}
    return {KEY: "string", MOMENT: "timestamp", VERSION: "timestamp", **generated}


def may_be_null(place: int) -> bool:
    """Whether the field at ``place`` may be missing: every other one after the first three."""
    return place > 2 and place % 2 == 0


FIELDS = fields_of(COLUMNS)
NUMBERS = tuple(name for name, kind in FIELDS.items() if kind.startswith(("bigint", "decimal")))


def typed(timestamp: str = "timestamp") -> str:
    """The sound rows with typed values; ``timestamp`` is what an engine calls the type of a moment."""
    values = ", ".join(f"{_value(name, timestamp)} AS {name}" for name in FIELDS)
    sound = " AND ".join(f"NOT ({condition})" for condition in _wrong(timestamp).values())
    return f"""
    SELECT {values}, content_hash, source_file, source_line, arrival_day, day
    FROM {{raw}} WHERE {{days}} AND unparsed_line IS NULL AND NOT day_is_arrival AND {sound}
"""  # noqa: S608 our own words


def _value(name: str, timestamp: str) -> str:
    kind = FIELDS[name].replace("timestamp", timestamp)
    return name if kind == "string" else f"try_cast({name} AS {kind})"


def _wrong(timestamp: str = "timestamp") -> dict[str, str]:
    """By reason, what is wrong with a field: null only counts where it must not be."""
    found = {}
    for place, (name, kind) in enumerate(FIELDS.items()):
        sound = _SOUND[kind].format(value=_value(name, timestamp))
        rest = f"{name} IS NULL" if may_be_null(place) else "false"
        if kind in ("timestamp", "date"):  # not null is never unknown
            sound, rest = f"({sound} OR {rest})", "false"
        found[f"{name}: is no {kind}"] = f"NOT coalesce({sound}, {rest})"
    return found


_NOT_A_ROW = {"line: is not one JSON object": "unparsed_line IS NOT NULL", "no plausible day": "day_is_arrival"}
BRONZE = bronze_of(typed(), "true", ", ".join(FIELDS), KEY, VERSION)
QUARANTINE = quarantine_of(", ".join(FIELDS), {**_NOT_A_ROW, **_wrong()})
TABLES = {BRONZE_TABLE: BRONZE, QUARANTINE_TABLE: QUARANTINE}
