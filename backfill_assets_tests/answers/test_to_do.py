"""What needs a person now: each item whole and short, with one next step, the most urgent first."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.answers.to_do import (
    MOST_ITEMS,
    SHOWN_AT_ONCE,
    ToDo,
    Urgency,
    as_markdown,
    entries,
    fitting,
    most_urgent_first,
    of_action,
)
from backfill_assets.days import DayRange
from backfill_assets.state.diagnosis import Cause, Diagnosis, diagnose
from backfill_assets.text import escape_markdown
from backfill_assets.upkeep.for_people import ManualAction
from backfill_assets.upkeep.incidents import Acknowledgement, Incident

AT = datetime(2017, 4, 1, 3, tzinfo=UTC)
DAYS = (date(2017, 3, 1), date(2017, 3, 2))
FOREIGN_RAW = diagnose({Cause.FOREIGN_RAW: ""})
DISAGREES = diagnose({Cause.DISAGREES: "EUR 1 apart"})


def _item(action: ManualAction, *incidents: Incident) -> ToDo:
    return of_action(action, incidents, lambda table, days: f"/plan/{table}/{days}", lambda plan: f"/start/{plan}")


def _incident(diagnosis: Diagnosis, **more: object) -> Incident:
    seen = {"cause": diagnosis.cause, "severity": diagnosis.severity, "words": diagnosis.words}
    days = {"days": DAYS[:1], "opened": AT, "confidence": "1", "state": "person"}
    return Incident.model_validate({"id": "i-1", "table": "fact", "dataset": "d", **seen, **days, **more})


def test_days_of_an_older_version_lead_to_a_plan() -> None:
    """Building them by hand would publish without a difference."""
    plan = DayRange(*DAYS)
    action = ManualAction(
        "fact", DAYS, "made by v1", f"compare v2 with it: backfill plan fact --days {plan}", plan=plan
    )
    item = _item(action)
    assert item.urgency is Urgency.CHOICE
    assert as_markdown(item) == (
        "[**fact 2017-03-01..2017-03-02**](/assets/fact?view=partitions&partition=2017-03-01): made by v1.\n\n"
        "To do: [compare v2 with it](/plan/fact/2017-03-01..2017-03-02), "
        "or in a terminal: `backfill plan fact --days 2017-03-01..2017-03-02`"
    )


def test_commands_in_words_are_code() -> None:
    action = ManualAction(
        "fact", DAYS, "", "look at it (backfill show); if it is right, backfill incident close", DISAGREES
    )
    assert as_markdown(_item(action)).endswith(
        "To do: look at it (`backfill show`); if it is right, `backfill incident close`"
    )


def test_an_item_knows_its_incident() -> None:
    """Its page, who looks after it, and the plan that was made of a repair beyond its bounds: no second step."""
    action = ManualAction("fact", DAYS, "EUR 1 apart", "backfill run fact+ --days 2017-03-01", DISAGREES)
    other = _incident(FOREIGN_RAW)
    assert _item(action, other).page.startswith("/assets/fact?")
    said = Acknowledgement(by="ana", at=AT, until=AT + timedelta(hours=4))
    known = _item(action, other, _incident(DISAGREES, plan="plan-1", acknowledged=said))
    assert (known.page, known.urgency) == ("/assets/incidents", Urgency.LOOKED_AFTER)
    assert known.why == "EUR 1 apart (looked after by ana until 2017-04-01 07:00 UTC)"
    assert as_markdown(known).endswith(
        "To do: [start its plan](/start/plan-1), or in a terminal: `backfill run plan-1`"
    )


def test_the_most_urgent_comes_first() -> None:
    found = [ToDo("a choice", Urgency.CHOICE), ToDo("b", Urgency.WRONG), ToDo("unsafe", Urgency.SAFETY)]
    assert [each.title for each in most_urgent_first([*found, ToDo("c", Urgency.WRONG)])] == [
        "unsafe",
        "b",
        "c",
        "a choice",
    ]
    raw = _item(ManualAction("raw", DAYS, "", "", FOREIGN_RAW))
    assert raw.urgency is Urgency.SAFETY, "critical"
    assert _item(ManualAction("fact", DAYS, "", "", DISAGREES)).urgency is Urgency.WRONG


def test_one_item_has_no_number_and_many_say_how_many_more() -> None:
    assert entries([], "now", "[all](/x)") == {"now": "Nothing."}
    one = ToDo("one", Urgency.WRONG)
    assert entries([one], "now", "") == {"now": "**one**."}
    many = entries([one] * (MOST_ITEMS + 8), "now", "[all](/x)")
    assert list(many)[:2] == ["now, 1", "now, 2"] and len(many) == MOST_ITEMS + 1
    assert many["now, more"] == "8 more things, less urgent: [all](/x)."


@given(st.text("ab *_&<\n\x1b.", max_size=40), st.sampled_from(["", "*", "&", "a "]), st.integers(0, 900))
def test_title_link_and_step_are_whole_however_long_the_reason_is(why: str, mark: str, times: int) -> None:
    item = ToDo(
        "raw_sales 2017-03-01: foreign write", Urgency.WRONG, why + mark * times, "/page", "backfill raw restore"
    )
    shown = as_markdown(item)
    assert len(shown) <= SHOWN_AT_ONCE
    assert shown.startswith(f"[**{escape_markdown(item.title)}**](/page)")
    assert shown.endswith("\n\nTo do: `backfill raw restore`")


@given(st.lists(st.text("ab", min_size=1, max_size=300), max_size=40))
def test_blocks_are_shown_whole_or_counted(blocks: list[str]) -> None:
    shown = fitting(blocks)
    assert len(shown) <= SHOWN_AT_ONCE
    if shown != "\n\n".join(blocks):
        *first, last = shown.split("\n\n")
        assert first == blocks[: len(first)] and last == f"and {len(blocks) - len(first)} more"
