"""Which days need work: decided from fingerprints alone, before any JVM starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.datasets.sales import FactDailyRevenue
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState, Expected, Origin
from backfill_assets.model.declaration import Reads, Step, Table, Version
from backfill_assets.publish.pinned import Pin
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import Decision, EarlierState

DAY = date(2017, 3, 1)
FACT = TableDay("fact", DAY)
FILES = ("a.parquet", "b.parquet")


TABLE = Table("report", "report", "", FactDailyRevenue, ())
DAILY, WEEKLY = Step((TABLE,)), Step((TABLE,), cadence=Cadence.WEEKLY)
MONDAY = date(2017, 2, 27)
WEEK = list(Cadence.WEEKLY.period(MONDAY))


def transform(inputs: Mapping[str, object]) -> Mapping[str, object]:
    return inputs


def version(*reads: Reads, name: str = "v1") -> Version:
    return Version(name, "", reads, transform)  # type: ignore[arg-type]


def wanted(name: str = "v1", bronze: str = "10:1", rate: str = "5:1") -> decide.InputFingerprint:
    logicals = {"bronze": {DAY: bronze}, "fx": {DAY - timedelta(days=n): rate for n in range(8)}}
    return decide.wanted(DAILY, version(Reads("bronze"), Reads("fx", -7), name=name), [DAY], logicals)[DAY]


def state(built: decide.InputFingerprint, files: tuple[str, ...] = FILES) -> DayState:
    content = DayContent(rows=10, checksum="1", code_version="v1", inputs=built.inputs)
    return DayState(
        table="fact",
        day=DAY,
        publication="p",
        sequence=1,
        physical=fingerprints.physical(files),
        content=content,
    )


def is_unchanged(now: decide.InputFingerprint, then: DayState | None, files: tuple[str, ...] = FILES) -> bool:
    states = {} if then is None else {FACT: then}
    shown = Pin({FACT: Expected(files=files, publication="p")}, {}, states).content(FACT)
    return decide.decide(now.input_fingerprint, [shown], forced=False, blocked=False) is Decision.KEEP


def test_a_day_built_from_the_same_inputs_by_the_same_code_is_unchanged() -> None:
    """Nothing twice: the decision needs neither Spark nor the data."""
    assert is_unchanged(wanted(), state(wanted()))


@pytest.mark.parametrize(
    "now",
    [wanted(name="v2"), wanted(bronze="11:1"), wanted(bronze="10:2"), wanted(rate="5:2")],
    ids=["other code", "more rows upstream", "other content upstream", "a rate within the look back"],
)
def test_everything_a_day_is_computed_from_makes_it_change(now: decide.InputFingerprint) -> None:
    """Each part of the input fingerprint counts; dropping one would reuse a wrong day."""
    assert not is_unchanged(now, state(wanted()))


def test_a_foreign_write_or_a_missing_day_is_not_unchanged() -> None:
    """The log may say that a day is fine while a foreign writer has replaced its files."""
    assert not is_unchanged(wanted(), state(wanted()), files=("another-ones.parquet",))
    assert not is_unchanged(wanted(), None)


def test_a_step_is_unchanged_only_if_all_its_tables_are() -> None:
    """Bronze and quarantine are published together and rebuilt together."""
    fingerprint, same = wanted().input_fingerprint, state(wanted()).content
    assert decide.made_from(fingerprint, [same, same])
    assert not decide.made_from(fingerprint, [same, None])


SAME, OTHER, NOTHING = state(wanted()).content, state(wanted(bronze="11:1")).content, None


@pytest.mark.parametrize(
    ("shown", "offered", "grows", "forced", "blocked", "decision"),
    [
        (SAME, SAME, True, False, True, Decision.BLOCKED),
        (SAME, SAME, True, True, True, Decision.BLOCKED),
        (SAME, SAME, True, True, False, Decision.COMPUTE),
        (SAME, OTHER, True, False, False, Decision.KEEP),
        (SAME, SAME, False, False, False, Decision.KEEP),
        (OTHER, SAME, False, False, False, Decision.TAKE),
        (OTHER, SAME, True, False, False, Decision.TAKE),
        (NOTHING, SAME, False, False, False, Decision.TAKE),
        (OTHER, OTHER, True, False, False, Decision.GROW),
        (OTHER, OTHER, False, False, False, Decision.COMPUTE),
        (NOTHING, NOTHING, False, False, False, Decision.COMPUTE),
    ],
)
def test_a_day_is_kept_or_taken_only_if_it_was_made_of_just_what_there_is_now(
    shown: DayContent | None,
    offered: DayContent | None,
    grows: bool,
    forced: bool,
    blocked: bool,
    decision: Decision,
) -> None:
    """The first case that holds decides: what reads a day that is held back is not computed, even if it is forced.

    A day grows only if nothing saves the work, and nobody asked for all of it.
    """
    fingerprint = wanted().input_fingerprint
    found = decide.decide(fingerprint, [shown], [offered], forced=forced, blocked=blocked, grows=grows)
    assert found is decision


def test_a_step_of_which_nothing_is_known_was_made_of_nothing() -> None:
    """No content at all says as little as one that is not known."""
    fingerprint = wanted().input_fingerprint
    assert decide.decide(fingerprint, [], forced=False, blocked=False) is Decision.COMPUTE
    assert decide.decide(fingerprint, [OTHER], forced=False, blocked=False) is Decision.COMPUTE


PUBLISHED = state(wanted())


def published(**changes: Any) -> DayState:
    assert PUBLISHED.content is not None
    return replace(PUBLISHED, content=replace(PUBLISHED.content, **changes))


@pytest.mark.parametrize(
    ("state", "files", "why"),
    [
        (published(metrics={"keys": 3}), FILES, ""),
        (published(metrics={"keys": 3}), FILES[::-1], ""),
        (PUBLISHED, None, "it is being published to"),
        (None, (), "it was never published"),
        (replace(PUBLISHED, content=None), FILES, "it was never published"),
        (PUBLISHED, (*FILES, "c.parquet"), "it has a foreign write"),
        (published(code_version="v0"), FILES, "it was published with v0"),
        (published(parameters="x=1"), FILES, "it was published with v1 x=1"),
        (published(metrics={"keys": None}), FILES, "keys was not measured when it was published"),
    ],
)
def test_a_day_grows_only_by_the_version_that_it_has_and_if_all_is_known_of_it(
    state: DayState | None, files: tuple[str, ...] | None, why: str
) -> None:
    assert decide.why_whole(state, files, version(), ["rows", "checksum", "keys"]) == why


STATES = [EarlierState("3:30", frozenset("abc")), EarlierState("2:20", frozenset("ab"))]


@pytest.mark.parametrize(
    ("made_of", "now", "gained"),
    [
        ("2:20", "abcd", "cd"),
        ("3:30", "abcd", "d"),
        ("2:20", "ab", ""),
        ("2:20", "z", None),
        ("1:10", "abcd", None),
    ],
    ids=[
        "since it was built",
        "since the newest",
        "nothing",
        "compacted with new rows",
        "of a state that nobody knows",
    ],
)
def test_new_files_are_known_only_while_all_those_that_a_day_was_built_from_are_there(
    made_of: str, now: str, gained: str | None
) -> None:
    found = decide.gained_files(lambda logical: logical == made_of, STATES, frozenset(now))
    assert found == (None if gained is None else frozenset(gained))


def test_the_days_read_cover_the_look_back_of_every_day() -> None:
    """The pin must hold every day that any of the days reads, and nothing else."""
    reads = decide.read_days(DAILY, version(Reads("bronze"), Reads("fx", -2, -1)), [DAY, DAY + timedelta(days=5)])
    assert reads == {
        "bronze": [date(2017, 3, 1), date(2017, 3, 6)],
        "fx": [date(2017, 2, 27), date(2017, 2, 28), date(2017, 3, 4), date(2017, 3, 5)],
    }


def test_only_the_days_that_read_a_moved_input_are_built_again() -> None:
    """A replaced rate moves the days that look back on it, and no others."""
    days = list(DayRange(DAY, DAY + timedelta(days=9)))
    moved = decide.days_reading(DAILY, version(Reads("fx", -1, 0)), days, {"fx": frozenset({date(2017, 3, 3)})})
    assert moved == {date(2017, 3, 3), date(2017, 3, 4)}


@pytest.mark.parametrize(("bytes_of_day", "lengths"), [(0, [45, 45]), (600, [1] * 90), (100, [5] * 18)])
def test_chunks_keep_the_memory_of_a_long_range_flat(bytes_of_day: int, lengths: list[int]) -> None:
    """Days are cut by what their input weighs; even a huge day is a chunk, and none is lost."""
    days = list(DayRange(DAY, DAY + timedelta(days=89)))
    chunks = decide.chunks(days, bytes_of_day, budget=500)
    assert [len(chunk) for chunk in chunks] == lengths
    assert [day for chunk in chunks for day in chunk] == days
    newest_first = decide.chunks(days[1:], bytes_of_day, budget=500, newest_first=True)
    assert newest_first[0] == days[-lengths[0] :] and newest_first[-1][0] == days[1]
    assert [day for chunk in reversed(newest_first) for day in chunk] == days[1:]


def test_the_time_left_is_in_proportion() -> None:
    """62 of 90 days in 62 s leaves 28 s; before the first day is done, all of them are taken to be as long as it."""
    assert decide.eta(62, 90, 62.0) == timedelta(seconds=28)
    assert decide.eta(1, 90, 2.0) == timedelta(seconds=178)
    assert decide.eta(0, 90, 2.0) == timedelta(seconds=180)


def test_a_week_is_wanted_from_all_its_days() -> None:
    """A week is named by its Monday and reads seven days; a change of any of them makes it stale."""
    weekly = version(Reads("fact", partial=True))
    logicals = {"fact": dict.fromkeys(WEEK, "10:1")}
    assert decide.read_days(WEEKLY, weekly, [MONDAY]) == {"fact": WEEK}
    before = decide.wanted(WEEKLY, weekly, [MONDAY], logicals)
    for day in WEEK:
        assert decide.wanted(WEEKLY, weekly, [MONDAY], {"fact": logicals["fact"] | {day: "11:1"}}) != before
        assert decide.days_reading(WEEKLY, weekly, [MONDAY], {"fact": frozenset({day})}) == {MONDAY}
    assert not decide.days_reading(WEEKLY, weekly, [MONDAY], {"fact": frozenset({date(2017, 2, 26), date(2017, 3, 6)})})


def test_a_cut_period_is_built_from_what_there_is_and_says_what_is_missing() -> None:
    """A month at the edge of history is a report too, but it must not be taken for a whole one."""
    weekly = version(Reads("fact", partial=True))
    there = WEEK[:2] + WEEK[5:]
    found = decide.period_days(WEEKLY, weekly, MONDAY, {"fact": dict.fromkeys(there, "1:1")})
    assert found is not None
    assert not found.complete
    assert str(found) == "4 of 7 days; not published: 2017-03-01..2017-03-03"
    whole = decide.period_days(WEEKLY, weekly, MONDAY, {"fact": dict.fromkeys(WEEK, "1:1")})
    assert whole is not None
    assert whole.complete and str(whole) == "7 of 7 days"


def test_a_day_without_its_inputs_fails_a_gate() -> None:
    """It is held back like any other day that is not good."""
    assert not decide.inputs_published(["bronze 2017-03-01", "fx 2017-03-01"]).passed


OLD, NEW = version(name="v1"), version(name="v2")
SEVERAL = replace(DAILY, versions=(OLD, NEW), current="v2")
D1, D2, D3 = (DAY + timedelta(days=n) for n in range(3))


def by(code_version: str, day: date, content: bool = True) -> tuple[TableDay, DayState]:
    key = TableDay("report", day)
    made = published(code_version=code_version) if content else replace(PUBLISHED, content=None)
    return key, replace(made, table=key.table, day=day)


def test_each_day_is_built_again_by_the_version_that_it_was_published_with() -> None:
    """The current one builds what is not published, and what came with an adopted table."""
    states = dict([by("v1", D1), by("adopted", D2)])
    assert decide.versions_as_published(SEVERAL, [D1, D2, D3], states) == {D1: "v1", D2: "v2", D3: "v2"}
    assert not decide.undeclared(SEVERAL, [D1, D2, D3], states)


def test_a_version_that_is_not_declared_any_more_is_named_with_its_days() -> None:
    states = dict([by("v0", D1), by("v1", D2), by("v0", D3)])
    assert decide.undeclared(SEVERAL, [D1, D2, D3], states) == {D1: "v0", D3: "v0"}
    with pytest.raises(InvalidRequest, match=r"report 2017-03-01 was published with v0.*\(2 days in all\)") as refused:
        decide.versions_as_published(SEVERAL, [D1, D2, D3], states)
    assert str(refused.value.hint).endswith("backfill run report+ --days 2017-03-01..2017-03-03")


def test_days_go_together_by_their_version_in_order() -> None:
    versions = {D3: NEW, D2: OLD, D1: NEW}
    assert decide.by_version(versions) == [(OLD, [D2]), (NEW, [D1, D3])]


def test_a_day_whose_content_is_not_known_is_not_published() -> None:
    assert decide.published_days(dict([by("v1", D1), by("v1", D2, content=False)])) == {"report": {D1}}


def test_a_rollback_is_named_for_the_days_that_it_put_back() -> None:
    """Others are as they were built, or were never published."""
    states = dict([by("v1", D1), by("v1", D2)])
    key, other, never = (TableDay("report", day) for day in (D1, D2, D3))
    states[key] = replace(states[key], origin=Origin("p", put_back_by="undo", rolled_back_by="undo"))
    assert decide.rolled_back([key, other, never], states) == {key: "undo"}
