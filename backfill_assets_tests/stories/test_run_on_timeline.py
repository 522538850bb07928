"""Days are built on a timeline as on main: its gates decide, a step takes all of its days or none, main stays."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_assets.cli import foreground
from backfill_assets.lakehouse import named_timelines
from backfill_assets.lakehouse.named_timelines import NamedTimeline, find_timeline
from backfill_assets.rebuild import step_build
from backfill_assets.timeline import build
from backfill_assets.timeline.opened import open_timeline
from backfill_assets_tests.cli.command import backfill, types
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import (
    DAYS,
    FACT,
    LATE_DAY,
    REPORTS,
    TABLES,
    contents,
    held,
    land_late,
    refuse,
    timeline,
)
from backfill_assets_tests.workshop import Workshop

WITHOUT_LATE = ("--days", f"{DAYS.first}..2017-03-06", "--days", f"2017-03-08..{DAYS.last}")


@pytest.fixture
def workshop(wrong: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Nine days by v1, with all reports; the current logic is v2."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    return wrong


def test_a_run_builds_on_the_timeline_what_main_would_have(
    workshop: Workshop, righted: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that is computed from it; a second run computes nothing and starts no Spark."""
    old = contents(workshop)
    backfill("timeline", "create", "trial")
    done = types("run", f"{FACT}+", "--days", str(DAYS), "--on", "trial")
    assert {step["table"]: step["staged"] for step in done["steps"]}[FACT] == [str(DAYS)]
    assert contents(workshop) == old
    assert statuses("trial", *TABLES) == {"fresh"} and statuses(None, FACT) == {"stale: code changed"}
    (shown,) = types("status", FACT, "--on", "trial")["tables"]
    assert shown["of_its_own"] == [str(DAYS)]

    started: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(foreground, "foreground_spark", lambda *_: started.append(1))
        again = types("run", f"{FACT}+", "--days", str(DAYS), "--on", "trial")
        assert "Nothing was computed" in backfill("run", FACT, "--days", str(DAYS), "--on", "trial").output
    assert started == [] and again["revision"] == done["revision"]
    assert [step["staged"] for step in again["steps"]] == [[]] * len(again["steps"])

    is_traced_on_the_timeline(workshop)
    assert_a_campaign_is_a_place(held(workshop, "trial"))
    new = contents(righted)
    assert held(workshop, "trial") == {key: new[key] for key in held(workshop, "trial")} != {}
    monkeypatch.setenv("BACKFILL_HOME", str(righted.settings.home))
    backfill("timeline", "create", "as-main", "--at", "main")
    assert (
        f"{FACT}: 0 staged, 0 from main, 9 unchanged"
        in backfill("run", FACT, "--days", str(DAYS), "--on", "as-main").stderr
    )
    assert types("run", FACT, "--days", str(DAYS), "--on", "as-main")["revision"] == 0


def is_traced_on_the_timeline(workshop: Workshop) -> None:
    """With the amount by the timeline's logic in fact, and by main's on main."""
    on_main = workshop.read(FACT).sort_values("transaction_id")
    table = open_timeline(workshop.builder.lake.storage, "trial").dataset(FACT).to_table()
    amounts = {row["transaction_id"]: row["amount_eur"] for row in table.to_pylist()}
    rows = on_main[["transaction_id", "amount_eur"]].itertuples(index=False, name=None)
    key, old = next((key, amount) for key, amount in rows if amounts[key] != amount)
    for words, amount, version in ((("--on", "trial"), amounts[key], "v2"), ((), old, "v1")):
        trail = types("trace", key, *words)
        found = {row["table"]: row for row in trail["rows"]}
        assert found.keys() >= {"raw_sales", "bronze_sales", FACT, *REPORTS}
        assert found[FACT]["row"]["amount_eur"] == str(amount) and found[FACT]["code"] == version
        assert (found[FACT]["publication"] == "of its own") is bool(words)
        assert found["bronze_sales"]["publication"]
    assert "of its own" in backfill("trace", key, "--on", "trial").output


