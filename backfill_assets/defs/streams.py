"""Streams in Dagster: an asset whose run is the stream, and the sensor that restarts it."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import dagster as dg

from backfill_assets import clock
from backfill_assets.defs.dagster_internals import NOT_FINISHED_STATUSES, SENSOR_NAME_TAG
from backfill_assets.defs.metadata import metadata_table
from backfill_assets.defs.own_lakehouse import failing_plainly, lakehouse_sensor, require_own_lakehouse
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.defs.under_way import is_alive
from backfill_assets.errors import InvalidRequest, StreamFailed
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step
from backfill_assets.spark.connect_server import ENDED_WITH_ITS_STARTER
from backfill_assets.stream.delays import Delays
from backfill_assets.stream.lease import RUN_VARIABLE, HeldEvents, StreamPosition, StreamStatus, read_stream, refusal
from backfill_assets.stream.restart import EarlierStart, Ending, RestartDecision, decide_restart

SENSOR = "streams"
STREAM_TAG = "backfill/stream"
COMMAND = (str(Path(sys.executable).with_name("backfill")), "stream")
_LOOK_EVERY_SECONDS = 0.5


class StreamOptions(dg.Config):
    """Run configuration of a stream; empty means the settings of the machine."""

    source: str = ""
    """``landing``, or ``kafka://host:port/topic``; else what ``BACKFILL_STREAM_SOURCE`` says."""
    from_beginning: bool = False
    """Read the source's history first."""
    available_now: bool = False
    new_topic: bool = False
    """Take a topic that replaced another of its name, from its first event on."""
    since: str = ""
    """With ``from_beginning``: history begins with what arrived on this day, such as ``2017-03-01``."""
    rate: str = ""
    """The rate of reading history: ``2000`` records or ``5MB`` a second."""
    rate_in: list[str] = []  # noqa: RUF012 - a field of pydantic, which copies it
    """Another rate by hours (UTC): ``06:00-22:00=500``."""
    report_every_seconds: float = 60
    """Seconds between lines of the log and points of the plots."""

    def arguments(self, table: str, source: str) -> list[str]:
        if self.since and not self.from_beginning:
            raise InvalidRequest("since is where history begins.", hint="Say from_beginning: true, too.")
        beginning = f"--from-beginning={self.since}" if self.since else "--from-beginning"
        flags = {
            beginning: self.from_beginning,
            "--available-now": self.available_now,
            "--new-topic": self.new_topic,
        }
        values = [("--rate", self.rate), *(("--rate", each) for each in self.rate_in)]
        return [
            *(table, "--from", self.source or source),
            *(flag for flag, wanted in flags.items() if wanted),
            *(part for name, value in values if value for part in (name, value)),
        ]


@dataclass(frozen=True)
class StreamedDataset:
    dataset: Dataset

    @property
    def asset(self) -> str:
        return f"stream_{self.dataset.name}"

    @property
    def raw(self) -> Step:
        return next(step for step in self.dataset.steps if step.source)


def stream_asset(streamed: StreamedDataset, command: Sequence[str] = COMMAND) -> dg.AssetsDefinition:
    @dg.asset(
        name=streamed.asset,
        group_name=UNDER_THE_HOOD,
        kinds={"spark", "delta"},
        owners=list(streamed.dataset.owners),
        tags={"dataset": streamed.dataset.name},
        description=_description(streamed),
    )
    def stream(context: dg.AssetExecutionContext, config: StreamOptions, backfill: Backfill) -> dg.MaterializeResult:  # type: ignore[type-arg]
        context.instance.add_run_tags(context.run.run_id, {STREAM_TAG: streamed.asset})
        with failing_plainly():
            require_own_lakehouse(context.instance, backfill.storage)
            _require_no_other(backfill.storage, streamed.raw.name)
            arguments = config.arguments(streamed.raw.name, backfill.settings.stream_source)
            watch = _Watch(context, backfill.storage, streamed, config.report_every_seconds)
            return dg.MaterializeResult(metadata=watch.run([*command, *arguments]))

    return stream


