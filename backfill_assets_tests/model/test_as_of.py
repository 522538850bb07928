"""What is read as of a day: the newest day with rows, found by a plain search of all days, whatever changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.model.declaration import AsOf, Reads, Step
from backfill_assets.model.graph import Filled, earlier_days, made_of, missing_inputs, read_by, reading, tables_as_of
from backfill_assets.rebuild import decide
from backfill_assets_tests.declared import source_named
from backfill_assets_tests.rebuild.test_decide import DAILY, version

FIRST = date(2017, 3, 1)
ALL = list(DayRange(FIRST, FIRST + timedelta(days=19)))
PLANES = "bronze_planes"
BOUND = 6
BY = version(Reads("bronze_trips"), AsOf("planes", -BOUND))
STEP = replace(DAILY, versions=(BY,), current=BY.name)
LOGICALS = ("none", "0:0", "1:7", "1:8", "2:9")
Planes = dict[date, str]
planes = st.fixed_dictionaries(dict.fromkeys(ALL, st.sampled_from(LOGICALS)))
"""By day what the table of planes holds: never published, without rows, or one of some states."""


def search(held: Planes, day: date) -> date | None:
    """The day whose rows hold on ``day``, by looking at one day after the other."""
    for back in range(BOUND + 1):
        before = day - timedelta(days=back)
        if held.get(before, "none") not in ("none", "0:0"):
            return before
    return None


def counts(held: Planes, day: date) -> tuple[date, str] | None:
    """That day, and what it holds."""
    state = search(held, day)
    return None if state is None else (state, held[state])


def filled(held: Planes) -> Filled:
    return decide.filled_days([STEP], {PLANES: held})


def fingerprint(held: Planes, day: date) -> str:
    window = DayRange(day - timedelta(days=BOUND), day)
    known = {"bronze_trips": {day: "5:5"}, PLANES: {each: held.get(each, "none") for each in window}}
    return decide.wanted(STEP, BY, [day], known)[day].inputs


@given(planes)
def test_the_newest_day_with_rows_counts(held: Planes) -> None:
    """In all that says what a day is made of, and it is missing just where there is none."""
    for day in ALL:
        state = search(held, day)
        made = made_of(STEP, BY, day, filled(held))
        assert made.get(PLANES) == (DayRange.of(state) if state else None)
        assert read_by(STEP, [day], filled=filled(held))[PLANES] == ({state} if state else set())
        own = {"bronze_trips": [day], **filled(held)}
        assert (missing_inputs(STEP, BY, [day], own) == {}) == (state is not None)
        counted = {PLANES: {state: held[state]}} if state else {}
        assert fingerprint(held, day) == fingerprints.inputs({"bronze_trips": {day: "5:5"}, **counted})


@given(planes, planes)
@example({}, {FIRST: "1:7"})
def test_just_the_days_that_read_another_state_are_stale(then: Planes, now: Planes) -> None:
    """Before and after any change of any days: those are found by what changed, and found stale by what they are of."""
    changed = {day for day in ALL if then.get(day, "none") != now.get(day, "none")}
    differ = {day for day in ALL if fingerprint(then, day) != fingerprint(now, day)}
    assert differ == {day for day in ALL if counts(then, day) != counts(now, day)}
    for held in (then, now):
        assert reading(STEP, {PLANES: changed}, filled=filled(held)).intersection(ALL) >= differ
    assert reading(STEP, {PLANES: changed}) >= reading(STEP, {PLANES: changed}, filled=filled(now))


@given(planes, st.sampled_from(ALL), st.sampled_from(LOGICALS[2:]))
def test_a_state_is_read_until_the_next_one(held: Planes, day: date, logical: str) -> None:
    """Of one changed day nothing is named that cannot read it."""
    now = {**held, day: logical}
    found = reading(STEP, {PLANES: {day}}, filled=filled(now)).intersection(ALL)
    assert found == {each for each in ALL if search(now, each) == day}


@given(planes, st.sampled_from(ALL), st.integers(1, 5))
def test_the_newest_landed_state_comes_along(held: Planes, first: date, length: int) -> None:
    """Of what has landed before a range and was not taken in: over days without any, and no older one."""
    landed = {day for day, each in held.items() if each != "none"}
    raw = Step((replace(DAILY.tables[0], name="raw_planes"),), source=source_named("planes"))
    bronze = replace(
        DAILY, tables=(replace(DAILY.tables[0], name=PLANES),), versions=(version(Reads("raw_planes")),), current="v1"
    )
    asked = list(DayRange(first, first + timedelta(days=length)))
    steps = [raw, bronze, replace(STEP, tables=(replace(DAILY.tables[0], name="report"),))]
    found = earlier_days(steps, ["raw_planes", PLANES, "report"], asked, {}, {"raw_planes": landed})
    before = [day for day in landed if first - timedelta(days=BOUND) <= day < first]
    assert found == ({"raw_planes": {max(before)}, PLANES: {max(before)}} if before else {})


def test_a_dataset_stands_for_its_sound_rows() -> None:
    """By its name; any other daily table by its own."""
    assert AsOf("planes") == AsOf("bronze_planes")
    assert AsOf("fact_fleet").table == "fact_fleet"
    assert tables_as_of([STEP]) == {PLANES}
    assert AsOf("planes").declared != Reads(PLANES, AsOf("planes").first).declared, "its rows are others"
    with pytest.raises(InvalidRequest, match=r"cannot read bronze_planes at days 1\.\.0"):
        AsOf("planes", 1)


def test_what_is_missing_is_said_with_the_first_day() -> None:
    """A person learns from when on a day can be built."""
    day, first = ALL[0], ALL[3]
    found = missing_inputs(STEP, BY, [day], {"bronze_trips": [day], PLANES: [first]})
    assert found == {day: [f"a state of bronze_planes up to {day} ({first} is the first)"]}
    assert decide.inputs_published(found[day]).observed == f"{found[day][0]} never published"
