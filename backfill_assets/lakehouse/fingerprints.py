"""Fingerprints of days.

*Physical* (active files): compare-and-swap, foreign writes. *Logical* (row count and checksum): staleness, but not by
compactions and identical rebuilds. *Input*: code version, parameters and logical fingerprints of what a day reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from json.encoder import encode_basestring_ascii

EMPTY_DAY = "no files"

NEVER_PUBLISHED = "none"

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def physical(paths: Iterable[str]) -> str:
    """Paths only: Delta never rewrites a file."""
    ordered = sorted(paths)
    return _digest_of_text(f"[{','.join(map(encode_basestring_ascii, ordered))}]") if ordered else EMPTY_DAY


def logical(rows: int, checksum: int | str) -> str:
    return f"{rows}:{checksum}"


def foreign(physical_fingerprint: str) -> str:
    return f"foreign:{physical_fingerprint}"


def has_rows(logical_fingerprint: str) -> bool:
    """True also for a foreign write, where it is unknown."""
    return logical_fingerprint != NEVER_PUBLISHED and not logical_fingerprint.startswith("0:")


def inputs(logicals: Mapping[str, Mapping[date, str]]) -> str:
    return inputs_of(
        {table: [entry(day, found) for day, found in sorted(days.items())] for table, days in logicals.items()}
    )


def entry(day: date, logical_fingerprint: str) -> str:
    return f'"{day}":{encode_basestring_ascii(logical_fingerprint)}'


def inputs_of(entries: Mapping[str, Sequence[str]]) -> str:
    tables = (f"{encode_basestring_ascii(table)}:{{{','.join(days)}}}" for table, days in sorted(entries.items()))
    return _digest_of_text(f"{{{','.join(tables)}}}")


def input_fingerprint(code_version: str, parameters: str, inputs_fingerprint: str) -> str:
    return _digest([code_version, parameters, inputs_fingerprint])


def only_rows(input_fingerprint: str, chosen: str, carried_over: Sequence[str]) -> str:
    return _digest([input_fingerprint, chosen, *carried_over])


def _digest(value: object) -> str:
    return _digest_of_text(_ENCODER.encode(value))


def _digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
