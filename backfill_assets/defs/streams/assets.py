"""One asset for each dataset that is streamed: its run is the stream, which it starts, watches and stops."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import dagster as dg

from backfill_assets.defs.events import plain_failure
from backfill_assets.defs.guard import require_own_lakehouse
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.defs.streams.child import StreamChild
from backfill_assets.defs.streams.metadata import stream_line, stream_metadata
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Dataset, Step
from backfill_assets.stream.lease import RUN_VARIABLE, StreamStatus, read_stream, refusal

SENSOR = "streams"
STREAM_TAG = "backfill/stream"
"""On every run that is a stream: the name of its asset."""
COMMAND = (str(Path(sys.executable).with_name("backfill")), "stream")
"""The command that is installed beside the Python that runs this."""
_LOOK_EVERY_SECONDS = 0.5


class StreamOptions(dg.Config):
    """Run configuration of a stream; empty means the settings of the machine."""

    source: str = ""
    """``landing``, or ``kafka://host:port/topic``; else what ``BACKFILL_STREAM_SOURCE`` says."""
    from_beginning: bool = False
    """Read the history of the source first, then go on live."""
    available_now: bool = False
    """Read what there is, then end."""
    new_topic: bool = False
    """Read a topic that is another one than was read under its name, from its first event on."""
    since: str = ""
    """Of a topic, with ``from_beginning``: history begins with what arrived on this day, such as ``2017-03-01``."""
    rate: str = ""
    """At which history is read, such as ``2000`` records or ``5MB`` a second."""
    rate_in: list[str] = []  # noqa: RUF012 - a field of pydantic, which copies it
    """Another rate in hours of the day (UTC): ``06:00-22:00=500``."""
    log_every_seconds: float = 15
    report_every_seconds: float = 60
    """How often the page of the asset gets a point in its plots."""

    def arguments(self, table: str, source: str) -> list[str]:
        """What the command ``backfill stream`` is given."""
        flags = {
            "--from-beginning": self.from_beginning,
            "--available-now": self.available_now,
            "--new-topic": self.new_topic,
        }
        values = [("--since", self.since), ("--rate", self.rate), *(("--rate", each) for each in self.rate_in)]
        return [
            *(table, "--from", self.source or source),
            *(flag for flag, wanted in flags.items() if wanted),
            *(part for name, value in values if value for part in (name, value)),
        ]


@dataclass(frozen=True)
class StreamedDataset:
    """A dataset that is streamed."""

    dataset: Dataset

    @property
    def asset(self) -> str:
        return f"stream_{self.dataset.name}"

    @property
    def raw(self) -> Step:
        """The step that the events come in by."""
        return next(step for step in self.dataset.steps if step.source)


def stream_asset(streamed: StreamedDataset, command: Sequence[str] = COMMAND) -> dg.AssetsDefinition:
    """The asset whose run is the stream. The run itself starts no Spark: the process of ``command`` does."""

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
        try:
            require_own_lakehouse(context.instance, backfill.storage)
            _require_no_other(backfill.storage, streamed.raw.name)
            arguments = config.arguments(streamed.raw.name, backfill.settings.stream_source)
            watch = _Watch(context, config, backfill.storage, streamed)
            return dg.MaterializeResult(metadata=watch.run([*command, *arguments]))
        except BackfillError as error:
            raise plain_failure(error) from None

    return stream


def _description(streamed: StreamedDataset) -> str:
    raw = streamed.raw.name
    return "\n\n".join(
        (
            f"The live stream into `{raw}`; bronze, fact and daily revenue follow within seconds.",
            "**Materialize it to start the stream, terminate its run to stop it.**",
            "It reads the landing folder, or what the run's `source` or `BACKFILL_STREAM_SOURCE` names.",
            "Each minute the run writes its delay, rate and positions: they are plotted on this page.",
            f"Its metadata says where history ended. The sensor `{SENSOR}` starts it again after a crash.",
        )
    )


def _require_no_other(storage: Storage, table: str) -> None:
    status = read_stream(storage, table)
    if status and status.is_running(datetime.now(UTC)):
        raise refusal(status)


@dataclass
class _Watch:
    """Follows the stream of one run by its status until it ends."""

    context: dg.AssetExecutionContext
    config: StreamOptions
    storage: Storage
    streamed: StreamedDataset
    _log: "_Every" = field(init=False)
    _report: "_Every" = field(init=False)

    def __post_init__(self) -> None:
        self._log, self._report = _Every(self.config.log_every_seconds), _Every(self.config.report_every_seconds)

    def run(self, command: Sequence[str]) -> dict[str, dg.MetadataValue]:
        """Run the stream until it ends or the run is terminated; the metadata of its last status."""
        self.context.log.info(f"Starting {' '.join(command[1:])}")
        # Its session is its own: a Spark server is shared with runs, and one of them could starve it.
        variables = {RUN_VARIABLE: self.context.run.run_id, "SPARK_REMOTE": None}
        child = StreamChild.start(command, variables, sys.stderr.write)
        try:
            while child.wait(_LOOK_EVERY_SECONDS) is None:
                self._look()
        finally:
            child.stop()
            self._say_how_it_ended()
        child.require_success(self.streamed.raw.name)
        return self._metadata(self._status())

    def _status(self) -> StreamStatus | None:
        """The status, if it is that of this run's process: that of an earlier one stays until the first beat."""
        status = read_stream(self.storage, self.streamed.raw.name)
        return status if status and status.holder.run == self.context.run.run_id else None

    def _look(self) -> None:
        if (status := self._status()) is None or not (self._log.is_due() or self._report.is_due()):
            return
        self._log.do(partial(self.context.log.info, stream_line(status)))
        if status.batch or status.positions:
            self._report.do(partial(self._materialize, status))

    def _materialize(self, status: StreamStatus) -> None:
        """A point in the plots of the asset's page, while the run goes on."""
        self.context.log_event(dg.AssetMaterialization(self.streamed.asset, metadata=self._metadata(status)))

    def _metadata(self, status: StreamStatus | None) -> dict[str, dg.MetadataValue]:
        run = {"run": dg.MetadataValue.dagster_run(self.context.run.run_id)}
        return {**run, **(stream_metadata(status) if status else {})}

    def _say_how_it_ended(self) -> None:
        if status := self._status():
            self.context.log.info(stream_line(status))


@dataclass
class _Every:
    """Something that is done now, and then every so many seconds."""

    seconds: float
    _last: float | None = None

    def is_due(self) -> bool:
        return self._last is None or time.monotonic() - self._last >= self.seconds

    def do(self, work: Callable[[], object]) -> None:
        if self.is_due():
            self._last = time.monotonic()
            work()
