"""Sending to several places at once: order within a place, none waits for another, who hangs is given up."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import pytest

from backfill_assets.errors import NoAnswer, NotDelivered
from backfill_assets.publish.side_by_side import Answered, RoundLimits, SideBySide


def asked(
    messages: dict[str, str], send: Callable[[str, str], None], limits: RoundLimits, *here: str
) -> list[Answered]:  # type: ignore[type-arg]
    """``messages`` of each place, a letter each."""
    queues = {place: deque(letters) for place, letters in messages.items()}
    next_of = lambda place: queues[place].popleft() if queues[place] else None  # noqa: E731
    return list(SideBySide(next_of, send, limits, in_caller=here).answers(messages))


def test_who_hangs_is_given_up_and_holds_up_nobody() -> None:
    """Its second message is not tried; the others have theirs at once."""
    hangs, sent = threading.Event(), list[tuple[float, str]]()

    def send(place: str, message: str) -> None:
        if place == "hangs":
            hangs.wait(5)
        sent.append((time.monotonic(), message))

    begun = time.monotonic()
    found = asked({"hangs": "ab", "up": "cdefghijk"}, send, RoundLimits(0.5, 0.5))
    assert time.monotonic() - begun < 2
    assert [message for _, message in sent] == list("cdefghijk") and sent[-1][0] - begun < 0.4
    (given_up,) = [each for each in found if each.error]
    assert (given_up.place, given_up.message) == ("hangs", "a") and isinstance(given_up.error, NoAnswer)
    assert str(given_up.error) == "no answer within 0.5 s"
    hangs.set()


@pytest.mark.usefixtures("time")
def test_who_hangs_is_given_up_while_the_clock_stands() -> None:
    """It was waited for, whatever the clock shows; a simulated one does not go on meanwhile."""
    hangs = threading.Event()

    def send(place: str, message: str) -> None:
        if place == "hangs":
            hangs.wait(5)

    found = asked({"hangs": "ab", "up": "c"}, send, RoundLimits(0.1, 1))
    assert [each.message for each in found] == ["c", "a"] and isinstance(found[1].error, NoAnswer)
    hangs.set()


def test_a_refused_message_is_followed_by_the_next_and_an_accident_is_not_told_with_its_words() -> None:
    """The text of an exception of a library may hold the address."""

    def send(place: str, message: str) -> None:
        if message == "a":
            raise NotDelivered("no")
        if message == "b":
            raise ValueError("https://host/secret")

    found = asked({"one": "abc"}, send, RoundLimits())
    assert [str(each.error) for each in found] == ["no", "it failed with ValueError", "None"]


def test_nothing_is_begun_after_the_round_is_over() -> None:
    """What is left waits for the next round."""
    found = asked({"slow": "abcdef"}, lambda *_: time.sleep(0.2), RoundLimits(5, 0.3))
    assert "".join(each.message for each in found) == "ab"


@pytest.mark.parametrize("here", [("log",), ()], ids=["in the caller", "beside it"])
def test_the_log_is_written_in_the_callers_thread(here: tuple[str, ...]) -> None:
    """It belongs to a terminal, or to a run."""
    threads = list[threading.Thread]()
    asked({"log": "a"}, lambda *_: threads.append(threading.current_thread()), RoundLimits(), *here)
    assert (threads[0] is threading.current_thread()) is bool(here) and (here or threads[0].daemon)
