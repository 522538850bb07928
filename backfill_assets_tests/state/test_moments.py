"""What days held at a moment, file by file, by publication, version and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, VersionGone
from backfill_assets.lakehouse.records import DayContent, DayState, logical_of
from backfill_assets.publish import files as log_files
from backfill_assets.publish import fold as log_fold
from backfill_assets.publish.fold import fold
from backfill_assets.state import view as view_module
from backfill_assets.state.history import history
from backfill_assets.state.view import View, differing, find_moment, moment_before, parse_time, record_of
from backfill_assets_tests.protocol.lake import D1, D2, Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
FACTS = "facts"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    """Two days, then the second again and another table."""
    found = SmallLakehouse(tmp_path)
    with clock.use(found.time):
        found.publish("one", {FACTS: {FIRST: [1, 2], SECOND: [3]}})
        found.publish("two", {FACTS: {SECOND: [4, 5]}, "others": {FIRST: [9]}}, code="v2")
        yield found


def rows(lakehouse: SmallLakehouse, text: str) -> dict[date, int | None]:
    held = find_moment(lakehouse.storage, text, FACTS).records([FACTS])[FACTS]
    return {day: each.content.rows if each.content else None for day, each in held.items()}


def test_by_publication_by_version_and_by_time(lakehouse: SmallLakehouse) -> None:
    assert (
        rows(lakehouse, "one") == rows(lakehouse, "1") == rows(lakehouse, "2017-06-01T12:01") == {FIRST: 2, SECOND: 1}
    )
    assert rows(lakehouse, "two") == rows(lakehouse, "2017-06-01T14:02:00+02:00") == {FIRST: 2, SECOND: 2}
    with pytest.raises(InvalidRequest, match="no publication"):
        find_moment(lakehouse.storage, "three", FACTS)


def test_a_time_as_history_prints_it_is_after_what_was_closed_in_its_second(lake: Lake) -> None:
    """A fraction is not shown, and may be given."""
    for second, name in ((0.0, "before"), (0.4, "in the second")):
        lake.clock = datetime(2026, 3, 4, 6, tzinfo=UTC) + timedelta(seconds=second)
        lake.publish(f"at-{name.split()[0]}", {"t": {D1: [name]}})

    def held(moment: str) -> object:
        return lake.rows("t", find_moment(lake.storage, moment, "t").versions["t"])[D1]

    assert held("2026-03-04 06:00:00Z") == ["in the second"]
    assert held("2026-03-04 06:00:00.399Z") == ["before"]


@pytest.mark.parametrize(
    "text",
    [
        *("20260303t060000", "20260303T06", "2026-W10-2", "20260303", "2026"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"),
    ],
)
def test_the_beginning_of_an_id_is_no_time_and_neither_is_one_without_a_year_in_utc(text: str) -> None:
    """Ids begin with the time when they were made, and their publication was closed later."""
    assert parse_time(text) is None


def test_just_before_a_publication(lakehouse: SmallLakehouse) -> None:
    found = moment_before(lakehouse.storage, "two")
    assert found.versions == find_moment(lakehouse.storage, "one", FACTS).versions
    assert found.records(["others"]) == {"others": {}}
    with pytest.raises(InvalidRequest, match="Nothing was published before one"):
        moment_before(lakehouse.storage, "one")


def test_a_day_names_the_files_that_it_had(lakehouse: SmallLakehouse) -> None:
    then = find_moment(lakehouse.storage, "one", FACTS).records([FACTS])[FACTS]
    now = View.newest(lakehouse.storage).records([FACTS])[FACTS]
    assert then[FIRST] == now[FIRST] and "run-one" in then[SECOND].files[0].path
    assert differing({FACTS: then}, {FACTS: now}) == {FACTS: {SECOND}}


def test_where_the_delta_log_was_cleaned_up_the_publications_name_the_files(
    lakehouse: SmallLakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = find_moment(lakehouse.storage, "one", FACTS)
    expected = view.records([FACTS])

    def gone(*_: object) -> None:
        raise VersionGone("The commit is gone.")

    monkeypatch.setattr(view_module, "read_log", gone)
    assert view.records([FACTS]) == expected


@pytest.mark.parametrize("files", [(), ("ours.parquet",), ("theirs.parquet",)])
@pytest.mark.parametrize("known", [(), ("ours.parquet",), ("theirs.parquet",)])
@pytest.mark.parametrize("content", [DayContent(rows=3, checksum="3"), None])
def test_a_record_says_what_compare_and_swap_says(
    files: Sequence[str], known: Sequence[str], content: DayContent | None
) -> None:
    """What is approved by the one is published by the other: rows that others deleted are a foreign write, too."""
    state = DayState(FACTS, FIRST, "p", 1, fingerprints.physical(known), content)
    added = [AddedFile(path, str(FIRST), 1, 0, "{}") for path in files]
    for of in (state, None):
        assert record_of(FIRST, added, of).logical == logical_of(of, fingerprints.physical(files))


def test_the_content_of_a_foreign_write_is_not_known(lakehouse: SmallLakehouse) -> None:
    lakehouse.write_past_the_protocol(FACTS, FIRST, [7])
    newest = lakehouse.newest(FACTS).version()
    held = View(lakehouse.storage, 99, {FACTS: newest}).records([FACTS])[FACTS]
    assert held[FIRST].content is None and held[FIRST].foreign and held[FIRST].logical.startswith("foreign")
    assert held[SECOND].content is not None


def test_a_time_names_the_state_of_then_also_when_entries_were_folded_by_kind(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publications and rollbacks of a month lie in files of their own: the rollback is newer than what it took back."""
    monkeypatch.setattr(log_files, "_BATCH", 2)
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", 8)
    lake.clock = datetime(2026, 3, 2, 6, tzinfo=UTC)
    for name in ("good", "wrong"):
        lake.publish(name, {"t": {D1: [name]}})
        lake.clock += timedelta(hours=1)
    roll_back(lake.publisher(), "wrong", id="undo", steps=())
    moment = f"{lake.clock + timedelta(hours=1):%Y-%m-%dT%H:%M:%S}"
    lake.clock += timedelta(hours=2)
    for number in range(6):
        lake.publish(f"later-{number}", {"t": {D2: [f"later {number}"]}})
        lake.clock += timedelta(hours=1)

    def found() -> tuple[int, object]:
        view = find_moment(lake.storage, moment, "t")
        return view.sequence, lake.rows("t", view.versions["t"])[D1]

    before = found()
    assert before[1] == ["good"]
    lake.clock += timedelta(days=60)
    assert fold(lake.publisher().log, lake.clock)
    for number in range(4):
        assert found() == before
        assert [each.publication for each in history(lake.storage)][-3:] == ["undo", "wrong", "good"]
        lake.publish(f"newest-{number}", {"t": {D2: [f"newest {number}"]}})