def assert_a_campaign_is_a_place(staged: dict[tuple[str, str], object]) -> None:
    """Publishing the timeline stages a plan: the campaign's timeline is read as any other, and changed by none."""
    plan = types("timeline", "publish", "trial")["plan"]
    assert [(each["timeline"], each["of"]) for each in types("timeline", "list")["timelines"]] == [
        ("trial", ""),
        (plan, "a campaign"),
    ]
    differing = [
        {row["table"]: row["differ_from_main"] for row in types("timeline", "show", name)["tables"]}
        for name in (plan, "trial")
    ]
    assert differing[0] == differing[1] != {}
    days = types("status", FACT, "--on", plan)[FACT]["days"]
    assert {day["status"] for day in days if day["publication"] == "of its own"} == {"fresh"}
    shown = types("show", FACT, str(DAYS.first), "--on", plan)
    assert (shown["rows"], shown["checksum"]) == staged[FACT, str(DAYS.first)]
    for words in (
        ("timeline", "keep", plan, "mine"),
        ("run", FACT, "--days", str(DAYS), "--on", plan),
    ):
        assert f"backfill timeline delete {plan}" in backfill(*words, exit_code=1).stderr
    assert "backfill diff main" in backfill("timeline", "open", plan, exit_code=1).stderr
    backfill("timeline", "delete", plan, "--yes")
    assert "There is no open campaign" in backfill("timeline", "show", plan, exit_code=1).stderr


def test_a_failed_gate_keeps_the_timeline_as_it_was_and_good_days_are_used_by_the_next_run(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    land_lines(workshop.settings.landing, LATE_DAY, "unknown-currency", 1, {"currency": "XTS"})
    for table in ("raw_sales", "bronze_sales"):
        workshop.build(table, DAYS)
    old = contents(workshop)
    backfill("timeline", "create", "trial")
    failed = backfill("run", f"{FACT}+", "--days", str(DAYS), "--on", "trial", exit_code=1)
    for words in (f"{FACT}: 1 day did not pass the gates", f"{FACT} {LATE_DAY} rates_found", "8 staged days"):
        assert words in failed.stderr
    assert timeline(workshop, "trial").revision == 0 and contents(workshop) == old
    assert statuses("trial", FACT) == {"stale: code changed", "stale: input changed"} - {"stale: input changed"}
    with monkeypatch.context() as patch:
        patch.setattr(step_build, "write_chunk", refuse)
        done = types("run", FACT, *WITHOUT_LATE, "--on", "trial")
    assert done["steps"][0]["staged"] == [text for text in WITHOUT_LATE if text != "--days"]
    assert {day for _, day in held(workshop, "trial")} == {str(day) for day in DAYS if day != LATE_DAY}
    assert contents(workshop) == old


def test_inputs_are_those_of_the_base_however_main_moves(workshop: Workshop) -> None:
    before = types("history", "bronze_sales")["publications"][0]["publication"]
    backfill("timeline", "create", "now")
    land_late(workshop, built=("raw_sales", "bronze_sales"))
    backfill("timeline", "create", "then", "--at", before)
    backfill("timeline", "create", "later")
    rows = {}
    for name in ("now", "then", "later"):
        types("run", FACT, "--days", str(LATE_DAY), "--on", name)
        (found,) = timeline(workshop, name).held(FACT).values()
        assert found.content is not None
        rows[name] = found.content.rows
        by_day = {row["day"]: row["status"] for row in types("status", FACT, "--on", name)[FACT]["days"]}
        assert by_day[str(LATE_DAY)] == "fresh"
    on_main = len(workshop.read(FACT)[workshop.read(FACT)["day"] == LATE_DAY])
    assert rows == {"now": on_main, "then": on_main, "later": on_main + 1}


def test_a_killed_run_leaves_the_timeline_as_it_was(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it staged is used by the next one; so it is after another process was first to change the timeline."""
    backfill("timeline", "create", "trial")
    asked = ("run", FACT, "--days", str(DAYS), "--on", "trial")
    with monkeypatch.context() as patch:
        patch.setattr(build, "change_timeline", killed)
        assert "stays as it is" in backfill(*asked, exit_code=130).stderr
    with monkeypatch.context() as patch:
        patch.setattr(step_build, "write_chunk", killed)
        backfill("run", f"{FACT}+", "--days", str(DAYS), "--on", "trial", exit_code=130)
    assert timeline(workshop, "trial").revision == 0, "killed in its second step"
    monkeypatch.setattr(step_build, "write_chunk", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(build, "change_timeline", another_is_first)
        assert "run the command again" in backfill(*asked, exit_code=1).stderr
    assert timeline(workshop, "trial").change == "renamed by another"
    assert types(*asked)["steps"][0]["staged"] == [str(DAYS)]
    assert timeline(workshop, "trial").revision == 2


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def another_is_first(storage: Any, timeline: NamedTimeline, change: str, now: Any) -> NamedTimeline:
    newest = find_timeline(storage, timeline.name, now)
    named_timelines.change_timeline(storage, newest, "renamed by another", now)
    return named_timelines.change_timeline(storage, timeline, change, now)


def statuses(name: str | None, *tables: str) -> set[str]:
    on = ("--on", name) if name else ()
    found = types("status", "--days", str(DAYS), *on)["tables"]
    return {row["status"] for row in found if row["table"] in tables}
