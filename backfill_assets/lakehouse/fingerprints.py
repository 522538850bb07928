"""Two fingerprints, never one for both: where a day's bytes are, and what its content is.

*Physical* (the active files) serves compare-and-swap and finds foreign writes. *Logical* (row count and checksum)
serves staleness, so that a compaction or an identical rebuild makes nothing downstream stale. The *input*
fingerprint of a day hashes code version, parameters and the logical fingerprints of all that it reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from json.encoder import encode_basestring_ascii

EMPTY_DAY = "no files"
"""Physical fingerprint of a day without files."""

NEVER_PUBLISHED = "none"
"""Logical fingerprint of an input day that was never published."""

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def physical(paths: Iterable[str]) -> str:
    """Fingerprint of a day's active files, by path: Delta never rewrites a file in place."""
    ordered = sorted(paths)
    return _digest_of_text(f"[{','.join(map(encode_basestring_ascii, ordered))}]") if ordered else EMPTY_DAY


def logical(rows: int, checksum: int | str) -> str:
    """Fingerprint of a day's content: how many rows, and the sum of their row hashes."""
    return f"{rows}:{checksum}"


def foreign(physical_fingerprint: str) -> str:
    """Replaces the logical fingerprint of a day with a foreign write, whose content is not known."""
    return f"foreign:{physical_fingerprint}"


def has_rows(logical_fingerprint: str) -> bool:
    """Whether a day holds any rows. Of a foreign write that is not known: it counts as a day with rows."""
    return logical_fingerprint != NEVER_PUBLISHED and not logical_fingerprint.startswith("0:")


def inputs(logicals: Mapping[str, Mapping[date, str]]) -> str:
    """Fingerprint of what a day was computed from: logical fingerprints by table and day."""
    return inputs_of(
        {table: [entry(day, found) for day, found in sorted(days.items())] for table, days in logicals.items()}
    )


def entry(day: date, logical_fingerprint: str) -> str:
    """One day in :func:`inputs_of`; the days of a table are given in order."""
    return f'"{day}":{encode_basestring_ascii(logical_fingerprint)}'


def inputs_of(entries: Mapping[str, Sequence[str]]) -> str:
    """:func:`inputs` from entries that many days share: years of days look back at the same ones."""
    tables = (f"{encode_basestring_ascii(table)}:{{{','.join(days)}}}" for table, days in sorted(entries.items()))
    return _digest_of_text(f"{{{','.join(tables)}}}")


def input_fingerprint(code_version: str, parameters: str, inputs_fingerprint: str) -> str:
    """The fingerprint that decides whether a day needs to be built again."""
    return _digest([code_version, parameters, inputs_fingerprint])


def _digest(value: object) -> str:
    return _digest_of_text(_ENCODER.encode(value))


def _digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
