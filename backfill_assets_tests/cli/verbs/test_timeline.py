"""``backfill timeline``: what is made, rewound, listed, shown, kept and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.model.graph import read_by
from backfill_assets.rebuild import decide
from backfill_assets_tests.cli.command import Backfill, built_once
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FACT, RANKING, CLOSE = "fact_sales_transactions", "report_store_ranking", "report_monthly_close"
DAYS = MONDAY, TUESDAY, WEDNESDAY = tuple(date(2017, 3, day) for day in (6, 7, 8))
WEEK, MONTH = date(2017, 3, 6), date(2017, 3, 1)
Facts = Mapping[date, Sequence[int]]


def publish_facts(lakehouse: SmallLakehouse, id: str, facts: Facts, code: str) -> None:
    lakehouse.publish(id, {FACT: facts}, code=code, inputs=inputs_of(FACT, code, list(facts), {}))


def publish_reports(lakehouse: SmallLakehouse, id: str, facts: Facts) -> None:
    """Of the week and of the month, from ``facts``."""
    total = sum(number for ids in facts.values() for number in ids)
    for table, day in ((RANKING, WEEK), (CLOSE, MONTH)):
        rows = {table: {day: [total]}}
        inputs = inputs_of(table, "v1", [day], facts)
        lakehouse.publish(f"{id}-{table.replace('_', '-')}", rows, code="v1", inputs=inputs)


def wrong_then_right(lakehouse: SmallLakehouse) -> None:
    """Facts by v1 with their reports, and both again by v2: each day has another number."""
    for code, number in (("v1", 10), ("v2", 20)):
        facts = {day: [number + day.day] for day in DAYS}
        publish_facts(lakehouse, f"facts-{code}", facts, code)
        publish_reports(lakehouse, f"reports-{code}", facts)


def inputs_of(table: str, code: str, days: Sequence[date], facts: Facts) -> dict[date, str]:
    """The fingerprint of what each day is computed from: nothing but ``facts`` was ever published."""
    step = CATALOG.step(table)
    version = step.version(code)
    logicals = {
        name: dict.fromkeys(read, fingerprints.NEVER_PUBLISHED) for name, read in read_by(step, days, version).items()
    }
    if FACT in logicals:
        logicals[FACT] |= {day: fingerprints.logical(len(ids), sum(ids)) for day, ids in facts.items()}
    return {day: wanted.inputs for day, wanted in decide.wanted(step, version, days, logicals).items()}


REVENUE = "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@built_once
def rewound(backfill: Backfill) -> None:
    """The second day is as it was before its second publication, on the timeline ``before-v2``."""
    inputs = inputs_of(REVENUE, "v1", [FIRST, SECOND], {})
    backfill.lakehouse.publish("one", {REVENUE: {FIRST: [1, 2], SECOND: [3]}}, inputs=inputs)
    backfill.lakehouse.publish("two", {REVENUE: {SECOND: [4, 5]}}, code="v2", inputs=inputs)
    made = backfill.json("timeline", "rewind", REVENUE, "--to", "two^", "--as", "before-v2")
    assert (made["days"], made["moment"], made["rewound"]) == (1, "before publication two", [REVENUE])


def _tables(backfill: Backfill, name: str) -> dict[str, tuple[int, int]]:
    """Days and days that differ from main, by table."""
    rows = backfill.json("timeline", "show", name)["tables"]
    return {row["table"]: (row["days"], row["differ_from_main"]) for row in rows}


def _stale(answer: Any) -> dict[str, dict[str, str]]:
    return {row["table"]: dict.fromkeys(row["days"], row["why"]) for row in answer.get("stale", ())}


def _names(backfill: Backfill) -> list[str]:
    return [row["timeline"] for row in backfill.json("timeline", "list")["timelines"]]


def test_moments_are_listed_newest_first(rewound: Backfill) -> None:
    found = rewound.json("timeline", "rewind", REVENUE)["moments"]
    second = {"days": 1, "versions": ["v2"], "version_before": "v1"}
    assert [(each["publication"], each["kind"], each["changed"]) for each in found] == [
        ("two", "version switch", {REVENUE: second}),
        ("one", "publication", {REVENUE: {"days": 2, "versions": ["v1"]}}),
    ]
    assert rewound.json("timeline", "rewind", "raw_sales")["moments"] == []


def test_a_timeline_is_shown_beside_what_is_published(rewound: Backfill) -> None:
    assert _tables(rewound, "before-v2") == {REVENUE: (1, 1)}
    assert rewound.json("timeline", "show", "before-v2")["tables"][0]["which_days"] == [str(SECOND)]
    rewound.lakehouse.publish("three", {REVENUE: {SECOND: [3]}})
    assert _tables(rewound, "before-v2") == {REVENUE: (1, 0)}


def test_a_day_is_shown_as_it_is_on_the_timeline(rewound: Backfill) -> None:
    def shown(day: date, *on: str) -> tuple[str, int, list[int]]:
        found = rewound.json("show", REVENUE, day, *on)
        return found["status"], found["rows"], sorted(row["id"] for row in found["sample"])

    assert shown(SECOND, "--on", "before-v2") == ("a day of before-v2", 1, [3])
    assert shown(FIRST, "--on", "before-v2") == ("read through to the base of before-v2", 2, [1, 2])
    assert shown(SECOND)[1:] == (2, [4, 5])
    rewound("show", REVENUE, SECOND, "--on", "before-v2", "--at", "one", exit_code=2)
    output = rewound("show", REVENUE, SECOND, "--on", "elsewhere", exit_code=1).output
    assert "There is no timeline 'elsewhere'" in output


def test_a_damaged_day_of_a_timeline_is_computed_again_there(rewound: Backfill) -> None:
    """On main it would change what is published, and leave the timeline as it is."""
    (file,) = rewound.json("show", REVENUE, SECOND, "--on", "before-v2")["files"]
    (rewound.home / "lakehouse" / REVENUE / str(file["path"])).unlink()
    output = rewound("show", REVENUE, SECOND, "--on", "before-v2").output
    assert f"backfill run {REVENUE} --days {SECOND} --on before-v2 --force" in output
    assert f"--days {SECOND} --force" not in output and "No reader of before-v2" in output


def test_it_is_listed_renamed_and_deleted(rewound: Backfill) -> None:
    """Kept until it is deleted or its age is reached. What is published does not change by any of it."""
    before = rewound.json("history")
    rewound("timeline", "create", "trial")
    assert _names(rewound) == ["before-v2", "trial"]
    assert "kept_until" not in rewound.json("timeline", "show", "trial")
    kept = rewound.json("timeline", "keep", "trial", "--for", "14", "second-trial")["kept_until"]
    assert kept == rewound.json("timeline", "show", "second-trial")["kept_until"]
    assert "kept_until" not in rewound.json("timeline", "create", "copy", "--at", "second-trial")
    assert "kept_until" not in rewound.json("timeline", "keep", "second-trial")
    assert "add --yes" in rewound("timeline", "delete", "before-v2", exit_code=2).stderr
    for name in ("before-v2", "second-trial", "copy"):
        rewound("timeline", "delete", name, "--yes")
    assert "There is no timeline" in rewound("timeline", "list").output
    assert rewound.json("history") == before


def test_a_rewind_without_a_name_has_that_of_its_table(rewound: Backfill) -> None:
    assert rewound.json("timeline", "rewind", REVENUE, "--to", "one")["timeline"] == "fact-daily-revenue-rewound"


REFUSED: Sequence[tuple[tuple[str, ...], str]] = [
    (("timeline", "rewind", REVENUE, "--to", "one", "--as", "before-v2"), "already"),
    (("timeline", "rewind", REVENUE, "--to", "²", "--as", "x"), "There is no publication '²'."),
    (("timeline", "create", "x", "--at", "²"), "There is no publication '²'."),
    (("timeline", "rewind", REVENUE, "--to", "one^", "--as", "x"), "Nothing was published before one."),
    (("diff", "main", "²"), "'²'"),
    (("diff", "main", "9" * 5_000, "--table", REVENUE), "There is no publication '9999"),
    (("timeline", "keep", "before-v2", "--for", "999999999"), "cannot be kept for 999,999,999 days"),
    (("timeline", "keep", "before-v2", "--for", "9" * 30), "Leave --for out"),
]


def test_what_cannot_be_is_refused_before_anything_is_made(rewound: Backfill) -> None:
    """A name that is taken, what is no number, no day of the calendar, and nothing to carry forward."""
    for typed, message in REFUSED:
        assert message in rewound(*typed, exit_code=1).stderr
    assert _names(rewound) == ["before-v2"]
    rewound("timeline", "create", "empty")
    refused = rewound("timeline", "forward", "empty", exit_code=1).stderr
    assert "no days of its own" in refused and "--on empty builds some there" in refused


THEN = "reports-v1-report-monthly-close"
"""The publication after which everything is v1's."""
TWO_MOMENTS = f"reads days of two moments of {FACT}"
BOTH_STALE = {RANKING: {str(WEEK): TWO_MOMENTS}, CLOSE: {str(MONTH): TWO_MOMENTS}}


