"""The sensor ``repairs`` on a real instance: one native backfill, launched once, even if a process dies in between."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.defs.checks import AS_USUAL, PUBLICATION, evaluations
from backfill_assets.defs.dagster_internals import RUN_KEY_TAG, SENSOR_NAME_TAG, report_checks
from backfill_assets.defs.look_back import EARLIER_TAG
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.sensors import repairs
from backfill_assets.defs.sensors.repairs import repair_sensor
from backfill_assets.defs.specs import FORCE_TAG, REPAIR_TAG, VERSION_TAG
from backfill_assets.defs.watchdogs import JOB, STEP
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.data_days import DataDays
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.model.left_out import LeftOut
from backfill_assets.plan.keep import plan_as_kept
from backfill_assets.quality.gates import checks_of
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.state.observed import observe
from backfill_assets.stream.lease import acquire_stream
from backfill_assets.upkeep.incidents import IncidentBook
from backfill_assets.upkeep.watch import WatchedDay
from backfill_assets_tests.begun_campaign import begin
from backfill_assets_tests.death import Died
from backfill_assets_tests.defs.conftest import DagsterLake, range_tags, target_of
from backfill_assets_tests.defs.fake_builder import FakeBackfill, built_day
from backfill_assets_tests.defs.small_chain import publish_chain, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG, SMALL_TABLES, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

PARTITION = "dagster/partition"
DAY, OTHER = date(2017, 3, 4), date(2017, 3, 6)
SENSOR = repair_sensor(SMALL_TABLES)


class World(DagsterLake):
    """With a sensor that is evaluated as the daemon does."""

    def tick(self) -> str:
        found = self.evaluate(SENSOR)
        requests = [str(each.run_key) for each in found.run_requests or ()]
        return f"Asked: {', '.join(requests)}" if requests else str(found.skip_message)

    def end(self, status: BulkActionStatus = BulkActionStatus.COMPLETED_FAILED) -> None:
        for backfill in self.backfills():
            self.instance.update_backfill(backfill._replace(status=status))

    def late_row(self, *days: date) -> None:
        self.lakehouse.publish(
            f"late-{'-'.join(map(str, days))}", {"raw_sales": {day: [9] for day in days}}, mode="append"
        )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> SmallLakehouse:
    """Three days of everything; each test has a copy."""
    found = SmallLakehouse(tmp_path_factory.mktemp("published") / "lakehouse")
    publish_chain(found, "p", [DAY, date(2017, 3, 5), OTHER])
    return found


@pytest.fixture
def world(published: SmallLakehouse, dagster_instance: dg.DagsterInstance, tmp_path: Path) -> World:
    shutil.copytree(published.storage.root, tmp_path / "lakehouse")
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    lakehouse.minutes = published.minutes
    return World(tmp_path, dagster_instance, lakehouse)


def test_nothing_wrong_launches_nothing(world: World) -> None:
    """It is on from the start: on a sound lakehouse it only says so."""
    assert (SENSOR.name, SENSOR.default_status) == (repairs.SENSOR, dg.DefaultSensorStatus.RUNNING)
    assert world.tick() == "Nothing to repair."
    assert world.backfills() == []


def test_late_rows_become_one_backfill_of_exactly_their_days(world: World) -> None:
    """Titled with the reason and tagged, and a second tick finds it under way."""
    world.late_row(DAY, OTHER)
    assert "Launched the backfill late_rows_" in world.tick()
    (backfill,) = world.backfills()
    tables = ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue")
    assert target_of(backfill) == {table: {str(DAY), str(OTHER)} for table in tables}
    assert backfill.title == f"Repair: bronze_sales {DAY}, {OTHER}: late rows"
    assert backfill.tags[REPAIR_TAG] == backfill.backfill_id
    assert FORCE_TAG not in backfill.tags
    assert backfill.tags[VERSION_TAG] == AS_PUBLISHED
    assert f"waits for the backfill {backfill.backfill_id}" in world.tick()
    assert len(world.backfills()) == 1


def test_a_table_that_is_declared_wrong_stops_no_repair(world: World) -> None:
    """A repair that was launched for it, too, is not asked for again; what is made right further up is built."""
    world.late_row(DAY)
    assert "Launched the backfill late_rows_" in world.tick()
    (launched,) = world.backfills()
    broken = LeftOut("report", frozenset({"fact_daily_revenue"}), InvalidRequest("It is declared wrong."))
    without = Catalog((replace(SMALL, steps=SMALL.steps[:-1]),), None, (broken,))
    found = world.evaluate(repair_sensor(PartitionedTables(without)))
    assert f"waits for the backfill {launched.backfill_id}" in str(found.skip_message)
    world.end()
    world.late_row(OTHER)
    assert "Launched" in str(world.evaluate(repair_sensor(PartitionedTables(without))).skip_message)
    (new,) = [each for each in world.backfills() if each.backfill_id != launched.backfill_id]
    assert "fact_sales_transactions" in target_of(new) and "fact_daily_revenue" not in target_of(new)


def test_a_plan_that_was_removed_while_it_is_open_stops_no_repair(world: World) -> None:
    """What it rebuilds is not known any more; that other days need repair is."""
    begin(world.lakehouse.storage, "plan-0123456789abcdef")
    world.late_row(DAY)
    assert "Launched the backfill late_rows_" in world.tick()


def test_days_that_a_running_stream_follows_are_left_to_it(world: World) -> None:
    """Until its lease ends: then they are repaired as any other."""
    lease = acquire_stream(world.lakehouse.storage, "raw_sales", "landing")
    world.lakehouse.minutes += (datetime.now(UTC) - world.lakehouse.now()) // timedelta(minutes=1)
    world.lakehouse.publish("20170310t120000-stream-raw-sales-1", {"raw_sales": {DAY: [9]}}, mode="append")
    assert world.tick() == f"Waiting: bronze_sales {DAY}: left to the running stream for 10 minutes"
    assert world.backfills() == []
    lease.release()
    assert "Launched the backfill late_rows_" in world.tick()


@contextmanager
def _dies(monkeypatch: pytest.MonkeyPatch, target: object, name: str, *, after: bool) -> Iterator[None]:
    real: Callable[..., object] = getattr(target, name)

    def die(*arguments: object, **named: object) -> None:
        if after:
            real(*arguments, **named)
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(target, name, die)
        with pytest.raises(Died):
            yield


def test_a_tick_that_dies_launches_neither_never_nor_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept outside the backfill itself, and the same evidence gives the same id."""
    world.late_row(DAY)
    for function, after in (("observe_each", False), ("launch", False), ("launch", True)):
        with _dies(monkeypatch, repairs, function, after=after):
            world.tick()
        assert len(world.backfills()) == int(after)
    world.tick()
    assert len(world.backfills()) == 1