def _description(streamed: StreamedDataset) -> str:
    raw = streamed.raw.name
    return "\n\n".join(
        (
            f"The live stream into {raw}; bronze, fact and daily revenue follow within seconds.",
            "**Materialize it to start the stream, terminate its run to stop it.**",
            "It reads the landing folder, or what the run's `source` or `BACKFILL_STREAM_SOURCE` names.",
            "Each minute the run writes its delay, rate and positions: they are plotted on this page.",
            f"Its metadata says where history ended. The sensor `{SENSOR}` starts it again after a crash.",
        )
    )


def _require_no_other(storage: Storage, table: str) -> None:
    status = read_stream(storage, table)
    if status and status.is_running(clock.now()):
        raise refusal(status)


@dataclass
class _Watch:
    context: dg.AssetExecutionContext
    storage: Storage
    streamed: StreamedDataset
    every_seconds: float
    _due: float = 0.0

    def run(self, command: Sequence[str]) -> dict[str, Any]:
        self.context.log.info(f"Starting {' '.join(command[1:])}")
        # The stream has its own Spark: a run on a shared server could starve it.
        variables = {RUN_VARIABLE: self.context.run.run_id, "SPARK_REMOTE": None}
        child = StreamChild.start(command, variables, sys.stderr.write)
        try:
            while child.wait(_LOOK_EVERY_SECONDS) is None:
                self._look()
        finally:
            child.stop()
            if status := self._status():
                self.context.log.info(stream_line(status))
        child.require_success(self.streamed.raw.name)
        return self._metadata(self._status())

    def _status(self) -> StreamStatus | None:
        """An earlier run's status stays until this run's process has beaten."""
        status = read_stream(self.storage, self.streamed.raw.name)
        return status if status and status.holder.run == self.context.run.run_id else None

    def _look(self) -> None:
        status = None if clock.seconds() < self._due else self._status()
        if status is None:
            return
        self._due = clock.seconds() + self.every_seconds
        self.context.log.info(stream_line(status))
        if status.state == "starting":
            return
        self.context.log_event(dg.AssetMaterialization(self.streamed.asset, metadata=self._metadata(status)))

    def _metadata(self, status: StreamStatus | None) -> dict[str, Any]:
        run = {"run": dg.MetadataValue.dagster_run(self.context.run.run_id)}
        return {**run, **(stream_metadata(status) if status else {})}


# ------------------------------------------------------------------ the process

_LAST_LINES = 20
_PATIENCE_SECONDS = ((signal.SIGINT, 45.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))


