"""``backfill timeline`` and ``backfill rewind``: what is made, listed, shown, renamed and deleted."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets_tests.cli.command import Backfill

REVENUE = "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@pytest.fixture
def rewound(backfill: Backfill) -> Backfill:
    """The second day is as it was before its second publication, on the timeline ``before-v2``."""
    backfill.lakehouse.publish("one", {REVENUE: {FIRST: [1, 2], SECOND: [3]}})
    backfill.lakehouse.publish("two", {REVENUE: {SECOND: [4, 5]}}, code="v2")
    made = backfill.json("rewind", REVENUE, "--before", "two", "--on", "before-v2")
    assert (made["days"], made["moment"], made["targets"]) == (1, "before publication two", [REVENUE])
    return backfill


def test_moments_are_listed_newest_first(rewound: Backfill) -> None:
    found = rewound.json("rewind", REVENUE, "--list")
    assert [(each["publication"], each["days"]) for each in found] == [("two", {REVENUE: 1}), ("one", {REVENUE: 2})]
    assert "1 day of v2" in rewound("rewind", REVENUE, "--list").output


def test_a_timeline_is_shown_beside_what_is_published(rewound: Backfill) -> None:
    assert rewound.json("timeline", "show", "before-v2")["tables"] == {REVENUE: {"days": 1, "differing": 1}}
    output = rewound("timeline", "show", "before-v2").output
    assert "rewound to before publication two" in output and str(SECOND) in output
    rewound.lakehouse.publish("three", {REVENUE: {SECOND: [3]}})
    assert rewound.json("timeline", "show", "before-v2")["tables"] == {REVENUE: {"days": 1, "differing": 0}}


def test_a_day_is_shown_as_it_is_on_the_timeline(rewound: Backfill) -> None:
    def shown(day: date, *on: str) -> tuple[str, int, list[int]]:
        found = rewound.json("show", REVENUE, "--day", day, *on)
        return found["status"], found["rows"], sorted(row["id"] for row in found["sample"])

    assert shown(SECOND, "--on", "before-v2") == ("a day of before-v2", 1, [3])
    assert shown(FIRST, "--on", "before-v2") == ("read through to the base of before-v2", 2, [1, 2])
    assert shown(SECOND)[1:] == (2, [4, 5])
    rewound("show", REVENUE, "--day", SECOND, "--on", "before-v2", "--publication", "one", exit_code=2)
    output = rewound("show", REVENUE, "--day", SECOND, "--on", "elsewhere", exit_code=1).output
    assert "There is no timeline 'elsewhere'" in output


def test_a_damaged_day_of_a_timeline_is_computed_again_there(rewound: Backfill) -> None:
    """On main it would change what is published, and leave the timeline as it is."""
    (file,) = rewound.json("show", REVENUE, "--day", SECOND, "--on", "before-v2")["files"]
    (rewound.home / "lakehouse" / REVENUE / str(file["path"])).unlink()
    output = rewound("show", REVENUE, "--day", SECOND, "--on", "before-v2").output
    assert f"backfill run {REVENUE} --days {SECOND} --on before-v2 --force" in output
    assert f"--days {SECOND} --force" not in output and "no reader of before-v2" in output


def test_it_is_listed_renamed_and_deleted(rewound: Backfill) -> None:
    """What is published does not change by any of it."""
    before = rewound.json("history")
    rewound("timeline", "create", "trial", "--keep-for", "14")
    assert [each["name"] for each in rewound.json("timeline", "list")] == ["before-v2", "trial"]
    assert "trial" in rewound("timeline", "list").output
    rewound("timeline", "rename", "trial", "second-trial")
    assert "add --yes" in rewound("timeline", "delete", "before-v2", exit_code=2).stderr
    for name in ("before-v2", "second-trial"):
        rewound("timeline", "delete", name, "--yes")
    assert "There is no timeline" in rewound("timeline", "list").output
    assert rewound.json("history") == before


def test_what_is_missing_or_too_much_is_said_before_anything_is_made(rewound: Backfill) -> None:
    both = ("--to", "one", "--before", "two")
    assert "Give one of --to" in rewound("rewind", REVENUE, *both, "--on", "x", exit_code=2).stderr
    assert "--on NAME is missing" in rewound("rewind", REVENUE, "--to", "one", exit_code=2).stderr
    assert "already" in rewound("rewind", REVENUE, "--to", "one", "--on", "before-v2", exit_code=1).stderr
    refused = _forward_of_an_empty_one(rewound)
    assert "no days of its own" in refused and "--on empty builds some there" in refused
    assert len(rewound.json("timeline", "list")) == 2


def _forward_of_an_empty_one(backfill: Backfill) -> str:
    backfill("timeline", "create", "empty")
    return backfill("forward", "empty", exit_code=1).stderr


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("rewind", REVENUE, "--to", "²", "--on", "x"), "There is no publication '²'."),
        (("timeline", "create", "x", "--base", "²"), "There is no publication '²'."),
        (("diff", "main", "²"), "'²'"),
        (("diff", "main", "9" * 5_000, "--table", REVENUE), "There is no publication '9999"),
        (("timeline", "create", "x", "--keep-for", "999999999"), "cannot be kept for 999,999,999 days"),
        (("rewind", REVENUE, "--to", "one", "--on", "x", "--keep-for", "9" * 30), "Leave --keep-for out"),
    ],
)
def test_what_is_no_number_and_no_day_of_the_calendar_is_refused(
    rewound: Backfill, typed: tuple[str, ...], message: str
) -> None:
    assert message in rewound(*typed, exit_code=1).stderr
    assert [each["name"] for each in rewound.json("timeline", "list")] == ["before-v2"]
