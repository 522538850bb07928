"""Dagster resources: a run's Spark session, and the lakehouse."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr

from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.dagster_internals import BACKFILL_ID_TAG, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, USER_TAG
from backfill_assets.errors import SparkLost
from backfill_assets.lakehouse.campaign_journal import plan_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.dataset import Dataset
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.environment import git_commit
from backfill_assets.rebuild.outcome import BuiltDay, Person, RunInfo
from backfill_assets.rebuild.verdicts import with_kept_rules
from backfill_assets.settings import Settings
from backfill_assets.spark.session import RESTART_SECONDS, answers_within, end_session, keeper, open_session
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets.upkeep.watch import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work = TypeVar("Work")
SESSION_TAG = "backfill/spark_session"
EMBEDDED_SPARK = "embedded_spark"
_OPEN, _CLOSED = "open", "closed"
_LEFT_OPEN_AT_MOST = 20


class SharedSpark(LazyPySparkResource):
    """The lazy session of dagster-pyspark on this project's profiles; a run that builds nothing starts no JVM.

    On a Spark Connect server the session's id is the run's id, and it is closed with the run. A run that died
    leaves its session open, and jobs in it could still write: the next run that needs Spark ends them first.
    ``spark_config`` holds Spark settings over those of the profile.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    settings: dg.ResourceDependency[Settings]
    _context: dg.InitResourceContext | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        self._context = context

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        if self._spark_session is not None and self.settings.spark_remote:
            self._spark_session.stop()
            _tag(context, _CLOSED)
        self._spark_session = None

    def session(self) -> "SparkSession":
        session: SparkSession = self.spark_session
        return session

    def reconnect(self) -> bool:
        """Drop a session whose server is gone, and wait for the server; False if nothing restarts it."""
        self._spark_session = None
        url = self.settings.spark_remote
        return bool(url and keeper() and answers_within(url, RESTART_SECONDS))

    def _init_session(self) -> None:
        if self._spark_session is None:
            if self.settings.spark_remote:
                self._end_what_dead_runs_left()
                _tag(self._context, _OPEN)
            self._spark_session = open_session(self.settings, self._app_name(), self._run_id(), self.spark_config)
            if self.settings.spark_remote:
                # An earlier process of this same run may have died with the same session id.
                self._spark_session.interruptAll()

    def _end_what_dead_runs_left(self) -> None:
        instance = self._context.instance if self._context else None
        if instance is None:
            return
        ended = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS]
        left_open = dg.RunsFilter(tags={SESSION_TAG: _OPEN}, statuses=ended)
        for run in instance.get_runs(filters=left_open, limit=_LEFT_OPEN_AT_MOST):
            end_session(self.settings, run.run_id)
            instance.add_run_tags(run.run_id, {SESSION_TAG: _CLOSED})

    def _run_id(self) -> str | None:
        return self._context.run.run_id if self._context and self._context.run else None

    def _app_name(self) -> str:
        return f"backfill {self._run_id() or 'without a run'}"


def _tag(context: dg.InitResourceContext | None, state: str) -> None:
    if context and context.instance and context.run:
        context.instance.add_run_tags(context.run.run_id, {SESSION_TAG: state})


class Backfill(dg.ConfigurableResource[Any]):
    """The resource backfill: assets get the builder from it, and sensors the logs."""

    settings: dg.ResourceDependency[Settings]
    catalog: dg.ResourceDependency[Catalog]
    spark: dg.ResourceDependency[SharedSpark]

    @property
    def storage(self) -> Storage:
        return Storage(str(self.settings.lakehouse))

    def builder(self, spark: SharedSpark | None = None) -> Builder:
        return Builder.from_settings(self.settings, self.catalog, (spark or self.spark).session)

    def resume(self, work: Callable[[], Work], say: Callable[[str], None], spark: SharedSpark | None = None) -> Work:
        """Do ``work``; if its Spark server is lost and comes back, once more from what is staged."""
        try:
            return work()
        except SparkLost as lost:
            say(f"{lost.message} Waiting for Spark, then going on from what is staged.")
            if not (spark or self.spark).reconnect():
                raise
        return work()

    def publications(self) -> PublicationLog | None:
        return PublicationLog(self.storage) if anything_published(self.storage) else None

    def built_of(self, datasets: Sequence[Dataset]) -> list[Dataset]:
        log = self.publications()
        own = {name for each in datasets for step in each.steps if not step.external for name in step.table_names}
        states = log.day_states(log.head(), own) if log else {}
        built = {key.table for key, state in states.items() if state.content is not None}
        return [each for each in datasets if not built.isdisjoint(table.name for table in each.tables)]

    def with_kept_rules(self, days: Sequence[BuiltDay]) -> Sequence[BuiltDay]:
        log = self.publications()
        return with_kept_rules(self.storage, log, days) if log else days

    def watch(self) -> Watch | None:
        log = self.publications()
        return Watch(self.catalog, self.storage, log, self.spark.session, asks_pandera=True) if log else None

    def maintenance(self) -> Maintenance:
        publisher = Publisher(self.storage, retention_days=self.settings.rollback_window_days)
        return Maintenance(publisher, self.catalog.table_names, self.settings.timeline_days)

    def campaign(self, campaign: str, run: dg.DagsterRun | None, progress: Callable[[str], None]) -> CampaignRun:
        info, ui = run_info(run, self.catalog) if run else RunInfo(""), self.settings.ui or ""
        return CampaignRun.of_settings(self.settings, self.builder(), plan_of(campaign), info, progress, ui)


def run_info(run: dg.DagsterRun, catalog: Catalog) -> RunInfo:
    return RunInfo(
        run_id=run.run_id,
        git_commit=git_commit(catalog.folder),
        launched_by=launched_by(run.tags),
        person=person_behind(run.tags),
    )


def person_behind(tags: Mapping[str, str]) -> Person:
    """The person of the tag ``user``; unknown for runs of a schedule or sensor.

    Dagster+ sets it to the logged-in user; open-source Dagster has no login: whoever launches a run writes it.
    """
    name = tags.get(USER_TAG, "").strip()
    by_itself = SCHEDULE_NAME_TAG in tags or SENSOR_NAME_TAG in tags
    return Person(name, f"tag {USER_TAG} of the Dagster run") if name and not by_itself else Person()


def launched_by(tags: Mapping[str, str]) -> str:
    for tag, kind in ((BACKFILL_ID_TAG, "backfill"), (SCHEDULE_NAME_TAG, "schedule"), (SENSOR_NAME_TAG, "sensor")):
        if tag in tags:
            return f"{kind} {tags[tag]}"
    return tags.get(USER_TAG, "manual run")
