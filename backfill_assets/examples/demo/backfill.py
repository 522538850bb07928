"""The demo's backfill, launched and followed here. The daemon of a running ``make dev`` carries it out, else one that
ends with the demo.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import dagster as dg

from backfill_assets import clock
from backfill_assets.cli.dev.dagster_home import REPOSITORY, dagster_home
from backfill_assets.cli.dev.only_daemon import only_daemon
from backfill_assets.cli.dev.sessions import start_process, stop_sessions
from backfill_assets.cli.output import say
from backfill_assets.cli.running_dev import RunningDev, running_dev
from backfill_assets.days import DayRange
from backfill_assets.defs.dagster_internals import (
    BACKFILL_ID_TAG,
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionStatus,
    PartitionBackfill,
)
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.defs.sensors.shows_what_is import days_of_data
from backfill_assets.defs.specs import VERSION_TAG
from backfill_assets.defs.start_here import lakehouse_state, report_state
from backfill_assets.defs.under_way import launch_backfill
from backfill_assets.defs.watchdogs import watchdog_job
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.demo.progress import BackfillProgress, Phases, shown
from backfill_assets.settings import Settings
from backfill_assets.text import format_count
from backfill_assets.ui_addresses import backfill_page

_COMMAND = "backfill demo"
_LAST_LINES = 15
_POLL_SECONDS = 1.0
_NEWEST_RECORDS = 20
_GRACE_SECONDS = 30.0
"""A stopping run records it, and the daemon waits."""
_QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
_DAEMON = (sys.executable, "-m", "backfill_assets.defs.dagster_internals", "daemon", "run", "-w", "workspace.yaml")


class DemoFailed(BackfillError):
    pass


def launch_demo(
    settings: Settings,
    days: DayRange,
    tables: Sequence[str],
    location: str = "backfill_assets.definitions",
    version: str = "",
) -> DemoBackfill:
    """``location`` is the module with assets; ``version`` counts for steps that have it."""
    dev = running_dev(settings)
    if dev is not None:
        _require_same_places(settings, dev)
    else:
        # Before the launch: an existing daemon would carry it out, and the demo's would be refused.
        with only_daemon(settings, _COMMAND):
            pass
    instance = dg.DagsterInstance.from_config(str(dagster_home(settings)))
    backfill_id = launch_backfill(
        instance,
        import_module(location).defs.resolve_asset_graph(),
        dict.fromkeys(tables, days),
        title=f"Demo: {days}" + (f", {version} of the fact" if version else ""),
        tags={"user": "backfill demo"} | ({VERSION_TAG: version} if version else {}),
    )
    return DemoBackfill(settings, instance, backfill_id, dev=dev)


def _require_same_places(settings: Settings, dev: RunningDev) -> None:
    """Runs of ``make dev`` keep its places."""
    places = {
        "the lakehouse": (dev.lakehouse, str(settings.lakehouse)),
        "the landing zone": (dev.landing, str(settings.landing)),
        "the token key": (dev.token_key_file, str(settings.token_key_file)),
    }
    for what, (theirs, ours) in places.items():
        if theirs != ours:
            raise DemoFailed(
                f"`make dev` of {settings.home} runs with {what} {theirs}, and the demo is for {ours}.",
                hint=f"End it first: Ctrl-C where it runs, or kill {dev.pid}. "
                "Or give the demo a BACKFILL_HOME of its own.",
            )


@dataclass(frozen=True)
class DemoBackfill:
    """The daemon starts after the launch: its first check for backfills comes soonest."""

    settings: Settings
    instance: dg.DagsterInstance
    backfill_id: str
    daemon: tuple[str, ...] = _DAEMON
    dev: RunningDev | None = None

    @property
    def daemon_log(self) -> Path:
        return self.settings.home / "dagster" / "demo-daemon.log"

    def carry_out(self, steps: Sequence[str], phases: Phases) -> BackfillProgress:
        try:
            last = self._follow(steps, phases)
        except KeyboardInterrupt:
            self._cancel()
            raise
        if not has_ended(last):
            cancel_backfill(self.instance, self.backfill_id)
        require_success(last, self.daemon_log, self.dev)
        return last

    def _follow(self, steps: Sequence[str], phases: Phases) -> BackfillProgress:
        with self._running_daemon() as lives, phases("Backfilling"), shown(steps) as show:
            while True:
                now = progress(self.instance, self.backfill_id)
                show(now)
                if has_ended(now) or not lives():
                    return now
                clock.sleep(_POLL_SECONDS)

    def _cancel(self) -> None:
        say(f"Interrupted: cancelling the backfill {self.backfill_id} ...")
        lives = self._dev_lives()
        cancel_backfill(self.instance, self.backfill_id, daemon_lives=lives)
        stopped = "`make dev` stops its runs." if lives else "Nothing is left running."
        say(f"{stopped} What was published stays; what was staged is used by the next run.")

    def _dev_lives(self) -> bool:
        return self.dev is not None and running_dev(self.settings) == self.dev

    @contextmanager
    def _running_daemon(self) -> Iterator[Callable[[], bool]]:
        """The daemon leads a session: nothing it starts outlives it."""
        if self.dev is not None:
            say(f"  The daemon of `make dev` carries it out: {self.dev.ui}{backfill_page(self.backfill_id)}")
            yield self._dev_lives
            return
        with only_daemon(self.settings, _COMMAND):
            with self.daemon_log.open("w") as log:
                process = start_process(self.daemon, REPOSITORY, _variables(self.settings), output=log)
            try:
                yield lambda: process.poll() is None
            finally:
                stop_sessions([process], _GRACE_SECONDS)


def require_success(last: BackfillProgress, daemon_log: Path, dev: RunningDev | None = None) -> None:
    if has_succeeded(last):
        return
    what = f"the backfill {last.backfill_id}"
    if has_ended(last):
        failed = ", ".join(step for step, ended in last.steps.items() if ended == "FAILURE")
        reason = last.failure or last.error or (f"failed: {failed}" if failed else "no step failed")
        opened = f"{dev.ui}{backfill_page(last.backfill_id)}" if dev else "In `make dev`, its page of Runs > Backfills"
        raise DemoFailed(
            f"The backfill {last.backfill_id} ended as {last.status}: {reason}",
            hint=f"{opened} has the run's log. Then run the demo again.",
        )
    again = "Run the demo again: what was staged is used."
    if dev is not None:
        raise DemoFailed(f"`make dev` ended while its daemon carried out {what}.", hint=again)
    said = "\n".join(daemon_log.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:])
    raise DemoFailed(
        f"Dagster's daemon died while {what} was under way. It said last:\n{said}",
        hint=f"All that it said is in {daemon_log}. {again}",
    )


# ------------------------------------------------------------- where it stands, its end


def has_ended(now: BackfillProgress) -> bool:
    return BulkActionStatus(now.status) in BULK_ACTION_TERMINAL_STATUSES


def has_succeeded(now: BackfillProgress) -> bool:
    return now.status in (BulkActionStatus.COMPLETED_SUCCESS.value, BulkActionStatus.COMPLETED.value)


def progress(instance: dg.DagsterInstance, backfill_id: str) -> BackfillProgress:
    """Raises :class:`InvalidRequest` for an unknown id."""
    backfill = _existing_backfill(instance, backfill_id)
    runs = _runs(instance, backfill_id)
    steps: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for run in reversed(runs):
        for step in instance.get_run_step_stats(run.run_id):
            steps[step.step_key] = step.status.value if step.status else "STARTED"
            if step.start_time:
                seconds[step.step_key] = round((step.end_time or clock.now().timestamp()) - step.start_time, 3)
    newest = runs[0].run_id if runs else ""
    return BackfillProgress(
        backfill_id=backfill_id,
        status=backfill.status.value,
        steps=steps,
        step_seconds=seconds,
        message=_newest_message(instance, newest) if newest else "",
        error=backfill.error.message.strip() if backfill.error else "",
        failure=_failure(instance, newest) if "FAILURE" in steps.values() else "",
    )


def cancel_backfill(instance: dg.DagsterInstance, backfill_id: str, *, daemon_lives: bool = False) -> None:
    """A living daemon stops its runs. Otherwise they are dead, and recorded as canceled: no daemon resumes them."""
    backfill = _existing_backfill(instance, backfill_id)
    ended = backfill._replace(status=BulkActionStatus.CANCELING)
    if not daemon_lives:
        ended = backfill._replace(status=BulkActionStatus.CANCELED, backfill_end_timestamp=clock.now().timestamp())
        for run in _runs(instance, backfill_id):
            if not run.is_finished:
                instance.report_run_canceled(run, message="The process that ran it was stopped.")
    if backfill.status not in BULK_ACTION_TERMINAL_STATUSES:
        instance.update_backfill(ended)


def _existing_backfill(instance: dg.DagsterInstance, backfill_id: str) -> PartitionBackfill:
    backfill = instance.get_backfill(backfill_id)
    if backfill is None:
        raise InvalidRequest(f"There is no backfill {backfill_id!r}.", hint="Its page in the UI shows its id.")
    return backfill


def _runs(instance: dg.DagsterInstance, backfill_id: str) -> Sequence[dg.DagsterRun]:
    return instance.get_runs(filters=dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill_id}))


def _failure(instance: dg.DagsterInstance, run_id: str) -> str:
    failed = dg.DagsterEventType.STEP_FAILURE
    for record in instance.get_records_for_run(run_id, of_type=failed, limit=1).records:
        event = record.event_log_entry.dagster_event
        failure = event.step_failure_data if event else None
        if failure and failure.user_failure_data and failure.user_failure_data.description:
            return str(failure.user_failure_data.description)
        return failure.error.message.strip() if failure and failure.error else ""
    return ""


def _newest_message(instance: dg.DagsterInstance, run_id: str) -> str:
    for record in instance.get_records_for_run(run_id, limit=_NEWEST_RECORDS, ascending=False).records:
        entry = record.event_log_entry
        if not entry.is_dagster_event and " days " in entry.user_message:
            return entry.user_message
    return ""


def _variables(settings: Settings) -> dict[str, str]:
    """Absolute: the daemon works in the repository."""
    paths = {
        "BACKFILL_HOME": settings.home,
        "BACKFILL_LAKEHOUSE": settings.lakehouse,
        "BACKFILL_LANDING": settings.landing,
        "BACKFILL_TOKEN_KEY_FILE": settings.token_key_file,
        "DAGSTER_HOME": settings.home / "dagster",
    }
    remote = {"SPARK_REMOTE": settings.spark_remote} if settings.spark_remote else {}
    return {name: str(path) for name, path in paths.items()} | remote | {"PYTHONUNBUFFERED": "1"}


def watch_and_report(instance: dg.DagsterInstance, settings: Settings) -> str:
    tables = PartitionedTables(CATALOG, days_of_data(CATALOG, settings))
    spark = SharedSpark(settings=settings)
    backfill = Backfill(settings=settings, catalog=CATALOG, spark=spark)
    looked = watchdog_job(tables).execute_in_process(
        run_config=_QUIET, instance=instance, resources={"spark": spark, "backfill": backfill}
    )
    verdicts = looked.get_asset_check_evaluations()
    failed = [f"{each.asset_key.to_user_string()} {each.partition}" for each in verdicts if not each.passed]
    with dg.build_resources({"backfill": backfill}, instance=instance) as resources:
        state = lakehouse_state(instance, resources.backfill, tables)
    report_state(instance, state)
    found = f"{format_count(len(verdicts), 'day')} of tables read again: "
    return found + (f"wrong are {', '.join(failed)}" if failed else "each is as it was published")