@built_once
def wrong(backfill: Backfill) -> None:
    """Three days and the reports of their week and month are v1's, and then v2's."""
    wrong_then_right(backfill.lakehouse)


def test_reports_of_a_part_that_went_back_stay_as_published_and_are_named_as_stale(wrong: Backfill) -> None:
    """The week of two moments was never computed: no report of one moment is shown for it without a word."""
    typed = ("timeline", "rewind", FACT, "--to", THEN, "--days", f"{MONDAY}..{TUESDAY}", "--as")
    made = wrong.json(*typed, "part")
    assert _stale(made) == BOTH_STALE and made["next"][0] == "backfill timeline forward part"
    assert _stale(wrong.json("timeline", "show", "part")) == BOTH_STALE
    assert {table: differ for table, (_, differ) in _tables(wrong, "part").items()} == {FACT: 2, RANKING: 0, CLOSE: 0}
    for table, day in ((RANKING, WEEK), (CLOSE, MONTH)):
        assert wrong.status_by_day(table, "--on", "part")[str(day)] == "stale: input changed"
        on = (day, "--on", "part")
        assert wrong.json("show", table, *on)["status"] == f"a day of part, stale: it {TWO_MOMENTS}"


def test_the_whole_week_and_month_go_back_with_their_reports_of_then(wrong: Backfill) -> None:
    made = wrong.json("timeline", "rewind", FACT, "--to", THEN, "--as", "all")
    assert _stale(made) == {} and made["days"] == 5
    assert {table: differ for table, (_, differ) in _tables(wrong, "all").items()} == {FACT: 3, RANKING: 1, CLOSE: 1}
    assert "stale" not in wrong.json("timeline", "show", "all")


