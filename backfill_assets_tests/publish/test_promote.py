"""Promotion: what moved is staged again, within bounds, and after some tries others are asked to let it pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import date

import pytest

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish.holds import all_holds, holding, put_hold
from backfill_assets.publish.promote import Again, promote
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets_tests.protocol.lake import D1, D2, Lake


@dataclass
class Staged:
    """Two days of ``t``; ``meanwhile`` is done when a try has staged them."""

    lake: Lake
    meanwhile: Callable[[int], object]
    tries: list[bool] = field(default_factory=list)
    """Of each try, whether it was made under a hold."""
    moved: list[Conflict] = field(default_factory=list)

    def stage(self, *, held: bool) -> Publication | Conflict | None:
        self.tries.append(held)
        number = len(self.tries)
        pin = self.lake.pin({"t": {D1: [], D2: []}})
        request = self.lake.request(f"mine-{number}", {"t": {D1: [f"{number}"], D2: ["b"]}}, pin)
        self.meanwhile(number)
        return request

    def overtaken(self, by: Conflict) -> Again:
        self.moved.append(by)
        return Again("once more", PublicationRefused("others were faster"))


def overtaking(lake: Lake, times: int) -> Callable[[int], None]:
    """Another writer publishes a day, in the first tries."""

    def publish(number: int) -> None:
        if number <= times:
            lake.publish(f"theirs-{number}", {"t": {D2: ["theirs"]}})

    return publish


def test_what_others_moved_is_staged_again_until_it_is_in_main(lake: Lake) -> None:
    told: list[str] = []
    staged = Staged(lake, overtaking(lake, 2))
    published = promote(lake.publisher(), staged, told.append)
    assert published and published.publication == "mine-3"
    assert lake.rows("t") == {D1: ["3"], D2: ["b"]}
    assert [each.days for each in staged.moved] == [{"t": frozenset({D2})}] * 2
    assert told == ["once more"] * 2


def test_it_ends_with_what_the_package_refuses(lake: Lake) -> None:
    staged = Staged(lake, overtaking(lake, 100))
    with pytest.raises(PublicationRefused, match="others were faster"):
        promote(lake.publisher(), staged, lambda _: None, most=4)
    assert len(staged.tries) == len(staged.moved) == 4
    assert lake.rows("t") == {D2: ["theirs"]}


def test_nothing_to_publish_is_no_try(lake: Lake) -> None:
    class Nothing(Staged):
        def stage(self, *, held: bool) -> None:
            return None

    assert promote(lake.publisher(), Nothing(lake, overtaking(lake, 0)), lambda _: None, most=1) is None


def test_what_is_seen_to_have_moved_is_not_published(lake: Lake) -> None:
    seen = Conflict(reasons=("it moves",))

    class Seeing(Staged):
        def stage(self, *, held: bool) -> Publication | Conflict | None:
            found = super().stage(held=held)
            return seen if len(self.tries) == 1 else found

    staged = Seeing(lake, overtaking(lake, 0))
    published = promote(lake.publisher(), staged, lambda _: None)
    assert (published and published.publication, staged.moved) == ("mine-2", [seen])


def test_after_some_tries_each_is_made_under_a_hold_of_its_own(lake: Lake) -> None:
    taken: list[int] = []
    held: list[int] = []
    overtake = overtaking(lake, 4)

    def meanwhile(number: int) -> None:
        overtake(number)
        held.append(len(all_holds(lake.storage)))

    staged = Staged(lake, meanwhile)

    @contextmanager
    def hold() -> Iterator[None]:
        taken.append(len(staged.tries))
        with holding(lake.storage, "mine", {"t": [D1, D2]}):
            yield

    assert promote(lake.publisher(), staged, lambda _: None, hold=hold, before_a_hold=2)
    assert (taken, staged.tries) == ([2, 3, 4], [False, False, True, True, True])
    assert (held, all_holds(lake.storage)) == ([0, 0, 1, 1, 1], [])


@pytest.mark.parametrize(("seconds", "slept"), [(0.0, 0), (2.0, 4)])
def test_without_a_hold_it_waits_for_those_of_others_on_its_days(lake: Lake, seconds: float, slept: int) -> None:
    put_hold(lake.storage, "campaign-x", {"t": [D2]})
    told: list[str] = []
    published = promote(lake.publisher(), Staged(lake, lambda _: None), told.append, wait_seconds=seconds)
    assert isinstance(published, Published)
    assert (len(lake.time.slept), len(told)) == (slept, int(slept > 0))


def test_under_a_hold_it_waits_for_nobody(lake: Lake) -> None:
    staged = Staged(lake, overtaking(lake, 1))
    days: dict[str, list[date]] = {"t": [D1, D2]}

    def hold() -> AbstractContextManager[object]:
        put_hold(lake.storage, "campaign-x", days)
        return holding(lake.storage, "mine", days)

    assert promote(lake.publisher(), staged, lambda _: None, wait_seconds=9.0, hold=hold, before_a_hold=1)
    assert not lake.time.slept