def test_three_attempts_then_it_says_what_a_person_does(world: World) -> None:
    """The evidence does not change, so attempts are counted over restarts from what Dagster remembers."""
    world.late_row(DAY)
    for attempt in (1, 2, 3):
        world.tick()
        assert len(world.backfills()) == attempt
        world.end()
    told = world.tick()
    assert len(world.backfills()) == 3
    assert f"For a person: bronze_sales {DAY}: 3 repairs did not put it right -> read the gates" in told


def test_a_repair_beyond_its_bounds_is_a_plan_of_just_its_days(world: World) -> None:
    """It waits for a person; the day between, which is sound, is left as it is."""
    backfill = world.resources["backfill"]
    settings = replace(backfill.settings, repairs="days=1,settle=0")
    bounded = FakeBackfill(fake=backfill.fake, settings=settings, catalog=CATALOG, spark=backfill.spark)
    world.resources["backfill"] = bounded
    world.late_row(DAY, OTHER)
    world.tick()
    (incident,) = IncidentBook(world.lakehouse.storage).open()
    assert world.backfills() == [] and incident.state == "person"
    plan = plan_as_kept(settings, incident.plan)
    assert (plan.asked.target, plan.asked.days) == ("bronze_sales", f"{DAY}..{OTHER}")
    assert plan.asked.leaves == ("2017-03-05",) and not plan.asked.force
    world.tick()
    assert [each.plan for each in IncidentBook(world.lakehouse.storage).open()] == [plan.id]