def test_reports_of_equal_days_are_those_that_were_made_of_them(wrong: Backfill) -> None:
    """The third day became what it was at the moment: what was computed from the three then is right again."""
    publish_facts(wrong.lakehouse, "facts-again", {WEDNESDAY: [18]}, "v1")
    days = f"{MONDAY}..{TUESDAY}"
    made = wrong.json("timeline", "rewind", FACT, "--to", THEN, "--days", days, "--as", "equal")
    assert _stale(made) == {}
    tables = _tables(wrong, "equal")
    assert tables[RANKING] == tables[CLOSE] == (1, 1)


def test_a_report_that_was_not_published_at_the_moment_stays_as_published(wrong: Backfill) -> None:
    """It is nothing where all that it reads is of then, and main's, stale, where a part is."""
    made = wrong.json("timeline", "rewind", FACT, "--to", "facts-v1", "--as", "before-reports")
    assert _stale(made) == {}
    assert "rows" not in wrong.json("show", CLOSE, MONTH, "--on", "before-reports")
    typed = ("timeline", "rewind", FACT, "--to", "facts-v1", "--days", str(TUESDAY), "--as", "part")
    assert _stale(wrong.json(*typed)) == BOTH_STALE


def test_a_report_that_is_asked_for_is_what_it_was_and_is_stale_beside_facts_of_now(wrong: Backfill) -> None:
    asked = ("--to", THEN, "--as", "close")
    assert _stale(wrong.json("timeline", "rewind", CLOSE, *asked)) == {
        CLOSE: {str(MONTH): f"was computed from other days of {FACT} than the timeline shows"}
    }


def test_the_difference_says_which_days_of_a_state_are_stale(wrong: Backfill) -> None:
    wrong("timeline", "rewind", FACT, "--to", THEN, "--days", f"{MONDAY}..{TUESDAY}", "--as", "part")
    found = wrong.json("diff", "main", "part", "--table", RANKING, "--table", CLOSE)
    assert {table["table"]: (table["differ"], table["of"]) for table in found["tables"]} == {
        RANKING: (0, 1),
        CLOSE: (0, 1),
    }
    lines = [f"stale on part: {table} {day} {TWO_MOMENTS}" for table, day in ((RANKING, WEEK), (CLOSE, MONTH))]
    assert [each["text"] for each in found["notes"] if each["text"].startswith("stale on")] == lines
    publish_reports(wrong.lakehouse, "again", {day: [20 + day.day] for day in DAYS})
    notes = wrong.json("diff", "main", "facts-v2", "--table", RANKING).get("notes", [])
    assert [each for each in notes if "stale" in each["text"]] == []
