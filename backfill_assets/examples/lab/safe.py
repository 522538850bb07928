"""The safe way: the same landed files through this project, by its public entry points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.undo import undo
from backfill_assets.campaign.undo_days import UndoAction
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.lab.events import SOURCE, SentEvents
from backfill_assets.examples.lab.hazard import SourceReads, TableCount
from backfill_assets.examples.sample.landing_writer import landing
from backfill_assets.examples.sample.references import RATES_LEAD_DAYS, land_rates
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandedFile, LandingZone, position_id
from backfill_assets.publication.crash_points import Reached, nowhere
from backfill_assets.publication.publisher import Publisher
from backfill_assets.published.reading import read_published
from backfill_assets.rebuild.builder import Builder, silent
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import ADOPTED, BuildResult, RunInfo
from backfill_assets.rebuild.shadow import ShadowStep, shadow
from backfill_assets.stream.batches import LandedBatches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

RAW, BRONZE, QUARANTINE, FACT = "raw_sales", "bronze_sales", "quarantine_sales", "fact_sales_transactions"
RATES = ("raw_fx_rates", "bronze_fx_rates")
STAGED, OVERTAKEN = "days staged", "another run took in the same files"
"""How progress reports that days are staged, and that files were read before."""
_CAMPAIGN = "campaign-lab"
_RUN = RunInfo("lab", launched_by="backfill lab")


@dataclass(frozen=True)
class CountedZone(LandingZone):
    """The landing zone, which counts each time that a file is opened, for its hash too."""

    opened: list[int] = field(default_factory=list)
    """The size of each file that was opened, in bytes."""

    def files(self, source: str, days: Iterable[date]) -> tuple[LandedFile, ...]:
        found = super().files(source, days)
        self.opened.extend(file.size for file in found)
        return found

    def file(self, source: str, path: Path) -> LandedFile:
        found = super().file(source, path)
        self.opened.append(found.size)
        return found

    def locate(self, file: LandedFile) -> Path:
        self.opened.append(file.size)
        return super().locate(file)


@dataclass
class SafeLake:
    """A scratch lakehouse of this project; ``home`` has its landing folder and its tables."""

    spark: SparkSession
    home: Path
    progress: Progress = silent
    landed: SentEvents = field(init=False)
    zone: CountedZone = field(init=False)
    messages: list[str] = field(default_factory=list)
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.landed = SentEvents(self.home / "landing")
        self.zone = CountedZone(self.landed.root)

    @property
    def storage(self) -> Storage:
        return Storage(str(self.home / "lakehouse"))

    @property
    def read(self) -> SourceReads:
        return SourceReads(len(self.zone.opened), sum(self.zone.opened), self.most_at_once)

    def stream(self, days: Sequence[date], reached: Reached = nowhere) -> None:
        """One batch of the stream: files of ``days`` that were not read yet go into raw, and bronze follows.

        What ``backfill stream`` does at its start and with a batch; ``reached`` is called at each step of raw's
        publication.
        """
        before, lake = sum(self.zone.opened), self._lake(reached)
        lake.publisher.recover([RAW])
        LandedBatches(lake, CATALOG.step(RAW), _RUN, self._report).publish(self.landed.files(days))
        self.most_at_once = max(self.most_at_once, sum(self.zone.opened) - before)
        self.rebuild(days)

    def take_in(self, days: Sequence[date], *, when_staged: Callable[[], object] | None = None) -> BuildResult:
        """A batch's ingest of what landed on ``days``; ``when_staged`` is called before it publishes."""
        before = sum(self.zone.opened)
        built = self._build(RAW, days, when_staged)
        self.most_at_once = max(self.most_at_once, sum(self.zone.opened) - before)
        return built

    def rebuild(
        self, days: Sequence[date], *, when_staged: Callable[[], object] | None = None, force: bool = False
    ) -> BuildResult:
        """Rebuild bronze from raw; ``when_staged`` is called once days are staged, before they are published."""
        return self._build(BRONZE, days, when_staged, force=force)

    def build_facts(self, days: Sequence[date]) -> BuildResult:
        """Facts of what bronze has, by the version that each day was published with."""
        return self._build(FACT, days, None)

    def take_in_rates(self, days: DayRange) -> None:
        """The exchange rates that facts of ``days`` are converted at."""
        with landing(self.landed.root) as writer:
            land_rates(writer, days)
        for table in RATES:
            self._build(table, list(days.widened(before=RATES_LEAD_DAYS)), None)

    def cut_over(self, days: Sequence[date], version: str) -> str:
        """A campaign that brings ``days`` of facts by ``version``; returns its publication."""
        step, lake = CATALOG.step(FACT), self._lake()
        steps = [ShadowStep(step, step.version(version), tuple(days))]
        shadow(lake, _CAMPAIGN, steps, _RUN, self._report)
        return cut_over(lake, _CAMPAIGN, steps, _RUN, self._report).published.publication

    def undo(self, publication: str) -> Mapping[UndoAction, int]:
        """Undo a campaign; returns what was done with how many of its days."""
        undone = undo(self._lake(), publication, _RUN, self._report)
        return Counter(day.way for day in undone.plan.days)

    def count(self, *tables: str) -> tuple[TableCount, ...]:
        """Each of ``tables`` beside what was sent, as any Delta reader reads it."""
        return tuple(self.landed.count(table, _received(self.storage, table)) for table in tables)

    def positions(self) -> int:
        """How many landed files raw has recorded as read."""
        main = MainTable.open(self.storage, RAW)
        prefix = position_id(SOURCE, "")
        return sum(id.startswith(prefix) for id in main.transactions()) if main else 0

    def reported(self, words: str) -> int:
        """How many messages of the builds had ``words`` in them."""
        return sum(words in message for message in self.messages)

    def staged_before(self) -> int:
        """How many days of earlier runs the last build that found some has used."""
        counts = [int(message.split(": ")[1].split()[0]) for message in self.messages if ADOPTED in message]
        return counts[-1] if counts else 0

    def forget_reads(self) -> None:
        """Count reads of the source from now on."""
        self.zone.opened.clear()
        self.most_at_once = 0

    def _build(
        self,
        table: str,
        days: Sequence[date],
        when_staged: Callable[[], object] | None,
        *,
        force: bool = False,
    ) -> BuildResult:
        builder = Builder(self._lake())
        progress = _Interleaved(self._report, when_staged)
        built = builder.build(CATALOG.step(table), days, run=_RUN, version=AS_PUBLISHED, force=force, progress=progress)
        if progress.when_staged is not None:
            raise InvalidRequest(f"{table}: nothing was staged, so nothing could happen meanwhile.")
        return built

    def _lake(self, reached: Reached = nowhere) -> Lake:
        storage, key = self.storage, str(self.home / "token.key")
        publisher = Publisher(storage, reached=reached)
        return Lake(CATALOG, storage, publisher, self.zone, lambda: self.spark, key)

    def _report(self, message: str) -> None:
        self.messages.append(message)
        self.progress(message)


@dataclass
class _Interleaved:
    """Progress that lets something else happen, once, when the first days are staged and not yet published."""

    report: Progress
    when_staged: Callable[[], object] | None

    def __call__(self, message: str) -> None:
        self.report(message)
        if self.when_staged is not None and STAGED in message:
            event, self.when_staged = self.when_staged, None
            event()


def _received(storage: Storage, table: str) -> pa.Table:
    """The events in ``table``, or in several with a plus between; raw has markers too, which are rows about others."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    events = ds.field("record_kind") == "received" if table == RAW else None
    columns = ["day", "basket_id", "product_id"]
    datasets = [read_published(storage, name).dataset() for name in table.split(" + ")]
    return pa.concat_tables([found.to_table(columns, filter=events) for found in datasets])
