"""Several notices as one message: as urgent as what is not over, and which messages it answers."""

from __future__ import annotations

import pytest

from backfill_assets.lakehouse.records import Notice
from backfill_assets.notice_routes import Severity
from backfill_assets.publish.due_notice import DueNotice, in_one_message
from backfill_assets.publish.endings import Told


def due(key: str, severity: Severity = "warning", *, over: bool = False, before: Told | None = None) -> DueNotice:
    notice = Notice(title=key, severity=severity, dataset="sales", incident=key, resolved=over)
    return DueNotice(key, notice, before=before)


@pytest.mark.parametrize(
    ("dues", "severity", "is_over", "title"),
    [
        ([due("a"), due("b", "critical")], "critical", False, "2 notices about sales"),
        ([due("a", "critical", over=True), due("b")], "warning", False, "2 notices about sales, 1 over"),
        (
            [due("a", "critical", over=True), due("b", "critical", over=True)],
            "info",
            True,
            "2 notices about sales",
        ),
    ],
    ids=["the most urgent", "what is over does not count", "all over"],
)
def test_a_message_is_as_urgent_as_what_is_not_over(
    dues: list[DueNotice], severity: Severity, is_over: bool, title: str
) -> None:
    found = in_one_message(dues)
    assert (found.notice.severity, found.notice.resolved, found.notice.title) == (severity, is_over, title)
    assert found.key == "a" and [each.notice.resolved for each in found.parts] == sorted(
        each.notice.resolved for each in dues
    )


def test_a_message_of_one_is_that_notice() -> None:
    only = due("a")
    assert in_one_message([only]) is only and only.parts == (only,)


def test_it_answers_the_first_messages_of_its_incidents_and_not_itself() -> None:
    """What is sent again because a process died has the key of the first message itself."""
    told = [Told(keys=("x",), message=first) for first in ("m1", "m2", "m1", "a")]
    found = in_one_message([due(key, before=each) for key, each in zip("abcd", told, strict=True)])
    assert found.firsts == ("m1", "m2") and due("e").firsts == ()
