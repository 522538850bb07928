"""Live sales land at their rate in files that appear whole, with what their days need beside them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path

import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.sample.live_events import LiveSpec, live_events
from backfill_assets.examples.sample.live_landing import LiveLanding, land_references
from backfill_assets.examples.sample.real import land_real
from backfill_assets.landing.zone import LandingZone
from backfill_assets_tests.examples.sample.landed_lines import fingerprint, landed_lines

NOON = LiveSpec(seed=1, start=datetime(2026, 11, 23, 12, tzinfo=UTC), events_per_second=30)
TODAY = date(2026, 11, 23)


@dataclass
class Clock:
    """Time passes only while someone sleeps; at each sleep it may do something."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)
    at_sleep: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.at_sleep()


def live_lines(root: Path) -> list[str]:
    return [text for path, lines in landed_lines(root, "sales").items() if "live-2" in path for text in lines]


def test_a_file_lands_each_second_and_all_events_once(tmp_path: Path) -> None:
    clock, live = Clock(), LiveLanding(NOON, tmp_path)
    live.land_for(3.5, clock=clock, sleep=clock.sleep)
    assert (live.files, live.lines, clock.slept) == (4, 105, [1, 1, 1, 0.5])
    assert live_lines(tmp_path) == [event.text for event in islice(live_events(NOON), 105)]
    names = [file.path for file in LandingZone(tmp_path).files("sales", [TODAY])]
    assert names == [f"sales/{TODAY}/live-20261123T120000-1-{number:06d}.jsonl.gz" for number in (1, 2, 3, 4)]


def test_a_slow_second_is_made_up_for(tmp_path: Path) -> None:
    """The rate is that of the whole run."""
    clock, live = Clock(), LiveLanding(NOON, tmp_path)
    clock.at_sleep = lambda: setattr(clock, "now", clock.now + 2)
    live.land_for(10, clock=clock, sleep=clock.sleep)
    assert live.lines == 300


def test_after_midnight_they_land_on_the_next_day(tmp_path: Path) -> None:
    spec = LiveSpec(1, datetime(2026, 11, 23, 23, 59, 59, tzinfo=UTC), 30)
    clock, live = Clock(), LiveLanding(spec, tmp_path)
    live.land_for(2, clock=clock, sleep=clock.sleep)
    zone = LandingZone(tmp_path)
    assert [len(zone.files("sales", [day])) for day in DayRange.parse("2026-11-23..2026-11-24")] == [1, 1]
    assert len(zone.files("fx_rates", [date(2026, 11, 24)])) == 1


def test_interrupted_it_leaves_whole_files_and_knows_how_many(tmp_path: Path) -> None:
    clock, live = Clock(), LiveLanding(NOON, tmp_path)

    def interrupt_after_two_seconds() -> None:
        if clock.now > 102.5:
            raise KeyboardInterrupt

    clock.at_sleep = interrupt_after_two_seconds
    with pytest.raises(KeyboardInterrupt):
        live.land_for(None, clock=clock, sleep=clock.sleep)
    assert live.lines == len(live_lines(tmp_path)) == 60


def test_a_write_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveLanding(NOON, tmp_path)

    def interrupt(path: Path, target: Path) -> None:
        raise KeyboardInterrupt

    land_references(tmp_path, DayRange(NOON.first_day, TODAY))
    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        live.land(list(islice(live_events(NOON), 5)))
    assert (live.lines, live.files, list((tmp_path / "sales" / f"{TODAY}").iterdir())) == (0, 0, [])


def test_a_disk_that_takes_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    land_references(tmp_path, DayRange(NOON.first_day, TODAY))
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LakehouseUnusable, match="cannot be written: No space left"):
        LiveLanding(NOON, tmp_path).land(list(islice(live_events(NOON), 5)))


def test_each_day_has_rates_products_and_a_delivery_of_sales(tmp_path: Path) -> None:
    """A late sale needs all of them on its own day; and the rate may be of some days before."""
    land_references(tmp_path, DayRange(NOON.first_day, TODAY))
    zone = LandingZone(tmp_path)
    assert zone.days("sales") == tuple(DayRange.parse("2026-11-18..2026-11-22"))
    assert zone.days("products") == tuple(DayRange.parse("2026-11-18..2026-11-23"))
    assert zone.days("fx_rates") == tuple(DayRange.parse("2026-11-08..2026-11-23"))
    rates = landed_lines(tmp_path, "fx_rates")
    assert all(len(lines) > 20 for lines in rates.values())


def test_what_has_landed_is_left_alone(tmp_path: Path) -> None:
    """Also by another run of the same day; and real data can land after it."""
    days = DayRange.parse("2017-03-03..2017-03-06")
    land_references(tmp_path, days)
    before = fingerprint(tmp_path)
    land_references(tmp_path, days)
    assert fingerprint(tmp_path) == before
    weekend = gzip.decompress((tmp_path / "fx_rates/2017-03-04/fx_rates-2017-03-04.jsonl.gz").read_bytes())
    assert weekend == b""


@pytest.mark.data
def test_beside_real_sales_only_what_is_missing_lands(tmp_path: Path) -> None:
    land_real(DayRange.parse("2017-03-03..2017-03-04"), tmp_path)
    before = fingerprint(tmp_path)
    land_references(tmp_path, DayRange.parse("2017-03-03..2017-03-05"))
    added = fingerprint(tmp_path).keys() - before.keys()
    assert added == {
        "fx_rates/2017-03-05/fx_rates-2017-03-05.jsonl.gz",
        "products/2017-03-05/products-2017-03-05.jsonl.gz",
    }
    land_real(DayRange.parse("2017-03-03..2017-03-05"), tmp_path)
