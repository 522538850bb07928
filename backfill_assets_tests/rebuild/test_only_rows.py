"""What a day of which only some rows are computed is known by, and what it says that it is made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent, Expected
from backfill_assets.model.row_filter import RowFilter, read_filter
from backfill_assets.publish.pinned import Pin
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.only_rows import OnlyRows, wanted_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAY, TABLE = date(2017, 3, 1), "fact_daily_revenue"
STEP = CATALOG.step(TABLE)
NOW = InputFingerprint("now", "by v1 of what there is now")
HELD = DayContent(3, "7", "v1", inputs="then")


def rows(where: str = "store_id = 3") -> RowFilter:
    return read_filter(where, STEP.tables[0])


def test_a_day_says_what_its_other_rows_were_made_of() -> None:
    assert wanted_of(STEP, DAY, rows(), NOW, [HELD]).inputs == "then"
    assert wanted_of(STEP, DAY, rows(), replace(NOW, inputs="then"), [HELD]).inputs == "then"


def test_no_other_build_takes_it_for_its_own() -> None:
    """Not one of whole days, of other rows, of other inputs, nor over other rows that are carried over."""
    known = {
        wanted_of(STEP, DAY, rows(), NOW, [HELD]).input_fingerprint,
        wanted_of(STEP, DAY, rows("store_id = 4"), NOW, [HELD]).input_fingerprint,
        wanted_of(STEP, DAY, rows(), replace(NOW, input_fingerprint="later"), [HELD]).input_fingerprint,
        wanted_of(STEP, DAY, rows(), NOW, [replace(HELD, checksum="8")]).input_fingerprint,
        wanted_of(STEP, DAY, rows(), NOW, [replace(HELD, inputs="before")]).input_fingerprint,
        NOW.input_fingerprint,
        HELD.input_fingerprint,
    }
    assert len(known) == 7
    assert wanted_of(STEP, DAY, rows("store_id in ('3')"), NOW, [HELD]).input_fingerprint in known


def test_rows_that_are_not_known_are_not_carried_over() -> None:
    with pytest.raises(InvalidRequest, match="is not as published any more"):
        wanted_of(STEP, DAY, rows(), NOW, [HELD, None])


@pytest.mark.protocol
def test_rows_are_carried_over_from_the_files_of_the_pin(tmp_path: Path) -> None:
    lakehouse = SmallLakehouse(tmp_path)
    lakehouse.publish("before", {TABLE: {DAY: [1, 2]}})
    pin: Pin = lakehouse.publisher.pin({TABLE: [DAY]}, {})
    held = OnlyRows.of(lakehouse.storage, STEP, rows(), [DAY], pin).files[TABLE][DAY]
    assert tuple(file.path for file in held) == pin.expected[TableDay(TABLE, DAY)].files
    moved = replace(pin, expected={TableDay(TABLE, DAY): Expected(files=("another",))})
    with pytest.raises(PublicationRefused, match="published again while its rows were carried over"):
        OnlyRows.of(lakehouse.storage, STEP, rows(), [DAY], moved)
