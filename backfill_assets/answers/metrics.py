"""The figures of a lakehouse for monitoring: :func:`look_at_metrics` reads, the rest is one function to samples.

Names and labels are kept: boards and alerts are made of them (``docs/grafana.json``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal

from backfill_assets import clock
from backfill_assets.lakehouse.campaign_journal import Spent, newest
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.quarantine import RejectedRows, rejected_rows
from backfill_assets.model.declaration import Step
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.diagnosis import in_a_word
from backfill_assets.state.observed import observe_each
from backfill_assets.state.status import Statuses, day_statuses
from backfill_assets.stream.lease import StreamStatus, read_streams
from backfill_assets.upkeep.automation import SensorBook, SensorTicks
from backfill_assets.upkeep.incidents import Incident, IncidentBook, spent_since

_MOST_CAMPAIGNS = 50
_SECONDS_AN_HOUR = 3600
Labels = Mapping[str, str]
FigureKind = Literal["counter", "gauge"]


@dataclass(frozen=True)
class Family:
    """A metric with its samples; ``name`` lacks the ``_total`` of a counter."""

    name: str
    words: str
    kind: FigureKind
    samples: Sequence[tuple[Labels, float]]

    @property
    def shown_as(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name


@dataclass
class ClosedCount:
    """Publications that ended, by kind and outcome; asked again, it reads what came since."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    last: datetime | None = None
    sequence: int = -1

    def count(self, log: PublicationLog) -> None:
        rows = log.files().rows(["kind", "outcome", "at"], after=self.sequence, event="closed").to_pylist()
        for row in rows:
            self.counts[row["kind"], row["outcome"]] += 1
            self.last, self.sequence = row["at"], row["sequence"]


@dataclass(frozen=True)
class ReadForMetrics:
    closed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    last_closed: datetime | None = None
    under_way: int = 0
    states: Sequence[DayState] = ()
    statuses: Statuses = field(default_factory=dict)
    rejected: Sequence[RejectedRows] = ()
    streams: Sequence[StreamStatus] = ()
    sensors: Sequence[SensorTicks] = ()
    open: Sequence[Incident] = ()
    over: Sequence[Incident] = ()
    campaigns: Sequence[Spent] = ()
    price: Decimal | None = None


def look_at_metrics(
    storage: Storage, declared: Sequence[Step], price: Decimal | None = None, ended: ClosedCount | None = None
) -> ReadForMetrics:
    """Reads logs and documents, without Spark. ``ended`` counts on from an earlier look."""
    log, book, ended = PublicationLog(storage), IncidentBook(storage), ended or ClosedCount()
    ended.count(log)
    observed = observe_each(storage, [table.name for step in declared for table in step.tables])
    steps, journals = observed.with_current(declared), newest(storage, _MOST_CAMPAIGNS)
    return ReadForMetrics(
        closed=dict(ended.counts),
        last_closed=ended.last,
        under_way=len(observed.open),
        states=list(observed.states.values()),
        statuses=day_statuses(steps, observed),
        rejected=rejected_rows(declared, observed.states),
        streams=read_streams(storage),
        sensors=SensorBook(storage).all(),
        open=book.open(),
        over=book.closed_since(datetime.fromtimestamp(0, UTC)),
        campaigns=[entry.spent for entries in journals for entry in entries if entry.spent],
        price=price,
    )


def families(read: ReadForMetrics, now: datetime) -> list[Family]:
    """The figures at ``now``, also those without a sample, so that a board knows them. Pure."""
    return [
        Family(f"backfill_{name}", words, kind, list(samples(read, now)))
        for name, (kind, words, samples) in _FAMILIES.items()
    ]


def figures(
    storage: Storage, declared: Sequence[Step], price: Decimal | None = None, ended: ClosedCount | None = None
) -> list[Family]:
    return families(look_at_metrics(storage, declared, price, ended), clock.now())


# ------------------------------------------------------------------ what each one is made of

Sample = tuple[Labels, float]


