"""Control totals: ``_control.json`` beside the files of a day, in which the source says what it sent.

``{"rows": 4025, "sums": {"sales_value": "12345.67"}}``: the lines of all files of the day together, and sums of landed
fields. It is compared with the files themselves; that raw has all of their lines is for raw's own checks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import date
from decimal import Decimal, InvalidOperation

from pydantic import ValidationError

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing.line_reader import lines_of
from backfill_assets.landing.zone import LandingZone
from backfill_assets.quality.deliveries import Totals

CONTROL = "_control.json"


def sent(zone: LandingZone, source: str, day: date) -> Totals | None:
    """What ``source`` says that it sent on ``day``; None without a control file. Raises :class:`SourceUnreadable`."""
    name = control_file(zone, source, day)
    try:
        return Totals.model_validate_json(zone.locate(name).read_bytes()) if name else None
    except (OSError, ValidationError) as error:
        raise SourceUnreadable(
            f"{name} cannot be read: {str(error).splitlines()[0]}.",
            hint='Write it like {"rows": 4025, "sums": {"sales_value": "12345.67"}}.',
        ) from error


def control_file(zone: LandingZone, source: str, day: date) -> str:
    """The path of the control file of ``day``; empty while there is none."""
    name = f"{source}/{day}/{CONTROL}"
    return name if (zone.root / name).exists() else ""


def landed(zone: LandingZone, files: Iterable[str], fields: Collection[str]) -> Totals:
    """The lines of landed files, blank ones left out, and the sums of ``fields``; what is no number counts as 0.

    Raises :class:`SourceUnreadable` for a file that is damaged or gone.
    """
    rows, sums = 0, dict.fromkeys(fields, Decimal(0))
    for batch in (batch for path in files for batch in lines_of(zone.locate(path), path, date.min)):
        rows += len(batch)
        for line in batch["value"].to_pylist() if fields else ():
            for name, value in _numbers(line, fields):
                sums[name] += value
    return Totals(rows=rows, sums=sums)


def _numbers(line: str, fields: Collection[str]) -> Iterator[tuple[str, Decimal]]:
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