def test_an_unusual_day_is_told_until_a_person_has_accepted_it(world: World) -> None:
    """Its check still fails, and opens nothing more; another day is another one. What it said of other rows is over."""

    def unusual(day: date, judged: str = "") -> None:
        said = dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey("raw_sales"),
            check_name=AS_USUAL,
            passed=False,
            partition=str(day),
            severity=dg.AssetCheckSeverity.WARN,
            description="rows 10, usual 90 to 110",
            metadata={PUBLICATION: judged} if judged else {},
        )
        report_checks(world.instance, str(uuid4()), [said])

    book = IncidentBook(world.lakehouse.storage)
    unusual(DAY, "the one before")
    assert world.tick() == "Nothing to repair." and book.open() == []
    unusual(DAY, observe(world.lakehouse.storage, TABLES).states[TableDay("raw_sales", DAY)].publication)
    assert f"For a person: raw_sales {DAY}: rows 10, usual 90 to 110" in world.tick()
    (incident,) = book.open()
    book.ask_to_close(incident, "ann", "Easter", datetime.now(UTC))
    assert "closed by ann: Easter" in world.tick()
    assert world.tick() == "Nothing to repair." and book.open() == []
    unusual(OTHER)
    world.tick()
    assert [each.days for each in book.open()] == [(OTHER,)] and world.backfills() == []


def _watchdog_fails(world: World) -> None:
    state = observe(world.lakehouse.storage, TABLES).states[TableDay("fact_sales_transactions", DAY)]
    rule = RuleOutcome("content_as_published", "consistency", False, "6 rows", "7 rows", "Build it again.")
    watched = WatchedDay("fact_sales_transactions", DAY, state.publication, state.physical, 6, (rule,))
    world.watch.look = lambda tables, days: [watched]  # type: ignore[method-assign]
    assert world.run_job(JOB, STEP, days=str(DAY), tables=["fact_sales_transactions"]).success


def _run_daily(world: World) -> None:
    job = world.defs.resolve_job_def("daily_small")
    assert job.execute_in_process(instance=world.instance, partition_key=str(DAY)).success


def test_a_watchdog_whose_verdicts_were_wiped_stops_no_repair(world: World) -> None:
    """A person wipes the asset's history in the UI, and a run plans the watchdog anew."""
    _watchdog_fails(world)
    world.tick()
    world.end()
    world.instance.wipe_assets([dg.AssetKey("fact_sales_transactions")])
    _run_daily(world)
    world.late_row(OTHER)
    assert world.tick().startswith("Asked: proof-damaged_20170304_")
    assert [target_of(each).get("bronze_sales") for each in world.backfills()] == [{str(OTHER)}, None]


def test_a_tick_says_what_it_launched_and_where_it_is(world: World) -> None:
    """Dagster counts 0 runs requested: a backfill is none. A proof that runs already would hide it for ever."""
    _watchdog_fails(world)
    world.tick()
    world.end()
    proof = world.tick().removeprefix("Asked: ")
    tags = {RUN_KEY_TAG: proof, SENSOR_NAME_TAG: repairs.SENSOR}
    world.instance.create_run_for_job(world.defs.resolve_job_def(JOB), tags=tags)
    world.late_row(OTHER)
    said = world.tick()
    (backfill,) = (each for each in world.backfills() if each.backfill_id.startswith("late_rows"))
    assert f"Launched the backfill {backfill.backfill_id}: Repair" in said
    assert f"counts no backfill among the runs requested: /runs/b/{backfill.backfill_id}" in said


def test_a_failed_watchdog_is_forced_until_it_is_right(world: World) -> None:
    """A run that builds the day plans its watchdog anew: the verdict before must not be forgotten by that."""
    _watchdog_fails(world)

    world.tick()
    (first,) = world.backfills()
    assert first.tags[FORCE_TAG]
    assert set(target_of(first)) == {"fact_sales_transactions", "fact_daily_revenue"}
    world.end()
    _run_daily(world)
    world.tick()
    assert len(world.backfills()) == 2