@dataclass
class StreamChild:
    process: subprocess.Popen[str]
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    _readers: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def start(
        cls, command: Sequence[str], variables: Mapping[str, str | None], write: Callable[[str], object]
    ) -> "StreamChild":
        """Output lines go to ``write``. A variable that is None is removed."""
        environment = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
        process = subprocess.Popen(
            ["/bin/sh", "-c", ENDED_WITH_ITS_STARTER, "INT", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            # A signal to the whole group of the run would interrupt it twice.
            start_new_session=True,
        )
        child = cls(process)
        for pipe, kept in ((process.stdout, deque[str](maxlen=0)), (process.stderr, child.last_lines)):
            reader = threading.Thread(target=_pass_on, args=(pipe, kept, write), daemon=True)
            child._readers.append(reader)
            reader.start()
        return child

    def wait(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """Let it publish what it has and end; killing it loses nothing either."""
        for number, seconds in _PATIENCE_SECONDS:
            if self.process.poll() is None:
                self.process.send_signal(number)
                self.wait(seconds)
        # Ends the shell that waits for the end of the run.
        if self.process.stdin and not self.process.stdin.closed:
            with suppress(OSError), self.process.stdin as pipe:
                pipe.write("\n")
        for reader in self._readers:
            reader.join(1)

    def require_success(self, table: str) -> None:
        code = self.process.returncode
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            words = "".join(self.last_lines).strip() or "It wrote no error."
            hint = "What it published stays. Put right what it names, then materialize this asset again."
            raise StreamFailed(f"The stream of {table} {how}.\n{words}", hint=hint)


def _pass_on(pipe: IO[str], kept: deque[str], write: Callable[[str], object]) -> None:
    with pipe:
        for line in pipe:
            kept.append(line)
            write(line)


# ------------------------------------------------------------------ what it shows

_POSITION_COLUMNS = dict.fromkeys(("partition", "position", "end", "lag"), "string")


_HELD_COLUMNS = dict.fromkeys(("table", "day", "events", "since", "gate", "what helps"), "string")


def stream_line(status: StreamStatus) -> str:
    """``live: 412 events/s, in raw_sales after p50 1.9 s, p99 4.2 s, 0 behind, batch 118 in 2.0 s; at sales/0 47``."""
    if status.state == "starting":
        return f"starting for {(status.beat - status.started).total_seconds():.0f} s: {status.note or 'Spark starts'}"
    at = ", ".join(f"{each.partition} {each.position:,}" for each in status.positions) or "the beginning"
    answer = status.last.answer_seconds if status.last else None
    parts = [
        f"{status.events_per_second:,.0f} events/s",
        *(f"in {table} after {late}" for table, late in _delays(status).items()),
        "how far behind is unknown" if status.lag is None else f"{status.lag:,} behind",
        f"batch {status.batches:,} in {status.last.seconds if status.last else 0:.1f} s",
        *([f"source answered in {answer:.1f} s"] if answer is not None else []),
    ]
    held = map(str, status.held_back)
    extra = [text for text in (*held, status.note, status.error and f"last error: {status.error}") if text]
    return "; ".join([f"{status.state}: {', '.join(parts)}", f"at {at}", *extra])


def _delays(status: StreamStatus) -> Mapping[str, Delays | str]:
    return {status.table: "p50 unknown, p99 unknown", **status.delays}


def stream_metadata(status: StreamStatus) -> dict[str, Any]:
    last = status.last
    late = {
        f"{table}_{name}_seconds": float(value)
        for table, delays in status.delays.items()
        for name, value in asdict(delays).items()
    }
    if last and last.answer_seconds is not None:
        late["source_answer_seconds"] = last.answer_seconds
    words = {
        "boundary": status.boundary or "not reached: everything so far is history, or the stream began live",
        "slowed down": status.note,
        "last error": status.error,
    }
    return {
        "state": status.state,
        "source": status.source,
        **{name: round(seconds, 3) for name, seconds in late.items()},
        **({} if status.lag is None else {"behind": status.lag}),
        "held_back": sum(each.events for each in status.held_back),
        **(
            {"held back by": metadata_table(_HELD_COLUMNS, map(_held_record, status.held_back))}
            if status.held_back
            else {}
        ),
        "pace": round(last.pace, 3) if last else 1.0,
        "events_per_second": status.events_per_second,
        "events": status.events,
        "batches": status.batches,
        "batch_seconds": last.seconds if last else 0.0,
        "positions": metadata_table(_POSITION_COLUMNS, map(_position_record, status.positions)),
        **{name: text for name, text in words.items() if text},
    }


def _held_record(held: HeldEvents) -> dict[str, str]:
    gate = f"{held.rule}: {held.why}"
    since = f"{held.since:%Y-%m-%d %H:%M:%S}Z"
    return dict(zip(_HELD_COLUMNS, (held.table, str(held.day), f"{held.events:,}", since, gate, held.do), strict=True))


def _position_record(position: StreamPosition) -> dict[str, str]:
    numbers = {"position": position.position, "end": position.end, "lag": position.lag}
    texts = {name: "" if number is None else f"{number:,}" for name, number in numbers.items()}
    return {"partition": position.partition, **texts}


# ------------------------------------------------------------------ what starts it again

EVERY_SECONDS = 15
_ENDINGS: dict[dg.DagsterRunStatus, Ending] = {
    dg.DagsterRunStatus.FAILURE: "failed",
    dg.DagsterRunStatus.CANCELED: "stopped",
    dg.DagsterRunStatus.SUCCESS: "finished",
}
_MOST_EARLIER = 12


def stream_sensor(streamed: Sequence[StreamedDataset]) -> dg.SensorDefinition:
    def restart(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
        always = backfill.built_of([each.dataset for each in streamed if each.dataset.streamed == "always"])
        decisions = [
            (each, decide(context.instance, backfill.storage, each, begins=each.dataset in always)) for each in streamed
        ]
        requests = [
            request(context.instance, each, decision.repeat)
            for each, decision in decisions
            if decision.repeat or decision.begin
        ]
        words = "\n".join(decision.reason for _, decision in decisions)
        context.log.info(words)
        return dg.SensorResult(run_requests=requests) if requests else dg.SensorResult(skip_reason=words)

    return lakehouse_sensor(
        SENSOR,
        "Starts a stream again whose run has failed: after a crash, a restart of the machine, or an error; later each "
        "time that it fails early. Starts one that is declared to run always once something of its dataset is "
        "published. A stream that a person has stopped stays off. The tick says what is on, with its delay and rate.",
        EVERY_SECONDS,
        restart,
        asset_selection=dg.AssetSelection.assets(*(each.asset for each in streamed)),
    )


def decide(
    instance: dg.DagsterInstance, storage: Storage, streamed: StreamedDataset, *, begins: bool = False
) -> RestartDecision:
    """Reads runs before the lease, which shows a run that starts in between."""
    now = clock.now()
    under_way = _under_way(instance, streamed.asset, now)
    earlier = _earlier(instance, streamed.asset)
    status = read_stream(storage, streamed.raw.name)
    running = stream_line(status) if status and status.is_running(now) else ""
    holder = status.holder.run if status else ""
    return decide_restart(streamed.asset, running, under_way, earlier, now, holder, begins=begins)


def request(instance: dg.DagsterInstance, streamed: StreamedDataset, repeat: EarlierStart | None) -> dg.RunRequest:
    """The run key names the run before: two ticks request one run."""
    run = instance.get_run_by_id(repeat.run) if repeat else None
    return dg.RunRequest(
        run_key=f"after-{repeat.run}" if repeat else f"first-{streamed.asset}",
        run_config=dict(run.run_config) if run else {},
        tags={STREAM_TAG: streamed.asset, SENSOR_NAME_TAG: SENSOR},
        asset_selection=[dg.AssetKey(streamed.asset)],
    )


def _under_way(instance: dg.DagsterInstance, asset: str, now: datetime) -> str:
    records = instance.get_run_records(filters=dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))
    runs = (each.dagster_run for each in records if is_alive(instance, each, now))
    found = (run for run in runs if dg.AssetKey(asset) in (run.asset_selection or ()))
    return next((f"the run {run.run_id[:8]} is {run.status.value.lower()}" for run in found), "")


def _earlier(instance: dg.DagsterInstance, asset: str) -> list[EarlierStart]:
    filters = dg.RunsFilter(tags={STREAM_TAG: asset}, statuses=list(_ENDINGS))
    records = instance.get_run_records(filters=filters, limit=_MOST_EARLIER)
    return [_earlier_start(record) for record in records]


def _earlier_start(record: dg.RunRecord) -> EarlierStart:
    ended = datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp
    started = datetime.fromtimestamp(record.start_time, UTC) if record.start_time else record.create_timestamp
    run = record.dagster_run
    return EarlierStart(run.run_id, started, ended, _ENDINGS[run.status])
