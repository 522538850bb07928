"""SELECT over one closed publication: now, as of then, on a timeline, two at once; and never a torn one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.sql.moments import Moments
from backfill_assets.sql.query import select
from backfill_assets.sql.rows_out import rows_of
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets_tests.small_lakehouse import SmallLakehouse, table_of

pytestmark = pytest.mark.protocol
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
DAY, NEXT, LAST = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
SUMS = f"SELECT (SELECT sum(id) FROM {FACT}), (SELECT sum(id) FROM {REVENUE})"  # noqa: S608 - our names


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> SmallLakehouse:
    found = SmallLakehouse(tmp_path_factory.mktemp("published"))
    with clock.use(found.time):
        found.publish("one", {FACT: {DAY: [1], NEXT: [2]}, REVENUE: {DAY: [10], NEXT: [20]}})
        found.publish("two", {FACT: {NEXT: [3, 4]}, REVENUE: {NEXT: [70]}}, code="v2")
    return found


@pytest.fixture
def lakehouse(published: SmallLakehouse, tmp_path: Path) -> Iterator[SmallLakehouse]:
    """In a folder with a space and a percent sign in its name."""
    found = published.copy(tmp_path / "the 10% lake")
    with clock.use(found.time):
        yield found


def rows(lakehouse: SmallLakehouse, query: str, **where: str) -> list[list[Any]]:
    with select(Moments(lakehouse.storage), query, **where) as found:
        return [list(map(_plain, row)) for row in rows_of(found)[1]]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | date) else int(value)


def test_now_then_and_both_at_once(lakehouse: SmallLakehouse) -> None:
    assert rows(lakehouse, SUMS) == [[8, 80]]
    assert rows(lakehouse, SUMS, as_of="one") == rows(lakehouse, SUMS, as_of="two^") == [[3, 30]]
    # The clock of the log moves on a minute with each publication.
    assert rows(lakehouse, SUMS, as_of="2017-06-01T12:01:30") == [[3, 30]]
    both = f"""SELECT day, n.id, t.id FROM main.{FACT.upper()} n JOIN "as of one".{FACT} t USING (day) ORDER BY ALL"""  # noqa: S608
    assert rows(lakehouse, both) == [[DAY, 1, 1], [NEXT, 3, 2], [NEXT, 4, 2]]
    assert rows(lakehouse, both, as_of="one") == rows(lakehouse, both), "main is now, whatever is asked for beside it"


def test_a_timeline_is_a_schema_and_reads_through_to_its_base(lakehouse: SmallLakehouse) -> None:
    moment = find_moment(lakehouse.storage, "one", REVENUE)
    asked = RewindRequest("back", (REVENUE,))
    create_timeline(
        lakehouse.storage, rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
    )
    lakehouse.publish("three", {FACT: {DAY: [100]}, REVENUE: {DAY: [1000]}})
    assert rows(lakehouse, SUMS, on="back") == [[8, 30]]
    beside = f"SELECT sum(n.id) - sum(b.id) FROM {REVENUE} n JOIN back.{REVENUE} b USING (day)"  # noqa: S608
    assert rows(lakehouse, beside) == [[1070 - 30]]


def test_a_publication_that_is_half_in_is_not_seen(lakehouse: SmallLakehouse) -> None:
    lakehouse.crash("three", {FACT: {DAY: [9]}, REVENUE: {DAY: [90]}}, at=CrashPoint.TABLE_COMMITTED)
    assert rows(lakehouse, SUMS) == [[8, 80]]
    lakehouse.publisher.recover()
    assert rows(lakehouse, SUMS) == [[16, 160]]


def test_an_undo_and_a_day_without_rows(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("three", {FACT: {DAY: [], LAST: []}, REVENUE: {DAY: []}})
    by_day = f"SELECT day, count(*) FROM {FACT} GROUP BY day"  # noqa: S608
    assert rows(lakehouse, by_day) == [[NEXT, 2]]
    roll_back(lakehouse.publisher, "three", id="undone", steps=CATALOG.steps)
    assert rows(lakehouse, SUMS) == [[8, 80]] and rows(lakehouse, SUMS, as_of="three") == [[7, 70]]


def test_a_column_that_came_later_is_null_in_older_files_and_unknown_before(lakehouse: SmallLakehouse) -> None:
    wide = WideLakehouse(Path(lakehouse.storage.root))
    wide.minutes = lakehouse.minutes
    with clock.use(wide.time):
        wide.publish("wide", {FACT: {LAST: [5]}})
    query = f"SELECT id, note FROM {FACT} ORDER BY id"  # noqa: S608
    assert rows(lakehouse, query) == [[1, None], [3, None], [4, None], [5, "5"]]
    with pytest.raises(InvalidRequest, match='"note" not found'):
        rows(lakehouse, query, as_of="two")


class WideLakehouse(SmallLakehouse):
    def rows_of(self, table: str, day: date, ids: Any) -> pa.Table:
        return table_of(day, ids).append_column("note", pa.array([str(id) for id in ids], pa.string()))


REFUSED: Mapping[str, tuple[str, str]] = {
    "FROM fact_daily_revenu": ("main has no table 'fact_daily_revenu'", f"Did you mean {REVENUE}"),
    "FROM main.nothing": ("main has no table 'nothing'", "Tables: "),
    "FROM back.fact": ("no timeline 'back'", "Timelines"),
    'FROM "as of 2001-01-01".fact': ("Nothing was published by 2001-01-01", "backfill history"),
    'FROM "as of on".fact': ("no publication 'on'", "Did you mean one"),
    'FROM "as of 3".fact': ("3 is a version of one table", "backfill history"),
    "FROM read_text('/etc/passwd')": ("reads tables of the lakehouse, and no other file", "Tables: "),
    "FROM '/etc/passwd'": ("no table '/etc/passwd'", "Tables: "),
    "SELECT nothing FROM fact_daily_revenue": ('"nothing" not found', "DESCRIBE"),
    "SELECT CAST('x' AS INTEGER)": ("Could not convert", "DESCRIBE"),
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_cannot_be_read_is_named_with_what_to_do(lakehouse: SmallLakehouse, query: str) -> None:
    said, hint = REFUSED[query]
    with pytest.raises(InvalidRequest) as refused:
        rows(lakehouse, query)
    assert said in refused.value.message and hint in (refused.value.hint or "")


def test_variables_of_python_and_settings_are_out_of_reach(lakehouse: SmallLakehouse) -> None:
    secret = pa.table({"a": [1]})
    with pytest.raises(InvalidRequest, match="no table 'secret'"):
        rows(lakehouse, "FROM secret")
    assert secret.num_rows == 1
    locked = "SELECT current_setting('lock_configuration') AND NOT current_setting('enable_external_access')"
    assert rows(lakehouse, locked) == [[1]]


def test_a_reclaimed_publication_says_so(lakehouse: SmallLakehouse) -> None:
    for file in Path(lakehouse.storage.root).glob(f"{FACT}/_timelines/run-one/day={NEXT}/*.parquet"):
        file.unlink()
    assert rows(lakehouse, SUMS) == [[8, 80]]
    with pytest.raises(LakehouseUnusable, match=f"{FACT} {NEXT} cannot be read") as refused:
        rows(lakehouse, SUMS, as_of="one")
    assert "as of publication one" in refused.value.message and "backfill history" in (refused.value.hint or "")


def test_what_others_wrote_to_a_table_is_not_of_a_publication(lakehouse: SmallLakehouse) -> None:
    write_deltalake(lakehouse.storage.uri(FACT), table_of(DAY, [1_000]), mode="append")
    assert rows(lakehouse, SUMS) == [[8, 80]]


def test_no_answer_is_torn_while_publications_go_on(lakehouse: SmallLakehouse) -> None:
    """Revenue is ten times the fact in each publication: in each answer, too."""
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(_publish_on, lakehouse, 12)
        seen = [rows(lakehouse, SUMS)[0]]
        while not going.done():
            seen.append(rows(lakehouse, SUMS)[0])
    going.result()
    assert all(revenue == 10 * fact for fact, revenue in seen)
    assert len({fact for fact, _ in seen}) > 2 and rows(lakehouse, SUMS) == [[18, 180]]


def _publish_on(lakehouse: SmallLakehouse, count: int) -> None:
    for number in range(count):
        lakehouse.publish(f"p{number}", {FACT: {DAY: [number]}, REVENUE: {DAY: [10 * number]}})