def test_a_rollback_is_remembered_after_a_compaction(world: World) -> None:
    """Maintenance publishes the day again every few nights: it is still as a person put it back, older than raw."""
    _roll_back(world, "undo")
    told = world.tick()
    assert f"For a person: bronze_sales {DAY}: a person has rolled it back" in told
    assert world.backfills() == []


def test_a_rollback_holds_until_an_input_changes(world: World) -> None:
    """Lines that were corrected land after it: the day is built again as it was put back, and so are its readers."""
    _roll_back(world, "undo")
    world.tick()
    world.lakehouse.publish("corrected", {"raw_sales": {DAY: [10]}}, mode="append")
    world.tick()
    (backfill,) = world.backfills()
    assert backfill.title == f"Repair: bronze_sales {DAY}: late rows since an undo"
    assert backfill.tags[VERSION_TAG] == AS_PUBLISHED
    tables = ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue")
    assert target_of(backfill) == {table: {str(DAY)} for table in tables}


def test_a_rollback_that_was_undone_holds_no_repair_back(world: World) -> None:
    """What is there is the publication again, which was not taken away, also after a compaction."""
    _roll_back(world, "undo", "redo")
    world.late_row(OTHER, DAY)
    assert "Launched the backfill late_rows_" in world.tick()
    (backfill,) = world.backfills()
    assert target_of(backfill)["bronze_sales"] == {str(DAY), str(OTHER)}


def _roll_back(world: World, *ids: str) -> None:
    """A day of bronze with a late row, and each of these rollbacks by the next one; then its tables are compacted."""
    world.late_row(DAY)
    publish_step(world.lakehouse, "new", SMALL.step_of("bronze_sales"), {DAY: 3})
    for before, id in pairwise(("new-bronze-sales", *ids)):
        with clock.use(world.lakehouse.time):
            roll_back(world.lakehouse.publisher, before, id=id, steps=SMALL.steps)
    for table in ("bronze_sales", "quarantine_sales"):
        _compact_in_name(world.lakehouse, table)


def _compact_in_name(lakehouse: SmallLakehouse, table: str) -> None:
    """A publication of the kind ``compact`` with the day's content; its rows are one file here already."""
    pin = lakehouse.publisher.pin({table: [DAY]}, {})
    request = lakehouse.request(f"compaction-{table.replace('_', '-')}", {table: {DAY: [1]}})
    (change,) = request.tables
    days = tuple(each.model_copy(update={"content": pin.states[TableDay(table, DAY)].content}) for each in change.days)
    tables = (change.model_copy(update={"days": days}),)
    lakehouse.publish_request(request.model_copy(update={"kind": "compact", "tables": tables}))


def test_raw_is_right_again_once_the_published_files_are_restored(world: World) -> None:
    """What the runbook asks a person to do; then late rows can arrive on that very day as before."""
    before = world.lakehouse.newest("raw_sales").version()
    world.lakehouse.write_past_the_protocol("raw_sales", DAY, [7])
    assert f"For a person: raw_sales {DAY}: raw is not what was published" in world.tick()
    assert world.backfills() == []
    world.lakehouse.newest("raw_sales").restore(before)
    assert world.tick() == "Closed foreign-write-to-raw-raw-sales-20170304-1: right again, without a repair"
    world.late_row(DAY)
    assert "Launched" in world.tick()


