"""When a native backfill is stopped, and what people are told: a table of cases."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from backfill_assets.limits import BackfillLimits
from backfill_assets.upkeep.backfill_breaker import RunAttempt, backfill_notice, judge_backfill

WELL, FAILED, UNDER_WAY = "succeeded", "failed", "under way"
CORES, PRICE = 2, Decimal("0.001")


def runs(*given: tuple[str, float], of: Sequence[str] = ()) -> list[RunAttempt]:
    """Oldest first; ``of`` names the first run of those that are attempts at the same."""
    names = [f"run-{number}" for number in range(len(given))]
    firsts = [*of, *names[len(of) :]]
    found = zip(names, firsts, given, strict=True)
    return [RunAttempt(name, first, how, seconds) for name, first, (how, seconds) in found]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "seen", "stops", "near"),
    [
        ("", [], "", ""),
        ("", runs((WELL, 10), (UNDER_WAY, 5)), "", ""),
        ("", runs(*[(FAILED, 10)] * 2), "", ""),
        ("", runs(*[(FAILED, 10)] * 3), "3 of 3 runs failed, and at most 20 % may.", ""),
        ("", runs(*[(FAILED, 10)] * 3, *[(WELL, 10)] * 12), "", ""),
        ("", runs(*[(FAILED, 10)] * 3, *[(WELL, 10)] * 11), "3 of 14 runs failed, and at most 20 % may.", ""),
        ("", runs(*[(FAILED, 10)] * 3, *[("canceled", 10)] * 20), "3 of 3 runs failed, and at most 20 % may.", ""),
        ("errors=none", runs(*[(FAILED, 10)] * 9), "", ""),
        ("", runs(*[(FAILED, 10), (WELL, 10)] * 3, of=["a", "a", "b", "b", "c", "c"]), "", ""),
        ("", runs(*[(FAILED, 10)] * 6, of=["a", "a", "a", "b", "b", "b"]), "", ""),
        ("", runs(*[(WELL, 60)] * 3, (UNDER_WAY, 600)), "", ""),
        (
            "",
            runs(*[(WELL, 60)] * 3, (UNDER_WAY, 6000)),
            "the run run-3 has taken 6,000 s, 100 times the median of the others, and at most 10 may.",
            "",
        ),
        ("", runs(*[(WELL, 1)] * 3, (UNDER_WAY, 599)), "", ""),
        ("", runs(*[(WELL, 1)] * 2, (UNDER_WAY, 6000)), "", ""),
        ("slower=none", runs(*[(WELL, 60)] * 3, (UNDER_WAY, 6000)), "", ""),
        ("core_seconds=100", runs((WELL, 40)), "", ""),
        (
            "core_seconds=100",
            runs((WELL, 30), (UNDER_WAY, 15)),
            "",
            "it has taken 90 core seconds: 90 % of the 100 s granted.",
        ),
        (
            "core_seconds=100",
            runs((FAILED, 30), (WELL, 30), of=["a", "a"]),
            "it has taken 120 core seconds, and at most 100 s was granted.",
            "",
        ),
        ("money=0.5", runs((WELL, 300)), "it has cost 0.6000, and at most 0.5 was granted.", ""),
        (
            "money=0.5,core_seconds=650",
            runs((WELL, 300)),
            "it has cost 0.6000, and at most 0.5 was granted.",
            "it has taken 600 core seconds: 92.31 % of the 650 s granted.",
        ),
    ],
)
def test_what_is_over_a_limit_is_stopped_and_named(
    limits: str, seen: Sequence[RunAttempt], stops: str, near: str
) -> None:
    """What stops it comes first. The last attempt of a run counts, and all of them were paid for."""
    found = judge_backfill(BackfillLimits.parse(limits), seen, CORES, PRICE)
    assert [each.sentence for each in found] == [said for said in (stops, near) if said]
    assert [each.stops for each in found] == [True] * bool(stops) + [False] * bool(near)


def test_people_are_told_what_stopped_it_and_what_to_do() -> None:
    (over,) = judge_backfill(BackfillLimits(), runs(*[(FAILED, 10)] * 3), CORES, None)
    told = backfill_notice("abcdefgh", "March again", over, "sales")
    assert told.title == "The backfill abcdefgh was stopped by a limit: March again"
    assert (told.severity, told.dataset) == ("critical", "sales")
    assert told.lines[0] == "errors: 3 of 3 runs failed, and at most 20 % may." and "re-execute" in told.lines[1]
    (near,) = judge_backfill(BackfillLimits.parse("core_seconds=100"), runs((WELL, 45)), CORES, None)
    assert backfill_notice("abcdefgh", "", near, "").severity == "warning"
