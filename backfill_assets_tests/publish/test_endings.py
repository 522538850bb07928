"""What becomes of an incident that is over, at one place: a table of cases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backfill_assets.publish.endings import Ending, Told, ending

MARCH = datetime(2017, 3, 1, 3, tzinfo=UTC)
OPENED = Told().and_now("opened", "warning", "m1", MARCH)


@pytest.mark.parametrize(
    ("begun", "told", "dropped", "is_told"),
    [
        ([], OPENED, [], True),
        (["opened"], None, ["opened"], False),
        (["opened", "given-up"], None, ["opened", "given-up"], False),
        (["given-up"], OPENED, ["given-up"], True),
        (["opened"], OPENED, [], True),
        ([], None, [], False),
        ([], Told(), [], False),
        (["opened"], Told(), ["opened"], False),
    ],
    ids=[
        "told",
        "withheld",
        "both withheld",
        "the second withheld",
        "in doubt",
        "never wanted",
        "dropped",
        "dropped now",
    ],
)
def test_an_end_is_told_where_the_beginning_was(
    begun: list[str], told: Told | None, dropped: list[str], is_told: bool
) -> None:
    assert ending(begun, told) == Ending(frozenset(dropped), is_told=is_told)


def test_the_first_message_stays_the_first_and_the_newest_urgency_is_last() -> None:
    """A mail answers the first one; sending one again changes nothing."""
    worse = OPENED.and_now("given-up", "critical", "m2", MARCH.replace(hour=4))
    assert (worse.message, worse.at, worse.severities) == ("m1", MARCH, ("warning", "critical"))
    assert worse.keys == ("opened", "given-up") and OPENED.and_now("opened", "warning", "m1", MARCH) == OPENED