def test_a_run_that_may_write_its_days_is_waited_for(world: World) -> None:
    """Its own end brings the next tick. One that was killed unseen must not keep every other day wrong for an hour."""

    def run(number: int, tags: dict[str, str]) -> dg.DagsterRun:
        status, run_id = dg.DagsterRunStatus.STARTED, f"{number}123456789ab"
        return world.instance.add_run(dg.DagsterRun(job_name="daily_small", run_id=run_id, status=status, tags=tags))

    world.late_row(DAY)
    on_its_days: tuple[dict[str, str], ...] = (
        {},
        {PARTITION: str(DAY)},
        range_tags(date(2017, 3, 3), DAY),
        {PARTITION: "campaign-x"},
    )
    for number, tags in enumerate(on_its_days):
        busy = run(number, tags)
        assert f"waits for the run {number}1234567" in world.tick(), tags
        world.instance.report_run_canceled(busy)
    assert world.backfills() == []
    for number, tags in enumerate(({PARTITION: str(OTHER)}, range_tags(date(2017, 3, 5), OTHER)), len(on_its_days)):
        run(number, tags)
    assert "Launched" in world.tick() and len(world.backfills()) == 1


def test_two_repairs_of_other_days_go_on_side_by_side(world: World) -> None:
    """A backfill is known by its days too: the second one does not wait for the first to end."""
    world.late_row(DAY)
    world.tick()
    world.late_row(OTHER)
    world.tick()
    assert [target_of(each)["bronze_sales"] for each in world.backfills()] == [{str(OTHER)}, {str(DAY)}]


# ------------------------------------------------------ a day that its gates held back is told, and not tried again


BRONZE = SMALL.step_of("bronze_sales")


@pytest.fixture
def late(world: World) -> World:
    """One published day that got late rows."""
    world.late_row(DAY)
    return world


def fail_the_gates(late: World) -> None:
    """A run built the day from what there is now, and a gate held it back: what it left in Dagster."""
    view = observe(late.lakehouse.storage, TABLES)
    logicals = {"raw_sales": {DAY: view.logical(TableDay("raw_sales", DAY))}}
    made_of = decide.wanted(BRONZE, BRONZE.version(), [DAY], logicals)[DAY].input_fingerprint
    day = built_day("bronze_sales", DAY, passed=False, rules=["contract_holds"])
    failed = replace(day, publication="", input_fingerprint=made_of)
    found = list(evaluations(failed, checks_of(BRONZE.tables[0], BRONZE)))
    report_checks(late.instance, "0" * 32, found)


def test_a_day_that_would_fail_again_is_told_at_once_and_in_the_words_of_its_gate(late: World) -> None:
    fail_the_gates(late)
    told = late.tick()
    assert late.backfills() == []
    assert f"For a person: bronze_sales {DAY}: its gates hold it back, and would again" in told
    assert "expected 7 rows, observed 6 rows -> Look at the quarantine of that day." in told
    assert f"backfill run bronze_sales+ --days {DAY}" in told


def test_more_rows_are_a_reason_to_try_again(late: World) -> None:
    """The source has sent what was wrong once more."""
    fail_the_gates(late)
    late.lakehouse.publish("corrected", {"raw_sales": {DAY: [10]}}, mode="append")
    assert "Launched the backfill late_rows_" in late.tick()
    assert len(late.backfills()) == 1


def test_a_day_before_the_first_partition_is_repaired_with_it(
    published: SmallLakehouse, dagster_instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """Late rates of the days before the first sale: they are looked back to, and have no partition."""
    data = {"small": DataDays(OTHER, OTHER)}
    shutil.copytree(published.storage.root, tmp_path / "lakehouse")
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    lakehouse.minutes = published.minutes
    world = World(tmp_path, dagster_instance, lakehouse, data=data)
    lakehouse.publish("late", {"raw_fx_rates": {DAY: [9]}}, mode="append")
    said = world.evaluate(repair_sensor(PartitionedTables(SMALL_CATALOG, data))).skip_message
    assert "Launched the backfill late_rows_20170304" in str(said)
    (backfill,) = world.backfills()
    readers = {each: {str(OTHER)} for each in ("bronze_fx_rates", "fact_sales_transactions", "fact_daily_revenue")}
    assert target_of(backfill) == readers
    assert backfill.tags[EARLIER_TAG] == f"bronze_fx_rates {DAY}"
    (incident,) = IncidentBook(lakehouse.storage).open()
    assert (incident.table, incident.days) == ("bronze_fx_rates", (DAY,))
