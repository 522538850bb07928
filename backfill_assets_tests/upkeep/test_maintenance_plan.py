"""Which days are compacted and which timelines are closed, decided without a lakehouse."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from backfill_assets.upkeep.maintenance_plan import (
    AT_ONCE_BYTES,
    COMPACT_FROM_FILES,
    SMALL_FILE_BYTES,
    Chore,
    DayFiles,
    Task,
    days_to_compact,
    timelines_to_close,
)

NOW = datetime(2017, 6, 1, tzinfo=UTC)
PLAN = "plan-0123456789abcdef"
D = date(2017, 3, 1)
OLD = NOW - timedelta(days=15)


def test_timelines_that_are_older_than_the_limit_are_closed() -> None:
    """Dead runs and given-up campaigns, by name whatever their age; exactly as old as the limit is not older."""
    limit = NOW - timedelta(days=14)
    timelines = {"b": OLD, "c": OLD - timedelta(days=9), "a": limit - timedelta(seconds=1), "young": limit}
    why = "begun more than 14 days ago, and of no open plan"
    assert timelines_to_close("t", timelines, [PLAN], NOW, 14) == Task(Chore.CLOSE, "t", ("a", "b", "c"), why=why)
    assert timelines_to_close("t", {"young": limit}, [], NOW, 14) is None
    assert timelines_to_close("t", {}, [], NOW, 14) is None


def test_a_compaction_says_how_many_files_of_how_many_days() -> None:
    """Its days ascend, whichever has most files; its bytes are those of the days that are chosen."""
    later, latest = D + timedelta(days=1), D + timedelta(days=2)
    days = {latest: DayFiles(9, 90), D: DayFiles(5, 50), later: DayFiles(4, 40)}
    assert days_to_compact("t", {}, changing=()) is None
    assert days_to_compact("t", days, changing={"t"}) is None, "an open plan rebuilds it"
    assert days_to_compact("t", days, changing={"u"}) == Task(
        Chore.COMPACT, "t", ("2017-03-01", "2017-03-03"), files=14, bytes=140, why="14 small files in 2 days"
    )


def test_a_day_is_compacted_from_five_files_on() -> None:
    """However small they are."""
    chosen = [files for files in (4, 5, 6) if days_to_compact("t", {D: DayFiles(files, 1)}, changing=())]
    assert chosen == [COMPACT_FROM_FILES, COMPACT_FROM_FILES + 1] == [5, 6]


def test_files_that_are_large_on_average_are_left_alone() -> None:
    """One byte less than that is small; such a day is compacted only where a day that large fits."""
    files = AT_ONCE_BYTES // SMALL_FILE_BYTES + 1
    assert files == COMPACT_FROM_FILES, "a day of just enough large files does not fit into memory"
    assert days_to_compact("t", {D: DayFiles(files, files * SMALL_FILE_BYTES)}, changing=()) is None
    assert days_to_compact("t", {D: DayFiles(files, AT_ONCE_BYTES)}, changing=()) is not None


def test_days_are_chosen_up_to_what_is_held_in_memory_and_smaller_ones_fill_it() -> None:
    """Exactly that much fits. Days with most files come first, then earlier ones; a day that does not fit is passed."""
    days = [D + timedelta(days=n) for n in range(4)]
    half = AT_ONCE_BYTES // 2
    found = {
        days[3]: DayFiles(9, half),
        days[1]: DayFiles(8, half + 1),
        days[2]: DayFiles(7, 101),
        days[0]: DayFiles(7, half - 100),
    }
    task = days_to_compact("t", found, changing=())
    assert task and (task.items, task.bytes) == ((str(days[0]), str(days[3])), AT_ONCE_BYTES - 100)
    task = days_to_compact("t", {**found, days[2]: DayFiles(7, 100)}, changing=())
    assert task and (task.items, task.bytes) == ((str(days[0]), str(days[2]), str(days[3])), AT_ONCE_BYTES)


def test_only_timelines_of_the_open_plan_itself_are_kept() -> None:
    """Each of them; not one of a plan whose id begins with it, and not a run that bears its id."""
    id = PLAN.removeprefix("plan-")
    timelines = {
        f"campaign-{id}-0": OLD,
        f"campaign-{id}-1": OLD,
        f"campaign-{id}0-1": OLD,
        f"{id}-1": OLD,
    }
    task = timelines_to_close("t", timelines, [PLAN, "plan-fedcba9876543210"], NOW, 14)
    assert task and task.items == (f"{id}-1", f"campaign-{id}0-1")
    assert timelines_to_close("t", dict(list(timelines.items())[:2]), ["plan-fedcba9876543210", PLAN], NOW, 14) is None