def _publications(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for (kind, outcome), count in sorted(read.closed.items()):
        yield {"kind": kind, "outcome": outcome}, count


def _last_publication(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    if read.last_closed:
        yield {}, read.last_closed.timestamp()


def _under_way(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    yield {}, read.under_way


def _by_table(states: Iterable[DayState]) -> dict[str, list[DayState]]:
    found: dict[str, list[DayState]] = {}
    for state in states:
        if state.content is not None:
            found.setdefault(state.table, []).append(state)
    return dict(sorted(found.items()))


def _rows(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for table, states in _by_table(read.states).items():
        yield {"table": table}, sum(each.content.rows for each in states if each.content)


def _staged(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for table, states in _by_table(read.states).items():
        yield {"table": table}, sum(each.content.staged_ms or 0 for each in states if each.content) / 1000


def _newest_day(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for table, states in _by_table(read.states).items():
        yield {"table": table}, _moment(max(each.day for each in states)).timestamp()


def _moment(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _days(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for table, days in read.statuses.items():
        for word, count in sorted(Counter(map(in_a_word, days.values())).items()):
            yield {"table": table, "status": word}, count


def _rejects(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for each in read.rejected:
        yield {"table": each.table}, sum(each.rejected.values())


def _received(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for each in read.rejected:
        yield {"table": each.table}, each.received_in_all


def _delay(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for stream in read.streams:
        for table, delays in sorted(stream.delays.items()):
            for quantile, seconds in (("0.5", delays.p50), ("0.99", delays.p99)):
                yield {"stream": stream.table, "table": table, "quantile": quantile}, seconds


def _lag(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for stream in read.streams:
        for each in stream.positions:
            if each.lag is not None:
                yield {"stream": stream.table, "partition": each.partition}, each.lag


def _running(read: ReadForMetrics, now: datetime) -> Iterator[Sample]:
    for stream in read.streams:
        yield {"stream": stream.table}, stream.is_running(now)


def _held(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for stream in read.streams:
        yield {"stream": stream.table}, sum(each.events for each in stream.held_back)


def _incidents(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    counts = Counter((each.cause.value, each.severity, each.state) for each in read.open)
    for (cause, severity, state), count in sorted(counts.items()):
        yield {"cause": cause, "severity": severity, "state": state}, count


def _repairs(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    attempts = {each.id: each for incident in (*read.open, *read.over) for each in incident.attempts}
    counts = Counter("under way" if each.ended is None else each.proof or "ended" for each in attempts.values())
    for outcome, count in sorted(counts.items()):
        yield {"outcome": outcome}, count


def _core_seconds(read: ReadForMetrics, now: datetime) -> Iterator[Sample]:
    everything = (*read.open, *read.over)
    yield {"period": "24h"}, float(spent_since(everything, now - timedelta(hours=24)))
    yield {"period": "kept"}, float(spent_since(everything, datetime.min.replace(tzinfo=UTC)))


def _money(read: ReadForMetrics, now: datetime) -> Iterator[Sample]:
    if read.price is not None:
        for labels, seconds in _core_seconds(read, now):
            yield labels, seconds * float(read.price) / _SECONDS_AN_HOUR


def _campaigns(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    yield {}, sum(each.seconds for each in read.campaigns)


def _ticks(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for each in read.sensors:
        if each.ended:
            yield {"sensor": each.sensor}, each.ended.timestamp()


def _failures(read: ReadForMetrics, _: datetime) -> Iterator[Sample]:
    for each in read.sensors:
        yield {"sensor": each.sensor}, each.failed


_Samples = Callable[[ReadForMetrics, datetime], Iterable[Sample]]
_FAMILIES: Mapping[str, tuple[FigureKind, str, _Samples]] = {
    "publications": ("counter", "Publications that ended.", _publications),
    "last_publication_timestamp_seconds": ("gauge", "When the newest publication was closed.", _last_publication),
    "publications_under_way": ("gauge", "Publications that are prepared and not closed.", _under_way),
    "rows": ("gauge", "Rows of published days.", _rows),
    "days": ("gauge", "Known days by status.", _days),
    "newest_day_timestamp_seconds": ("gauge", "Midnight, in UTC, of the newest published day.", _newest_day),
    "rejected_rows": ("gauge", "Rows in quarantine that published days lack.", _rejects),
    "received_rows": ("gauge", "Received rows, of tables that have rejected some.", _received),
    "stream_delay_seconds": ("gauge", "From receipt by the source until readers see an event.", _delay),
    "stream_lag_events": ("gauge", "Events of a partition that were not read yet.", _lag),
    "stream_running": ("gauge", "1 while the stream holds its lease.", _running),
    "stream_held_back_events": ("gauge", "Events that a gate keeps from published tables.", _held),
    "incidents_open": ("gauge", "Open incidents.", _incidents),
    "repairs": ("gauge", "Attempts to repair, of the incidents that are kept.", _repairs),
    "repair_core_seconds": ("gauge", "Estimated core seconds of repairs.", _core_seconds),
    "repair_money": ("gauge", "The same by BACKFILL_CORE_HOUR_PRICE.", _money),
    "campaign_seconds": ("gauge", "Time that the 50 newest campaigns took.", _campaigns),
    "staged_seconds": ("gauge", "Time that staging the published days took.", _staged),
    "sensor_last_success_timestamp_seconds": ("gauge", "When a sensor last ran to its end, to a minute.", _ticks),
    "sensor_failures": ("gauge", "Failures of a sensor since then, in a row.", _failures),
}
