"""What people see of a day's quality: it must not look better than it is, and not lose what was judged."""

from __future__ import annotations

import pytest

from backfill_assets.model.declaration import Dimension, RuleOutcome, Severity
from backfill_assets.quality.gates import (
    DIMENSIONS,
    DimensionQuality,
    chart,
    from_record,
    score,
    summarize,
    to_metrics,
)


def _outcome(
    dimension: Dimension, *, passed: bool = True, rule: str = "rule", severity: Severity = "error"
) -> RuleOutcome:
    return RuleOutcome(rule, dimension, passed, "3 rows", "at most 2", "", severity)


MIXED = (
    _outcome("completeness"),
    _outcome("completeness", passed=False, rule="late_news", severity="warning"),
    _outcome("completeness", passed=False, rule="lost"),
    _outcome("completeness"),
    _outcome("uniqueness"),
    _outcome("timeliness", passed=False, rule="arrived_within", severity="warning"),
)


def test_every_dimension_is_counted_and_the_worst_is_named() -> None:
    """An error is worse than a warning, whichever comes first; a dimension without rules is shown without a share."""
    found = {each.dimension: each for each in summarize(MIXED)}
    assert tuple(found) == DIMENSIONS
    assert (found["completeness"].passed, found["completeness"].rules) == (2, 4)
    assert found["completeness"].worst == "lost: 3 rows, expected at most 2"
    assert found["timeliness"].worst == "warning: arrived_within: 3 rows, expected at most 2"
    assert (found["uniqueness"].worst, found["uniqueness"].share) == ("", 1.0)
    assert (found["validity"].rules, found["validity"].share) == (0, None)


def test_the_score_counts_rules_and_not_dimensions() -> None:
    """A dimension with one rule must not weigh as much as one with four; nothing judged is not a good score."""
    assert score(summarize(MIXED)) == 3 / 6
    assert score(summarize(())) is None


def test_the_chart_has_a_bar_for_each_dimension() -> None:
    """Read in a monospaced block of the UI, under each other."""
    assert chart(summarize(MIXED)).splitlines() == [
        "```",
        "completeness █████░░░░░ 2/4",
        "uniqueness   ██████████ 1/1",
        "validity     ·········· no rule",
        "consistency  ·········· no rule",
        "timeliness   ░░░░░░░░░░ 0/1",
        "```",
    ]


def test_one_broken_rule_of_many_leaves_a_gap_in_the_bar() -> None:
    """Rounding must not hide it."""
    assert "█████████░ 99/100" in chart([DimensionQuality("validity", passed=99, rules=100)])


def test_what_was_judged_can_be_had_back_from_the_record() -> None:
    """A reused day shows the counts of its publication; a day from before they were kept shows none."""
    kept = to_metrics(MIXED)
    assert kept["quality.completeness.passed"] == 2
    assert not any("validity" in name for name in kept)
    again = from_record({"rows": 5, **kept})
    assert again is not None
    assert [(each.passed, each.rules) for each in again] == [(each.passed, each.rules) for each in summarize(MIXED)]
    assert from_record({"rows": 5}) is None


@pytest.mark.parametrize("deliveries", [1, 3])
def test_deliveries_of_one_day_add_up(deliveries: int) -> None:
    """Raw is appended to, and the log sums what its parts recorded: the share stays one between 0 and 1."""
    kept = {name: count * deliveries for name, count in to_metrics(MIXED).items()}
    assert score(from_record(kept) or ()) == 0.5
