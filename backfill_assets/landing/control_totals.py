"""Control totals: ``_control.json`` beside the files of a day, in which the source says what it sent.

``{"rows": 4025, "sums": {"sales_value": "12345.67"}}``: the lines of all files of the day together, and sums of landed
fields. It is compared with the files themselves; that raw has all of their lines is for raw's own checks.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Collection, Iterable, Iterator
from datetime import date
from decimal import Decimal, InvalidOperation

from pydantic import ValidationError

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing.zone import LandingZone
from backfill_assets.quality.deliveries import Totals

CONTROL = "_control.json"


def sent(zone: LandingZone, source: str, day: date) -> Totals | None:
    """What ``source`` says that it sent on ``day``; None without a control file. Raises :class:`SourceUnreadable`."""
    name = _control_file(source, day)
    if not (zone.root / name).exists():
        return None
    try:
        return Totals.model_validate_json(zone.locate(name).read_bytes())
    except (OSError, ValidationError) as error:
        raise SourceUnreadable(
            f"{name} cannot be read: {str(error).splitlines()[0]}.",
            hint='Write it like {"rows": 4025, "sums": {"sales_value": "12345.67"}}.',
        ) from error


def newest(zone: LandingZone, source: str, day: date, files: Iterable[str]) -> int:
    """When the newest of ``files`` and of the control file of their ``day`` was written, in nanoseconds."""
    control = _control_file(source, day)
    there = [*files, *([control] if (zone.root / control).exists() else [])]
    return max((zone.locate(path).stat().st_mtime_ns for path in there), default=0)


def landed(zone: LandingZone, files: Iterable[str], fields: Collection[str]) -> Totals:
    """The lines of landed files, blank ones left out, and the sums of ``fields``; what is no number counts as 0.

    Raises :class:`SourceUnreadable` for a file that is damaged or gone.
    """
    rows, sums = 0, dict.fromkeys(fields, Decimal(0))
    for path in files:
        try:
            with gzip.open(zone.locate(path)) as lines:
                for line in filter(bytes.strip, lines):
                    rows += 1
                    for name, value in _numbers(line, fields) if fields else ():
                        sums[name] += value
        except (OSError, EOFError, zlib.error) as error:
            raise SourceUnreadable(f"{path} cannot be read: {error}.", hint="Land the whole file again.") from error
    return Totals(rows=rows, sums=sums)


def _control_file(source: str, day: date) -> str:
    return f"{source}/{day}/{CONTROL}"


def _numbers(line: bytes, fields: Collection[str]) -> Iterator[tuple[str, Decimal]]:
    try:
        values = json.loads(line, parse_float=str)
    except ValueError:
        return
    for name in fields if isinstance(values, dict) else ():
        try:
            found = Decimal(str(values.get(name)))
        except InvalidOperation:
            continue
        if found.is_finite():
            yield name, found
