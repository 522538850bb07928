"""Control totals of a day's files, from its source: ``_control.json`` beside them, or ``_control_2017-03-01.json``.

``{"rows": 4025, "sums": {"sales_value": "12345.67"}}``, compared with the files, not with raw.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import ValidationError

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing.records import fields_of, records_of
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import declared_files
from backfill_assets.quality.deliveries import Totals

CONTROL = "_control.json"


def sent(zone: LandingZone, source: Source, day: date) -> Totals | None:
    """Returns None without a control file; raises :class:`SourceUnreadable`."""
    name = control_file(zone, source, day)
    try:
        return Totals.model_validate_json(zone.locate(name).read_bytes()) if name else None
    except (OSError, ValidationError) as error:
        raise SourceUnreadable(
            f"{name} cannot be read: {str(error).splitlines()[0]}.",
            hint='Write it like {"rows": 4025, "sums": {"sales_value": "12345.67"}}.',
        ) from error


def control_file(zone: LandingZone, source: Source, day: date) -> str:
    name = CONTROL.replace(".", f"_{day}.") if declared_files(source) else CONTROL
    names = (f"{folder}/{name}" for folder in zone.folders(source).get(day, ()))
    return next((name for name in names if (zone.root / name).exists()), "")


def landed(zone: LandingZone, source: Source, files: Iterable[str], fields: Collection[str]) -> Totals:
    """Text that is no number counts as 0; raises :class:`SourceUnreadable`."""
    rows, sums = 0, dict.fromkeys(fields, Decimal(0))
    for path in map(zone.locate, files):
        if not fields:
            rows += sum(map(len, records_of(source, path)))
            continue
        for _, values in fields_of(source, path):
            rows += 1
            for name, value in _numbers(values or {}, fields):
                sums[name] += value
    return Totals(rows=rows, sums=sums)


def _numbers(values: Mapping[str, Any], fields: Collection[str]) -> Iterator[tuple[str, Decimal]]:
    for name in fields:
        try:
            found = Decimal(str(values.get(name)))
        except InvalidOperation:
            continue
        if found.is_finite():
            yield name, found
