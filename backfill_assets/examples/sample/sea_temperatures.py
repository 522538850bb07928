"""19,226 real readings of a buoy off the coast of Maine, as the package ``bokeh-sampledata`` carries them."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from datetime import date, datetime, timedelta
from pathlib import Path

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.data_packages import packaged_file
from backfill_assets.examples.sample.landing_writer import LandedCounts, landing

ALL_DAYS = DayRange(date(2016, 2, 15), date(2017, 3, 22))
SENSOR = "B01"


def land(days: DayRange, root: Path) -> LandedCounts:
    """Land each day's readings on that day; days outside :data:`ALL_DAYS` raise :class:`InvalidRequest`."""
    if days.first not in ALL_DAYS or days.last not in ALL_DAYS:
        raise InvalidRequest(f"There are no readings for all of {days}.", hint=f"Choose days in {ALL_DAYS}.")
    lines = _lines_by_day()
    with landing(root) as writer:
        for day in days:
            writer.write("sea_temperatures", day, lines.get(day, []))
    return writer.counts


def _lines_by_day() -> dict[date, list[str]]:
    """A reading that the file has twice was corrected: the second one is sent a second later."""
    lines: defaultdict[date, list[str]] = defaultdict(list)
    seen: set[datetime] = set()
    for text, celsius in _readings():
        measured_at = datetime.fromisoformat(text)
        sent_at = measured_at + timedelta(seconds=measured_at in seen)
        seen.add(measured_at)
        lines[measured_at.date()].append(_line(text, celsius, f"{sent_at:%Y-%m-%dT%H:%M:%SZ}"))
    return lines


def _readings() -> list[list[str]]:
    packed = packaged_file("bokeh_sampledata", "_data", "sea_surface_temperature.csv.gz").read_bytes()
    return list(csv.reader(gzip.decompress(packed).decode().splitlines()))[1:]


def _line(measured_at: str, celsius: str, sent_at: str) -> str:
    values = {"sensor_id": SENSOR, "measured_at": measured_at, "celsius": celsius, "sent_at": sent_at}
    return json.dumps(values, separators=(",", ":"))
