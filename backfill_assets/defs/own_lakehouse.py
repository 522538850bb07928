"""Jobs, sensors and schedules that refuse a lakehouse other than that of their Dagster instance."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg
from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.defs.dagster_internals import is_stopped
from backfill_assets.defs.metadata import plain_failure
from backfill_assets.defs.resources import Backfill
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.log import anything_published
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.senders import log_writer, sender_of
from backfill_assets.upkeep.automation import SensorBook, all_is_well
from backfill_assets.upkeep.heartbeat import beat

EVERY_TAG = "backfill/every_seconds"
_KEY = "backfill_assets/lakehouse"
IS_OFF = "Nothing is launched by itself: BACKFILL_AUTOMATION is off."
Tick = dg.SensorResult | dg.SkipReason


def lakehouse_job(
    name: str,
    step: str,
    description: str,
    config_type: type[dg.Config] | None,
    work: Callable[[dg.OpExecutionContext, Any, Backfill], None],
    *,
    pool: str | None = None,
    tags: Mapping[str, str] | None = None,
    example: Mapping[str, object] | None = None,
) -> dg.JobDefinition:
    """A job of one ``step`` in the run's own process; a :class:`BackfillError` fails it without stack trace."""

    def carry_out(context: dg.OpExecutionContext, config: Any, backfill: Backfill) -> None:
        with failing_plainly():
            require_own_lakehouse(context.instance, backfill.storage)
            work(context, config, backfill)

    def configured(context: dg.OpExecutionContext, config: config_type, backfill: Backfill) -> None:  # type: ignore[valid-type]
        carry_out(context, config, backfill)

    def plain(context: dg.OpExecutionContext, backfill: Backfill) -> None:
        carry_out(context, None, backfill)

    only_step = dg.op(name=step, pool=pool, description=description)(configured if config_type else plain)
    filled: Any = {"ops": {step: {"config": dict(example)}}} if example else None

    @dg.job(name=name, description=description, executor_def=dg.in_process_executor, tags=tags, config=filled)
    def job() -> None:
        only_step()

    return job


def lakehouse_sensor(
    name: str,
    description: str,
    every_seconds: int,
    tick: Callable[[dg.SensorEvaluationContext, Backfill], Tick],
    *,
    by_itself: bool = True,
    **more: Any,
) -> dg.SensorDefinition:
    """On from the start. ``by_itself``: it launches work unasked, which settings may forbid."""

    @dg.sensor(
        name=name,
        description=description,
        minimum_interval_seconds=every_seconds,
        tags={EVERY_TAG: str(every_seconds)},
        default_status=dg.DefaultSensorStatus.RUNNING,
        **more,
    )
    def sensor(context: dg.SensorEvaluationContext, backfill: Backfill) -> Tick:
        try:
            require_own_lakehouse(context.instance, backfill.storage)
        except LakehouseUnusable as error:
            return dg.SkipReason(str(error))
        is_off = by_itself and not backfill.settings.automation
        with _noted(context, backfill, name, every_seconds):
            return dg.SkipReason(IS_OFF) if is_off else tick(context, backfill)

    return sensor


@contextmanager
def _noted(context: dg.SensorEvaluationContext, backfill: Backfill, name: str, every_seconds: int) -> Iterator[None]:
    """Record how a tick ends; send a notice after two failures, call the heartbeat while all is well."""
    book = SensorBook(backfill.storage)
    try:
        yield
    except Exception as error:
        said, hint = (error.message, error.hint or "") if isinstance(error, BackfillError) else (_in_words(error), "")
        with _logging(context):
            if book.note_failure(name, every_seconds, clock.now(), said, hint):
                # Delivered here, since the failing sensor may be the one that delivers.
                deliver(Publisher(backfill.storage), sender_of(backfill.settings.notices, log_writer(context.log)))
        raise
    if anything_published(backfill.storage):
        with _logging(context):
            book.note_end(name, every_seconds, clock.now())
            _heartbeat(context, backfill, book)


@contextmanager
def _logging(context: dg.SensorEvaluationContext) -> Iterator[None]:
    try:
        yield
    except (BackfillError, DeltaError, OSError) as error:
        context.log.warning(str(error))


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _heartbeat(context: dg.SensorEvaluationContext, backfill: Backfill, book: SensorBook) -> None:
    if not backfill.settings.heartbeat or context.repository_def is None:
        return
    own = [each.name for each in context.repository_def.sensor_defs if EVERY_TAG in each.tags]
    expected = [name for name in own if not is_stopped(context.instance, name)]
    if all_is_well(book.all(), expected, now := clock.now()):
        beat(backfill.storage, backfill.settings.heartbeat, now)


def nightly_schedule(
    name: str,
    job: dg.JobDefinition,
    cron: str,
    variable: str,
    description: str,
    why_idle: Callable[[Backfill], str] = lambda _: "",
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=os.environ.get(variable, "").strip() or cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )
    def every_night(backfill: Backfill) -> dg.RunRequest | dg.SkipReason:
        if not backfill.settings.automation:
            return dg.SkipReason(IS_OFF)
        if not backfill.publications():
            return dg.SkipReason("Nothing was published yet.")
        idle = why_idle(backfill)
        return dg.SkipReason(idle) if idle else dg.RunRequest()

    return every_night


@contextmanager
def failing_plainly() -> Iterator[None]:
    try:
        yield
    except BackfillError as error:
        raise plain_failure(error) from None


def require_own_lakehouse(instance: dg.DagsterInstance, storage: Storage) -> None:
    """Bind ``instance`` to this lakehouse. Raises :class:`LakehouseUnusable` if it has another with publications."""
    known = instance.daemon_cursor_storage.get_cursor_values({_KEY}).get(_KEY)
    if known == storage.root:
        return
    if known is not None and anything_published(Storage(known)):
        raise LakehouseUnusable(
            f"This Dagster instance is about the lakehouse {known}, and this is for {storage.root}.",
            hint=(
                "Give each lakehouse a Dagster of its own: "
                'export DAGSTER_HOME="$(python -m backfill_assets.cli.dev.dagster_home)", with BACKFILL_HOME set.'
            ),
        )
    instance.daemon_cursor_storage.set_cursor_values({_KEY: storage.root})
