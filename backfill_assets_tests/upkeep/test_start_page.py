"""The words of the page on which people begin."""

from __future__ import annotations

from datetime import UTC, date, datetime

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.upkeep.start_page import DatasetState, StartPage, dataset_states
from backfill_assets_tests.defs.small_dataset import SMALL

DAYS = (date(2017, 3, 1), date(2017, 3, 2))
BUILT = DatasetState("sales", 12, DAYS)


def _state(table: str, day: date, content: DayContent | None) -> tuple[TableDay, DayState]:
    return TableDay(table, day), DayState(table, day, "p1", 3, "files", content)


def test_the_state_in_a_sentence() -> None:
    """What there is, whether it is sound, and what changed last."""
    at = datetime(2026, 11, 25, 1, 20, tzinfo=UTC)
    assert StartPage((BUILT, DatasetState("sea_temperatures", 0)), "p1", at).sentence == (
        "Published: sales: 2 days in 12 tables, 2017-03-01..2017-03-02. Every published day is made of what is "
        "published now: nothing to repair. The newest publication is p1 at 2026-11-25 01:20 UTC."
    )


def test_an_empty_lakehouse_says_what_to_do() -> None:
    """It is the first page of the first minute."""
    assert "Land data, then launch a range." in StartPage((DatasetState("sales", 0),)).sentence


def test_what_needs_a_person_is_counted_and_listed() -> None:
    """Before what sensors do by themselves."""
    state = StartPage((BUILT,), under_way=("3 days",), for_people=("one", "two"))
    assert "2 things below need a person." in state.sentence
    assert state.people == "- one\n- two"
    assert "1 thing below needs a person." in StartPage((BUILT,), for_people=("one",)).sentence
    assert "`repairs` is at work" in StartPage((BUILT,), under_way=("3 days",)).sentence
    assert StartPage((BUILT,)).people == "Nothing."


def test_a_long_list_is_cut_and_says_so() -> None:
    """Dagster shows a short text at once, and hides a long one behind a click."""
    people = StartPage((BUILT,), for_people=tuple(map(str, range(20)))).people
    assert people.endswith("- and 8 more: see the newest tick of `repairs`")


def test_the_days_are_those_of_the_last_daily_table() -> None:
    """Inputs have earlier days that only they need; a day that was withdrawn is none."""
    content = DayContent(rows=1, checksum="1")
    states = dict(
        [
            _state("raw_fx_rates", date(2017, 2, 27), content),
            _state("fact_daily_revenue", DAYS[0], content),
            _state("fact_daily_revenue", DAYS[1], None),
        ]
    )
    assert dataset_states([SMALL], states) == (DatasetState("small", 2, DAYS[:1]),)
