"""The front door of building: one call for a step and its days, whoever asks and for whichever timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.build.arrivals import INGEST, ArrivalBuild
from backfill_assets.build.lake import Lake, Progress
from backfill_assets.build.outcome import BuildResult, RunInfo
from backfill_assets.build.replace import ReplaceBuild
from backfill_assets.build.reproduce import Reproduced, reproduce
from backfill_assets.datasets.dataset import Step
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.landing import LandingZone
from backfill_assets.lakehouse.publish import Publisher
from backfill_assets.lakehouse.session import naming_a_lost_server
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def silent(message: str) -> None:
    """Progress for those who do not want to be told."""


class Builder:
    """Builds steps. Stateless between calls: everything it knows is in the lakehouse and the landing zone."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    @classmethod
    def from_settings(cls, settings: Settings, spark: Callable[[], SparkSession]) -> Builder:
        """``spark`` is only called when a day has to be computed."""
        storage = Storage(str(settings.lakehouse))
        publisher = Publisher(storage, retention_days=settings.rollback_window_days)
        landing = LandingZone(settings.landing)
        return cls(Lake(storage, publisher, landing, spark, str(settings.token_key_file)))

    def build(
        self,
        step: Step,
        days: Sequence[date],
        *,
        run: RunInfo,
        version: str | None = None,
        force: bool = False,
        progress: Progress = silent,
    ) -> BuildResult:
        """Build ``days`` of ``step`` and publish all of them together, or nothing.

        Days that are published already from the same inputs by the same code come back as reused; ``force`` computes
        them anyway. Raises :class:`DaysFailed` when a gate holds a day back (the good days stay staged and are used
        by the next run), :class:`InvalidRequest` for days that have not ended, :class:`SourceUnreadable` for landed
        files that cannot be taken in.
        """
        wanted = sorted(set(days))
        self._refuse_future(step, wanted)
        self.lake.publisher.recover()
        with naming_a_lost_server(f"{step.name} was built"):
            if step.source is not None:
                self._refuse_version(step, version)
                return ArrivalBuild(self.lake, step, run, progress).run_days(wanted)
            return ReplaceBuild(self.lake, step, step.version(version), run, force, progress).run_days(wanted)

    def _refuse_version(self, step: Step, version: str | None) -> None:
        if version not in (None, INGEST):
            raise InvalidRequest(f"{step.name} has no version {version!r}.", hint=f"Versions: {INGEST}.")

    def reproduce(self, publication: str) -> tuple[Reproduced, ...]:
        """Stage a publication's days again from the inputs it recorded, and compare the checksums."""
        return reproduce(self.lake, publication)

    def _refuse_future(self, step: Step, days: Sequence[date]) -> None:
        today = self.lake.publisher.now().date()
        late = [day for day in days if day >= today]
        if late:
            raise InvalidRequest(
                f"{step.name}: {late[0]} has not ended yet; today is {today} in UTC.",
                hint="End the range with yesterday at the latest.",
            )
