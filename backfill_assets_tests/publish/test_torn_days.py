"""A publication agrees with itself: no day comes that was made of something else than it brings, or main holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import (
    DayChange,
    DayContent,
    DayState,
    InputRead,
    Kind,
    Mode,
    Origin,
    Publication,
    TableChange,
)
from backfill_assets.publish.torn_days import require_whole, torn_days

D1, D2 = date(2017, 3, 4), date(2017, 3, 5)
BOTH = DayRange(D1, D2)
NOTHING = fingerprints.NEVER_PUBLISHED


def held(total: int) -> str:
    """What a day of one row holds."""
    return fingerprints.logical(1, total)


def day(
    on: date,
    total: int,
    of: Mapping[str, Mapping[date, str]] | None = None,
    made_of: Mapping[str, DayRange] | None = None,
) -> DayChange:
    """A day of one row, made ``of`` what its inputs held; it says so unless ``made_of`` says otherwise."""
    inputs = fingerprints.inputs(of) if of else ""
    reads = {table: DayRange(min(days), max(days)) for table, days in (of or {}).items()}
    file = AddedFile(f"{total}.parquet", str(on), 1, 0, "{}")
    content = DayContent(1, str(total), "v1", inputs=inputs)
    return DayChange(day=on, adds=(file,), content=content, made_of=reads if made_of is None else made_of)


def bringing(
    *tables: tuple[str, DayChange], read: Mapping[str, Any] | None = None, kind: Kind = "replace"
) -> Publication:
    """``read`` has what main held of tables, by day; several times if it was read several times."""
    mode: Mode = "append" if kind == "append" else "replace"
    changes = tuple(TableChange(table=name, mode=mode, table_schema="", days=(each,)) for name, each in tables)
    reads = [
        InputRead(table=table, version=1, days=days)
        for table, found in (read or {}).items()
        for days in (found if isinstance(found, list) else [found])
    ]
    return Publication(id="p", kind=kind, tables=changes, inputs=tuple(reads))


def torn(publication: Publication, main: Mapping[TableDay, DayContent] = {}) -> dict[TableDay, str]:
    states = {key: DayState(*key, "before", 1, "", content) for key, content in main.items()}
    return dict(torn_days(publication, states))


FACT = day(D1, 5, {"bronze": {D1: held(1)}})
REPORT = day(D1, 50, {"fact": {D1: held(5), D2: held(6)}})
WHOLE = {
    "made of what main held when it was read": bringing(("fact", FACT), read={"bronze": {D1: held(1)}}),
    "made of what comes with it": bringing(("bronze", day(D1, 1)), ("fact", FACT)),
    "of both": bringing(("fact", FACT), ("report", REPORT), read={"bronze": {D1: held(1)}, "fact": {D2: held(6)}}),
    "of days that were never published": bringing(
        ("report", day(D1, 50, {"fact": {D1: held(5), D2: NOTHING}})), read={"fact": {D1: held(5), D2: NOTHING}}
    ),
    "read twice, of which one time counts": bringing(
        ("fact", FACT), read={"bronze": [{D1: held(7), D2: held(8)}, {D1: held(1)}]}
    ),
    "rows that were taken in are made of nothing": bringing(("raw", day(D1, 1)), kind="append"),
    "a day that is withdrawn": bringing(("fact", DayChange(day=D1, content=None))),
}
TORN = {
    "main held something else": bringing(("fact", FACT), read={"bronze": {D1: held(2)}}),
    "what comes with it is something else": bringing(("bronze", day(D1, 2)), ("fact", FACT)),
    "what comes with it counts, and not what main held": bringing(
        ("bronze", day(D1, 2)), ("fact", FACT), read={"bronze": {D1: held(1)}}
    ),
    "its input is withdrawn": bringing(("bronze", DayChange(day=D1, content=None)), ("fact", FACT)),
    "nothing was read": bringing(("fact", FACT)),
    "another day was read": bringing(("fact", FACT), read={"bronze": {D2: held(1)}}),
    "it does not say what it was made of": bringing(
        ("fact", FACT.model_copy(update={"made_of": None})), read={"bronze": {D1: held(1)}}
    ),
    "it names fewer days than it was made of": bringing(
        ("report", day(D1, 50, {"fact": {D1: held(5), D2: held(6)}}, {"fact": DayRange.of(D1)})),
        read={"fact": {D1: held(5), D2: held(6)}},
    ),
    "an undo": bringing(("fact", day(D1, 6, {"bronze": {D1: held(1)}})), ("report", REPORT), kind="rollback"),
}


@pytest.mark.parametrize("publication", WHOLE.values(), ids=WHOLE)
def test_a_day_that_is_made_of_what_there_is_may_come(publication: Publication) -> None:
    assert torn(publication) == {}


@pytest.mark.parametrize("publication", TORN.values(), ids=TORN)
def test_a_day_that_is_made_of_something_else_is_refused_by_name(publication: Publication) -> None:
    found = torn(publication)
    assert len(found) >= 1
    with pytest.raises(PublicationRefused, match=f"{next(iter(found))} (was|does)") as refused:
        require_whole(publication, {})
    assert "backfill run" in str(refused.value.hint)
    assert len(found) > 1 or f"{next(iter(found.values()))}. Nothing was published" in str(refused.value)


def test_a_person_reads_with_what_a_day_does_not_agree() -> None:
    (held_by_main,) = torn(TORN["main held something else"]).values()
    (brought,) = torn(TORN["what comes with it is something else"]).values()
    assert held_by_main == "was made of other content than main has of bronze"
    assert brought == "was made of other content than it brings of bronze"


def test_of_several_days_the_first_is_named_and_the_others_are_counted() -> None:
    two = [(table, day(D1, 5, {"bronze": {D1: held(1)}})) for table in ("fact", "other")]
    with pytest.raises(PublicationRefused, match=r"fact 2017-03-04 was made of .*, and 1 more day\. Nothing"):
        require_whole(bringing(*two, read={"bronze": {D1: held(2)}}), {})


def test_a_day_that_main_shows_already_may_lie_in_other_files() -> None:
    """A compaction of a day that is stale by now; but not together with other content of what it was made of."""
    stale = FACT.model_copy(update={"made_of": None})
    assert FACT.content is not None
    shown = {TableDay("fact", D1): FACT.content}
    assert torn(bringing(("fact", stale), kind="compact"), shown) == {}
    assert torn(bringing(("fact", FACT), kind="compact"), shown) == {}
    assert torn(bringing(("fact", FACT), ("bronze", day(D1, 2))), shown).keys() == {TableDay("fact", D1)}


def test_a_day_of_which_some_rows_are_computed_stays_as_stale_as_it_was() -> None:
    """It may say that it is made of what main's other rows are made of, and so may its undo; no other day may."""
    assert FACT.content is not None
    key, read, again = TableDay("fact", D1), {"bronze": {D1: held(2)}}, day(D1, 6, {"bronze": {D1: held(1)}})
    some = again.model_copy(update={"only_where": "store = 3"})
    shown = {key: FACT.content}
    assert torn(bringing(("fact", some), read=read), shown) == {}
    assert torn(bringing(("fact", again), read=read), shown).keys() == {key}
    assert torn(bringing(("fact", some), read=read)).keys() == {key}, "main does not hold the other rows"
    assert torn(bringing(("fact", some), ("bronze", day(D1, 2))), shown).keys() == {key}
    other = {key: replace(FACT.content, code_version="v2")}
    assert torn(bringing(("fact", some), read=read), other).keys() == {key}
    undo, origin = bringing(("fact", FACT), read=read, kind="rollback"), Origin("p", only_where="store = 3")
    states = {key: DayState(*key, "p", 1, "", again.content, origin)}
    assert dict(torn_days(undo, states)) == {}
    assert dict(torn_days(undo, {key: replace(states[key], origin=Origin("p"))})).keys() == {key}
    back = some.model_copy(update={"origin": origin, "only_where": ""})
    assert torn(bringing(("fact", back), read=read, kind="rollback"), shown) == {}


@given(brought=st.dictionaries(st.sampled_from([D1, D2]), st.integers(0, 2)), shift=st.sampled_from([0, 0, 1]))
def test_any_part_of_its_inputs_may_come_along(brought: Mapping[date, int], shift: int) -> None:
    """The rest is what main held. One input that is another than it was made of tears it."""
    now = {each: held(brought.get(each, 9)) for each in BOTH}
    made = {**now, D2: held(brought.get(D2, 9) + shift)}
    bronze = TableChange(table="bronze", table_schema="", days=tuple(day(each, n) for each, n in brought.items()))
    report = TableChange(table="report", table_schema="", days=(day(D1, 50, {"bronze": made}),))
    read = InputRead(table="bronze", version=1, days={each: now[each] for each in BOTH if each not in brought})
    found = Publication(id="p", kind="replace", tables=(bronze, report), inputs=(read,))
    assert bool(torn(found)) == bool(shift)
