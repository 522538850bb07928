"""The entry point of building, for any caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.kept_logic import SameRows
from backfill_assets.lakehouse.records import content_in
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.current_versions import Switches, gone_version, require_current, step_with_current
from backfill_assets.model.declaration import Step
from backfill_assets.model.placement import INGEST
from backfill_assets.publish.promote import silent
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.unreadable import require_ours
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.ingest import ArrivalBuild
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.main_build import MainBuild
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay, RunInfo
from backfill_assets.rebuild.refresh import RefreshBuild, RefreshResult
from backfill_assets.rebuild.reproduce import Reproduction, reproduce
from backfill_assets.rebuild.restore import RestoreBuild, Restored
from backfill_assets.rebuild.same_rows import prove_same_rows
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.settings import Settings
from backfill_assets.spark.session import explain_lost_server
from backfill_assets.state.status import published_version
from backfill_assets.text import format_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Builder:
    """Stateless between calls: its state is in the lakehouse and the landing zone."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    @classmethod
    def from_settings(cls, settings: Settings, catalog: Catalog, spark: Callable[[], SparkSession]) -> Builder:
        """``spark`` is called only if a day has to be computed."""
        storage = Storage(str(settings.lakehouse))
        publisher = Publisher(storage, retention_days=settings.rollback_window_days)
        landing = LandingZone(settings.landing)
        key_file, refuse = str(settings.token_key_file), settings.refuse_dirty_tree
        return cls(Lake(catalog, storage, publisher, landing, spark, key_file, refuse_dirty_tree=refuse))

    def build(
        self,
        step: Step,
        days: Sequence[date],
        *,
        run: RunInfo,
        version: str | None = None,
        force: bool = False,
        repairs: bool = False,
        newest_first: bool = False,
        later: Collection[date] = (),
        verify: bool = False,
        progress: Progress = silent,
    ) -> BuildResult:
        """Build ``days`` of ``step`` and publish them together, or nothing.

        ``version`` is a name, or :data:`AS_PUBLISHED` for the one that each day was published with. By default, and for
        unpublished days, it is the current one: the version that a publication switched to, else the declared one.
        Published days with the same inputs and version are reused unless ``force`` is set. ``later`` days only look
        back to the others: they keep their versions and are never forced. ``verify`` recomputes days that a stream has
        extended; different ones are published and reported. ``repairs``: days that a person's rollback holds stay as
        they are, though the repair was decided before it.

        Raises :class:`DaysFailed` for a failed gate (good days stay staged for the next run), :class:`InvalidRequest`
        for days that have not ended and for undeclared versions, :class:`SourceUnreadable` for unreadable landed files,
        :class:`PublicationRefused` for a dirty tree if the settings refuse it, and :class:`LogicEdited` for a version
        that was edited in place since it published days.
        """
        self.lake.require_clean_tree()
        wanted = sorted(set(days))
        self.lake.require_ended(step, wanted)
        self.lake.publisher.recover(touched_tables(step))
        require_ours(self.lake.publisher.log.head().state.released, touched_tables(step))
        self.lake.look_at_tables_of_others([step])
        with explain_lost_server(f"{step.name} was built"):
            if step.external is not None:
                return self._as_observed(step, wanted)
            if step.source is not None:
                self._refuse_version(step, version)
                return ArrivalBuild(self.lake, step, run, progress).run_days(wanted)
            switches = self.lake.switches()
            if version in (None, AS_PUBLISHED) and gone_version(step, switches):
                self._refuse_new_days(step, wanted, wanted if version == AS_PUBLISHED else later, switches)
            current = step_with_current(step, switches)
            asked = StepRequest(
                current, wanted, version or "", frozenset(later), force, repairs, newest_first=newest_first
            )
            return MainBuild(self.lake, asked, run, progress, verify=verify).publish()

    def _as_observed(self, step: Step, days: Sequence[date]) -> BuildResult:
        """External tables are observed, not built. Raises :class:`InvalidRequest` for days without rows."""
        states = self.lake.states(step)
        keys = [TableDay(step.name, day) for day in days]
        if absent := [key.day for key in keys if content_in(states, key) is None]:
            raise InvalidRequest(
                f"{step.name} has nothing on {format_ranges(absent)}.",
                hint=f"Its days are those that others have written: backfill status {step.name} lists them.",
            )
        return BuildResult(tuple(BuiltDay.from_log(states[key], {}, {}, reused=True) for key in keys))

    def prove_same_rows(
        self, step: Step, days: Sequence[date], *, run: RunInfo, progress: Progress = silent
    ) -> tuple[SameRows, ...]:
        """Prove that edited versions of ``step`` still give the same rows; builds then go on with them. Raises
        :class:`LogicEdited` with the differences, and :class:`InvalidRequest` if ``days`` prove nothing.
        """
        self.lake.require_clean_tree()
        self.lake.publisher.recover(touched_tables(step))
        with explain_lost_server(f"{step.name} was compared"):
            return prove_same_rows(self.lake, step, days, run, progress)

    def refresh(self, step: Step, days: Sequence[date], *, run: RunInfo, progress: Progress = silent) -> RefreshResult:
        """Append to raw how the landed files of the arrival ``days`` differ now, in one publication.

        Raises :class:`InvalidRequest` for a step that reads no landed files; otherwise like :meth:`build`.
        """
        self.lake.require_clean_tree()
        wanted = sorted(set(days))
        self.lake.require_ended(step, wanted)
        self.lake.publisher.recover(set(step.table_names))
        with explain_lost_server(f"{step.name} was refreshed"):
            return RefreshBuild(self.lake, step, run, progress).run_days(wanted)

    def preview_refresh(self, step: Step, days: Sequence[date], progress: Progress = silent) -> RefreshResult:
        return RefreshBuild(self.lake, step, RunInfo(""), progress).preview(sorted(set(days)))

    def restore(
        self, step: Step, days: Sequence[date], *, run: RunInfo, dry_run: bool = False, progress: Progress = silent
    ) -> Restored:
        """Put rows of raw back whose files are gone or damaged, exactly as published.

        ``dry_run`` only looks. Raises :class:`RowsLost` for days that cannot be restored, after the others.
        """
        with explain_lost_server(f"{step.name} was restored"):
            return RestoreBuild(self.lake, step, run, progress).run_days(sorted(set(days)), dry_run=dry_run)

    def _refuse_version(self, step: Step, version: str | None) -> None:
        if version not in (None, INGEST, AS_PUBLISHED):
            raise InvalidRequest(f"{step.name} has no version {version!r}.", hint=f"Versions: {INGEST}.")

    def _refuse_new_days(
        self, step: Step, days: Iterable[date], as_published: Collection[date], switches: Switches
    ) -> None:
        """Without a declared current version, only days that keep theirs can be built."""
        states = self.lake.states(step)
        if any(day not in as_published or published_version(step, day, states) is None for day in days):
            require_current(step, switches)

    def reproduce(self, publication: str, progress: Progress = silent) -> Reproduction:
        return reproduce(self.lake, publication, progress)


def touched_tables(step: Step) -> set[str]:
    """Tables that a build writes or reads, in any version of ``step``."""
    read = {read.table for version in step.versions for read in version.reads}
    return read.union(step.table_names)
