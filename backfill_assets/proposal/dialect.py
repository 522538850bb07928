from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill_assets.errors import InvalidRequest
from backfill_assets.judge.engine import database
from backfill_assets.landing.csv_files import Csv

_AT_MOST = 20_480
_FIRST = 1_000
_NAME = re.compile(r"[^\W\d][\w .()/#%-]*")
_NOT_SAID = "(empty)"


@dataclass(frozen=True)
class Delimited:
    format: Csv
    given: Mapping[str, object]
    fields: tuple[str, ...]
    questions: tuple[str, ...]


def dialect_of(plain: Path, encoding: str) -> Delimited:
    """``plain`` is a UTF-8 copy. Raises :class:`InvalidRequest`."""
    said = _sniffed(plain)
    given: dict[str, Any] = {}
    if said["Delimiter"] != ",":
        given["delimiter"] = said["Delimiter"]
    quote, escape = (said[name].replace(_NOT_SAID, "") for name in ("Quote", "Escape"))
    if quote not in ("", '"'):
        given["quote"] = quote
    if escape not in ("", quote, '"'):
        given["escape"] = escape
    if said["SkipRows"]:
        raise InvalidRequest(
            f"The first {said['SkipRows']} lines of {plain.name} are no records.", hint="Land the file without them."
        )
    first = _first_records(plain, Csv(**given))
    if encoding != "utf-8":
        given["encoding"] = encoding
    if said["HasHeader"] or _is_header(first):
        return Delimited(Csv(**given), given, _names(first[0]), ())
    columns = tuple(f"column_{number}" for number in range(1, len(first[0]) + 1))
    given["columns"] = columns
    return Delimited(Csv(**given), given, columns, ("what are its columns called? The file has no header.",))


def _sniffed(plain: Path) -> Mapping[str, Any]:
    import duckdb

    with database(threads=1) as connection:
        try:
            found = connection.execute(f"FROM sniff_csv(?, sample_size={_AT_MOST})", [str(plain)])
            names = [each[0] for each in found.description or ()]
            return dict(zip(names, found.fetchone() or (), strict=True))
        except duckdb.Error as error:
            raise InvalidRequest(
                f"No dialect of CSV is found in {plain.name}.", hint=str(error).splitlines()[0]
            ) from error


def _first_records(plain: Path, format_: Csv) -> list[list[str]]:
    signs: dict[str, Any] = {"delimiter": format_.delimiter, "quotechar": format_.quote}
    signs |= {"escapechar": format_.escape or None, "doublequote": not format_.escape}
    with plain.open(encoding="utf-8-sig", newline="") as stream:
        found = [
            record
            for record, _ in zip((each for each in csv.reader(stream, **signs) if each), range(_FIRST), strict=False)
        ]
    if not found:
        raise InvalidRequest(f"{plain.name} has no record.", hint="Name a file that has some.")
    return found


def _is_header(records: list[list[str]]) -> bool:
    """If all is text, a header has names that do not occur below."""
    first, *others = records
    if not others or len({*first}) < len(first) or not all(map(_NAME.fullmatch, first)):
        return False
    return not any(value == name for each in others for value, name in zip(each, first, strict=False))


def _names(header: list[str]) -> tuple[str, ...]:
    if twice := [name for at, name in enumerate(header) if name in header[:at] or not name]:
        what = f"names {twice[0]!r} twice" if twice[0] else "has a column without a name"
        raise InvalidRequest(f"The header {what}.", hint="Land it with a header that names each column once.")
    return tuple(header)
