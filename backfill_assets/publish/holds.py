"""Holds: advisory leases on days, with an expiry, for the seconds of a cut-over.

Holds serve progress alone (correctness is compare-and-swap): a frequent writer could make a cut-over start again and
again. ``promote`` asks for one after some tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from backfill_assets import clock
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import Record
from backfill_assets.lakehouse.storage import Storage

HOLD_SECONDS = 60
LONGEST_WAIT_SECONDS = 300
_LOOK_EVERY_SECONDS = 0.5
DaysOf = Mapping[str, Iterable[date]]


class Hold(Record):
    """``holder`` is one process of ``campaign``; ``until`` is in UTC."""

    campaign: str
    holder: str
    days: Mapping[str, tuple[date, ...]]
    until: datetime

    @property
    def name(self) -> str:
        return f"{self.campaign}.{self.holder}"


@dataclass
class HeldDays:
    storage: Storage
    hold: Hold

    def extend(self, seconds: float = HOLD_SECONDS) -> None:
        self.hold = self.hold.model_copy(update={"until": clock.now() + timedelta(seconds=seconds)})
        _holds(self.storage).replace(self.hold.name, self.hold)

    def release(self) -> None:
        _holds(self.storage).delete(self.hold.name)


def put_hold(storage: Storage, campaign: str, days: DaysOf, seconds: float = HOLD_SECONDS) -> HeldDays:
    """Holds do not exclude each other: one of two campaigns wins."""
    dates_of = {table: tuple(sorted(set(dates))) for table, dates in days.items()}
    hold = Hold(campaign=campaign, holder=clock.token(4), days=dates_of, until=clock.now())
    held = HeldDays(storage, hold)
    held.extend(seconds)
    return held


@contextmanager
def holding(storage: Storage, campaign: str, days: DaysOf, seconds: float = HOLD_SECONDS) -> Iterator[HeldDays]:
    hold = put_hold(storage, campaign, days, seconds)
    try:
        yield hold
    finally:
        hold.release()


def all_holds(storage: Storage) -> list[Hold]:
    return list(_holds(storage).readable())


def expired_holds(holds: Iterable[Hold], now: datetime) -> list[Hold]:
    return [hold for hold in holds if hold.until <= now]


def blocking_hold(holds: Sequence[Hold], campaign: str, days: DaysOf, now: datetime) -> Hold | None:
    wanted = {table: set(dates) for table, dates in days.items()}
    others = [
        hold
        for hold in holds
        if hold.until > now
        and hold.campaign != campaign
        and any(wanted.get(table, set()) & set(held) for table, held in hold.days.items())
    ]
    return max(others, key=lambda hold: hold.until, default=None)


def held_days(storage: Storage, days: DaysOf, now: datetime) -> frozenset[date]:
    holds = [hold for hold in all_holds(storage) if hold.until > now]
    return frozenset(
        day for table, dates in days.items() for day in dates if any(day in hold.days.get(table, ()) for hold in holds)
    )


def wait_for_holds(
    storage: Storage,
    campaign: str,
    days: DaysOf,
    *,
    progress: Callable[[str], None],
    longest: float = LONGEST_WAIT_SECONDS,
) -> float:
    """Wait for others' holds, at most ``longest`` seconds; returns those waited."""
    wanted = {table: tuple(dates) for table, dates in days.items()}
    started, reported = clock.now(), ""
    latest = started + timedelta(seconds=longest)
    while (moment := clock.now()) < latest:
        hold = blocking_hold(all_holds(storage), campaign, wanted, moment)
        if hold is None:
            break
        if hold.name != reported:
            left = (hold.until - moment).total_seconds()
            progress(
                f"waiting for {shown_name(hold.campaign)}, which is cutting over these days, for {left:.0f} s at most"
            )
            reported = hold.name
        clock.sleep(min(_LOOK_EVERY_SECONDS, (min(hold.until, latest) - moment).total_seconds()))
    return (clock.now() - started).total_seconds()


def drop_expired(storage: Storage, now: datetime) -> list[Hold]:
    gone = expired_holds(all_holds(storage), now)
    for hold in gone:
        _holds(storage).delete(hold.name)
    return gone


def _holds(storage: Storage) -> Documents[Hold]:
    return Documents(storage, "_holds", Hold)
