"""Looks at a table of others that delta-rs writes: two at once, one that dies, tables made anew, logs cleaned up."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.external.files import FILES, VERSION
from backfill_assets.external.observe import (
    At,
    Observed,
    look_at,
    observe_tables,
    observed_at,
    require_observed,
)
from backfill_assets.lakehouse.records import DayContent, content_in
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.publish.crash_points import CrashPoint, Reached, nowhere
from backfill_assets.publish.publisher import Publisher
from backfill_assets_tests.death import Died
from backfill_assets_tests.external.hand_written import HandWritten, add, column, remove
from backfill_assets_tests.protocol.lake import dying_at

pytestmark = pytest.mark.protocol

DAYS = DayRange(date(2025, 1, 1), date(2025, 1, 4))
D1, D2, D3, D4 = DAYS


class Order(Contract):
    """An order of others."""

    order_id: int = Field()


@dataclass
class Others:
    """Their table, and our lakehouse beside it."""

    home: Path
    orders: ExternalTable = field(init=False)

    def __post_init__(self) -> None:
        self.orders = ExternalTable("orders", Order, location=str(self.home / "orders"), day="order_date")

    def write(self, *days: date, mode: Literal["append", "overwrite", "error"] = "append", id: int = 1) -> None:
        rows = pa.table({"order_id": pa.array([id] * len(days), pa.int64()), "order_date": pa.array(days, pa.date32())})
        write_deltalake(self.orders.location, rows, mode=mode, partition_by=["order_date"])

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.orders.location)

    def publisher(self, reached: Reached = nowhere) -> Publisher:
        return Publisher(Storage(str(self.home / "ours")), reached=reached)

    def look(self, reached: Reached = nowhere) -> Observed:
        (found,) = observe_tables(self.publisher(reached), [(self.orders, D1)])
        return found

    def days(self) -> dict[date, DayContent]:
        """What is known of each day."""
        log = self.publisher().log
        states = log.day_states(log.head(), {"orders"})
        return {day: found for _, day in states if (found := content_in(states, TableDay("orders", day)))}

    def at(self) -> At | None:
        log = self.publisher().log
        return observed_at(log.storage, self.orders, log.head().state.versions.get("orders"))

    def files(self) -> dict[date, int | str | None]:
        return {day: content.metrics[FILES] for day, content in self.days().items()}


@pytest.fixture
def others(tmp_path: Path) -> Others:
    found = Others(tmp_path)
    found.write(D1, D2, D2, D4, mode="error")
    return found


def changed(observed: Observed) -> Iterable[date]:
    return list(observed.changed)


def test_the_first_look_finds_all_days_and_the_next_one_nothing(others: Others) -> None:
    assert changed(first := others.look()) == [D1, D2, D3, D4]
    assert (first.version, bool(first.publication)) == (0, True)
    assert others.files() == {D1: 1, D2: 1, D3: 0, D4: 1}
    assert others.look() == Observed("orders", 0)


def test_what_others_do_is_seen_day_by_day(others: Others) -> None:
    others.look()
    others.write(D2)
    assert changed(others.look()) == [D2]
    others.table.delete("order_date = '2025-01-04'")
    assert changed(others.look()) == [D4]
    assert others.files() == {D1: 1, D2: 2, D3: 0, D4: 0}
    others.table.restore(0)
    assert set(changed(others.look())) == {D2, D4}
    others.write(D3, mode="overwrite")
    assert changed(others.look()) == [D1, D2, D3, D4]


def test_compacting_and_vacuuming_change_no_day_and_the_place_of_rows_is_known(others: Others) -> None:
    others.write(D2)
    others.look()
    logicals = {day: content.checksum for day, content in others.days().items()}
    others.table.optimize.compact()
    others.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    found = others.look()
    assert (changed(found), bool(found.publication)) == ([], True)
    assert {day: content.checksum for day, content in others.days().items()} == logicals
    assert others.files()[D2] == 1
    assert others.days()[D2].metrics[VERSION] == others.table.version()
    assert others.look().publication == ""


def test_versions_that_change_nothing_are_recorded_once_a_day_or_once_they_are_many(tmp_path: Path) -> None:
    others = Others(tmp_path)
    log = HandWritten(tmp_path / "orders", [column("order_id", "long"), column("order_date", "date")])
    log.commit(add("a", "2025-01-01"))
    others.look()
    log.commit(log.metadata())
    assert others.look() == Observed("orders", 1)
    assert others.at() == At(f"one:{others.orders.read_as}", 0)
    log.day += timedelta(days=1)
    log.commit(log.metadata())
    assert others.look().publication
    for _ in range(101):
        log.commit(log.metadata())
    assert others.look().publication
    assert others.at() == At(f"one:{others.orders.read_as}", 103)


def test_a_log_that_was_cleaned_up_counts_days_with_other_files_as_changed(others: Others) -> None:
    others.write(D2)
    others.look()
    others.table.optimize.compact()
    others.write(D1)
    others.table.create_checkpoint()
    for version in range(3):
        HandWritten(others.home / "orders", []).path(version).unlink()
    assert changed(others.look()) == [D1, D2]
    assert others.look().publication == ""


def test_a_table_made_anew_with_as_many_versions_is_another_one(others: Others) -> None:
    others.look()
    first = others.at()
    shutil.rmtree(others.orders.location)
    others.write(D1, D2, mode="error", id=2)
    assert changed(others.look()) == [D1, D2, D4]
    now = others.at()
    assert (first and first.version, now and now.version) == (0, 0)
    assert first != now
    shutil.rmtree(others.orders.location)
    others.write(D3, mode="error")
    assert set(changed(others.look())) == {D1, D2, D3}
    assert others.look().publication == ""


def test_a_copy_of_the_table_from_before_is_seen(others: Others) -> None:
    """Put back from a backup: it has fewer versions than were looked at."""
    shutil.copytree(others.orders.location, others.home / "backup")
    others.write(D2)
    others.look()
    shutil.rmtree(others.orders.location)
    (others.home / "backup").rename(others.orders.location)
    found = others.look()
    assert (found.version, changed(found)) == (0, [D2])
    assert others.look().publication == ""


class Sold(Contract):
    """One column of others."""

    amount: int = Field(landed="gross")


class SoldNet(Contract):
    """Another one, under the same name."""

    amount: int = Field(landed="net")


@pytest.mark.parametrize("otherwise", [{"event_zone": "Europe/Berlin"}, {"contract": SoldNet}, {"day": "paid_at"}])
def test_a_table_that_is_declared_otherwise_is_read_anew(tmp_path: Path, otherwise: dict[str, Any]) -> None:
    """Its days are made of the same files, and not of the same rows. A day without files has none, however read."""
    others = Others(tmp_path)
    moments = [column("order_date", "timestamp"), column("paid_at", "timestamp")]
    log = HandWritten(tmp_path / "orders", [column("gross", "long"), column("net", "long"), *moments])
    for day in (D1, D3):
        at = dict.fromkeys(("order_date", "paid_at"), f"{day}T12:00:00.000Z")
        log.commit(add(str(day), stats=json.dumps({"numRecords": 1, "minValues": at, "maxValues": at})))
    others.orders = replace(others.orders, contract=Sold)
    others.look()
    before = {day: content.checksum for day, content in others.days().items()}
    others.orders = replace(others.orders, **otherwise)
    assert changed(others.look()) == [D1, D3]
    now = {day: content.checksum for day, content in others.days().items()}
    assert {day for day in now if now[day] != before[day]} == {D1, D3}
    assert others.look().publication == ""


def test_two_looks_at_once_record_one_version_and_the_later_one_stands(others: Others) -> None:
    """The first one stands still with what it saw, while another one sees and records more."""
    others.look()
    others.write(D1)
    waiting, go = threading.Event(), threading.Event()

    def stand_still(step: CrashPoint, about: str) -> None:
        if step == CrashPoint.TABLES_READ and not waiting.is_set():
            waiting.set()
            assert go.wait(60)

    found: list[Observed] = []
    slow = threading.Thread(target=lambda: found.append(others.look(stand_still)))
    slow.start()
    assert waiting.wait(60)
    others.table.restore(0)
    others.write(D2)
    assert set(changed(others.look())) == {D2}
    go.set()
    slow.join(60)
    assert [each.version for each in found] == [3]
    assert (others.at() or At("", -1)).version == 3
    assert others.files() == {D1: 1, D2: 2, D3: 0, D4: 1}


def test_many_looks_at_once_agree(others: Others) -> None:
    others.look()
    others.write(D3)
    found: list[Observed] = []
    threads = [threading.Thread(target=lambda: found.append(others.look())) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert {each.version for each in found} == {1}
    assert sum(1 for each in found if each.changed) == 1
    assert others.look().publication == ""


@pytest.mark.parametrize("step", [CrashPoint.PREPARED, CrashPoint.TABLE_COMMITTED, CrashPoint.CLOSING])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_look_that_dies_is_finished_by_the_next_one(others: Others, step: CrashPoint, is_first: bool) -> None:
    if not is_first:
        others.look()
    others.write(D2)
    with pytest.raises(Died):
        others.look(dying_at(step))
    others.write(D3)
    found = others.look()
    assert D3 in found.changed
    assert others.files() == {D1: 1, D2: 2, D3: 1, D4: 1}
    assert not others.publisher().log.head().state.open
    assert (others.at() or At("", -1)).version == 2


def test_a_look_that_dies_before_it_is_prepared_has_done_nothing(others: Others) -> None:
    with pytest.raises(Died):
        others.look(dying_at(CrashPoint.TABLES_READ))
    assert others.days() == {}
    assert changed(others.look()) == list(DAYS)


def test_what_others_have_is_told_without_recording_it(others: Others) -> None:
    log = others.publisher().log
    seen = look_at(log, others.orders, D1, D4)
    assert (seen.known, list(seen.moved.changed), seen.is_recorded) == (None, list(DAYS), False)
    assert others.days() == {}
    with pytest.raises(LakehouseUnusable, match="orders was never looked at"):
        require_observed(log.storage, others.orders, None)


def test_columns_that_are_not_there_and_other_types_are_said_before_anything_is_recorded(others: Others) -> None:
    class Broken(Contract):
        """What nobody writes."""

        order_id: str = Field()
        order_dat: date = Field()

    others.orders = replace(others.orders, contract=Broken)
    with pytest.raises(InvalidRequest, match="'order_id' is a bigint, and is declared as a string") as refused:
        others.look()
    assert "there is no column 'order_dat'" in str(refused.value)
    assert others.days() == {}


def test_a_table_in_a_bucket_is_refused_where_the_lakehouse_is_in_a_folder(others: Others) -> None:
    """Its own Spark could not open it; it is said before anything is asked of a bucket."""
    elsewhere = replace(others.orders, location="s3://theirs/orders")
    with pytest.raises(LakehouseUnusable, match="s3://theirs/orders, in a bucket, and the lakehouse in the folder"):
        observe_tables(others.publisher(), [(elsewhere, D1)])


def test_rows_without_a_day_and_partitions_without_a_value_are_of_no_day(tmp_path: Path) -> None:
    others = Others(tmp_path)
    log = HandWritten(tmp_path / "orders", [column("order_id", "long"), column("order_date", "date")], ("order_date",))
    log.commit(add("a", partitionValues={"order_date": "2025-01-01"}))
    others.look()
    log.commit(add("b", partitionValues={"order_date": None}))
    assert changed(others.look()) == []
    log.commit(remove("b"), add("c", partitionValues={"order_date": "2025-01-02"}))
    assert changed(others.look()) == [D2]


def test_rows_long_before_and_after_the_days_of_a_dataset_make_no_days(others: Others) -> None:
    others.look()
    others.write(date(1999, 1, 1), date(9999, 12, 31))
    assert D1 in others.days()
    found = others.look()
    assert min(others.days()) == D1
    assert max(others.days()) < date(9999, 1, 1)
    assert not {D1, D2, D3, D4} & set(found.changed)
