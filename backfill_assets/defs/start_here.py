"""The asset ``start_here``, the first page of the UI; a sensor writes it when it changes."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets import clock
from backfill_assets.answers import to_do
from backfill_assets.answers.maintenance import SEND
from backfill_assets.answers.to_do import ToDo, Urgency, of_action
from backfill_assets.campaign.course import waits_for_approval, why_over
from backfill_assets.campaign.published import course_of
from backfill_assets.campaign.standing import is_page_of
from backfill_assets.days import Cadence, TableDay
from backfill_assets.defs.campaigns.jobs import ASSET as CAMPAIGN
from backfill_assets.defs.campaigns.jobs import SENSOR as CAMPAIGNS_SENSOR
from backfill_assets.defs.campaigns.pages import LOCATION, Launchpads
from backfill_assets.defs.dagster_internals import is_stopped
from backfill_assets.defs.metadata import digest
from backfill_assets.defs.own_lakehouse import IS_OFF
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.landed_files import landed_and_waiting, nothing_builds
from backfill_assets.defs.sensors.repairs import SENSOR as REPAIRS
from backfill_assets.defs.sensors.repairs import look
from backfill_assets.defs.sensors.shows_what_is import Page
from backfill_assets.defs.specs import BEGIN
from backfill_assets.defs.upkeep import schedule_name
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.campaign_journal import newest_entries, plan_of
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.quarantine import RejectedRows, commonest_reason, rejected_rows
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.left_out import LeftOut
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.places import FailingPlace, failing_places
from backfill_assets.rebuild.decide import published_days
from backfill_assets.report.answer import Answer, Line
from backfill_assets.report.markdown import markdown
from backfill_assets.settings import of_project
from backfill_assets.state.campaigns import NewestEntries, newest_publications
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import days_options, escape_markdown, format_count, format_ranges
from backfill_assets.ui_addresses import BACKFILLS, asset_page, lineage_page, schedule_page, sensor_page
from backfill_assets.upkeep.automation import SensorBook
from backfill_assets.upkeep.for_people import first_ranges
from backfill_assets.upkeep.incidents import IncidentBook
from backfill_assets.upkeep.repair import repairs_needed

ASSET = "start_here"
STATE, PEOPLE, QUARANTINE = "state", "needs a person now", "in quarantine"
LANDED = Cause.LANDED.value
_MOST_RANGES = 2
_FIRST_TABLE = "fact_sales_transactions"


def start_here_spec(catalog: Catalog) -> dg.AssetSpec:
    return dg.AssetSpec(
        ASSET,
        group_name=BEGIN,
        kinds={"deltalake"},
        description="The first page: how the lakehouse is, what needs a person now, and what people do here.",
        metadata=_lessons(catalog),
    )


def _lessons(catalog: Catalog) -> dict[str, dg.MetadataValue]:
    last = catalog.datasets[-1].tables[-1].name
    table = _FIRST_TABLE if _FIRST_TABLE in catalog.table_names else last
    module = of_project(Path.cwd(), "dagster", "module_name") or "MODULE"
    selection = f'key:"{table}"+'
    lessons = {
        "to launch a range": f"[The lineage of {table}]({lineage_page(selection)}) is filtered by `{selection}`: "
        "the table and all that is made of it. Press *Materialize all*, choose the days, press *Launch backfill*. "
        f"[Backfills]({BACKFILLS}) shows it. Readers see each table change at once, when all days are good.",
        "to let sensors repair": "Late rows, damaged files and changed inputs are built again by themselves, and "
        "each night the day that has ended, once something was built. Under [Automation](/automation), each tick says "
        "what it did and why, and when the next one is. `BACKFILL_AUTOMATION=off` forbids it.",
        "to materialize in CI": "One line, which exits with an error when a gate fails: "
        f"`dagster asset materialize -m {module} --select {table} --partition-range A...B`",
    }
    return {name: dg.MetadataValue.md(text) for name, text in lessons.items()}


def start_here_page(tables: PartitionedTables) -> Page:
    def show_state(context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
        origin = context.code_location_origin
        location = origin.location_name if origin else LOCATION
        found = lakehouse_state(context.instance, backfill, tables, location)
        return "", report_state(context.instance, found, seen or "")

    return show_state


@dataclass(frozen=True)
class StartPage:
    state: str
    people: Sequence[ToDo] = ()
    landed: Sequence[Line] = ()
    quarantine: Sequence[Line] = ()
    newest: str = ""
    location: str = LOCATION


def lakehouse_state(
    instance: dg.DagsterInstance, backfill: Backfill, tables: PartitionedTables, location: str = LOCATION
) -> StartPage:
    ends, steps = [chain[-1] for chain in tables.catalog.chains], tables.catalog.steps
    log, wrong = backfill.publications(), [*map(_left_out, tables.catalog.left_out)]
    lands = any(each.lands for each in tables.catalog.datasets)
    if log is None:
        return StartPage(state_sentence(built_datasets(ends, {}), lands=lands), wrong, location=location)
    head = log.head()
    states = log.day_states(head, tables.by_table)
    incidents, pads = IncidentBook(backfill.storage).open(), Launchpads(location)
    newest = newest_entries(backfill.storage)
    decision = repairs_needed(look(instance, backfill, tables, incidents, newest))
    people = [
        *wrong,
        *_sensors(instance, backfill.storage, location),
        *map(_failing_place, failing_places(backfill.storage, backfill.settings.notices)),
        *(of_action(each, incidents, pads.new_plan, pads.start) for each in decision.for_people),
        *_landed_and_left(instance, backfill, tables, location),
        *_campaigns_that_wait(instance, backfill.storage, newest),
    ]
    quarantine = list(_in_quarantine(backfill.storage, head.state.versions, rejected_rows(steps, states)))
    state = state_sentence(
        built_datasets(ends, states),
        off="" if backfill.settings.automation else f" {IS_OFF}",
        is_at_work=bool(decision.launch),
        is_waiting=bool(decision.waiting),
        people=people,
        is_any_rejected=bool(quarantine),
        lands=lands,
    )
    return StartPage(
        state, people, list(_landed_and_waiting(instance, backfill, tables)), quarantine, _newest(log, states), location
    )


def state_sentence(
    built: Sequence[str],
    *,
    off: str = "",
    is_at_work: bool = False,
    is_waiting: bool = False,
    people: Sequence[ToDo] = (),
    is_any_rejected: bool = False,
    lands: bool = True,
) -> str:
    """The state in a sentence. Pure.

    ``built``: published datasets. ``is_at_work``: repairs are launched; ``is_waiting``: they wait. ``off``: said
    without automation. ``lands``: any data lands.
    """
    if not built:
        return f"Nothing is published yet. {'Land data, then launch' if lands else 'Launch'} a range."
    health = "Every published day is made of what is published now: nothing to repair."
    if is_at_work:
        health = "The sensor repairs is at work."
    elif is_waiting:
        health = "The sensor repairs waits: its newest tick says for what."
    elif is_any_rejected:
        health += " Rows that were received are in quarantine, see below."
    if people:
        things = format_count(len(people), "thing")
        if any(each.urgency < Urgency.DECISION for each in people):
            first = ", the most urgent first" if len(people) > 1 else ""
            health = f"{things} below {'needs' if len(people) == 1 else 'need'} a person{first}."
        else:
            health = f"{health} {things} below {'waits' if len(people) == 1 else 'wait'} for a person's decision."
    return f"{health} Published: {'; '.join(built)}.{off}"


def built_datasets(datasets: Sequence[Dataset], states: Mapping[TableDay, DayState]) -> list[str]:
    days = published_days(states)
    found = []
    for dataset in datasets:
        own = [step for step in dataset.steps if not step.external]
        last = ([step for step in own if step.cadence is Cadence.DAILY] or own)[-1:]
        if built := days.get(last[0].name) if last else None:
            tables = format_count(sum(table.name in days for table in dataset.tables), "table")
            ranges = format_ranges(sorted(built), _MOST_RANGES)
            found.append(f"{dataset.name}: {format_count(len(built), 'day')} in {tables}, {ranges}")
    return found


def _newest(log: PublicationLog, states: Mapping[TableDay, DayState]) -> str:
    newest = max(states.values(), key=lambda state: state.sequence, default=None)
    if newest is None:
        return ""
    found = log.find_prepared(newest.publication)
    moment = f" at {found[1]:%Y-%m-%d %H:%M} UTC" if found else ""
    return f"{newest.publication}{moment}"


def _sensors(instance: dg.DagsterInstance, storage: Storage, location: str) -> Iterator[ToDo]:
    now = clock.now()
    for each in SensorBook(storage).all():
        if is_stopped(instance, each.sensor) or not (trouble := each.trouble(now)):
            continue
        page = sensor_page(location, each.sensor)
        title, _, why = f"{trouble[0].upper()}{trouble[1:]}".partition(": ")
        item = ToDo(title, Urgency.SAFETY, why, page, each.next_step)
        yield item if item.do else replace(item, do="look at its newest tick", opens=page)


def _left_out(gone: LeftOut) -> ToDo:
    title = f"{gone.what} is left out: it is declared wrong"
    do = (gone.error.hint or "put its declaration right").rstrip(".")
    return ToDo(title, Urgency.SAFETY, gone.error.message, do=do)


def _failing_place(place: FailingPlace) -> ToDo:
    title = f"{place.name} takes no notices since {place.since:%Y-%m-%d %H:%M} UTC"
    do = place.next_step.rstrip(".")
    item = ToDo(title, Urgency.SAFETY, f"{place.words.rstrip('.')}. It is tried again by itself")
    return replace(item, do=do) if do else replace(item, do="try it now:", command=SEND)


def _landed_and_left(
    instance: dg.DagsterInstance, backfill: Backfill, tables: PartitionedTables, location: str
) -> Iterator[ToDo]:
    for chain in tables.catalog.chains:
        schedule = schedule_name(chain[-1].name)
        if not _is_daily_job_off(instance, backfill, chain):
            continue
        if waiting := nothing_builds(instance, backfill, chain, tables):
            landed = ", ".join(f"{raw} {first_ranges(days)}" for raw, days in waiting.items())
            days = days_options({day for of_raw in waiting.values() for day in of_raw}, _MOST_RANGES)
            page = schedule_page(location, schedule)
            item = ToDo(f"{landed}: landed, and nothing builds it", Urgency.WRONG, "The daily job is off", page)
            if backfill.settings.automation:
                yield replace(item, do=f"turn on {schedule}, which builds each day that has ended", opens=page)
            else:
                yield replace(
                    item, do="build it:", command=f"backfill run {' '.join(f'{raw}+' for raw in waiting)} {days}"
                )


def _landed_and_waiting(instance: dg.DagsterInstance, backfill: Backfill, tables: PartitionedTables) -> Iterator[Line]:
    for chain in tables.catalog.chains:
        daily_job = not _is_daily_job_off(instance, backfill, chain)
        yield from map(Line, landed_and_waiting(instance, backfill, chain, tables, daily_job=daily_job))


def _is_daily_job_off(instance: dg.DagsterInstance, backfill: Backfill, chain: Sequence[Dataset]) -> bool:
    return is_stopped(instance, schedule_name(chain[-1].name)) or not backfill.settings.automation


def _in_quarantine(storage: Storage, versions: Mapping[str, int], found: Sequence[RejectedRows]) -> Iterator[Line]:
    for each in found:
        reason = commonest_reason(storage, versions[each.quarantine], each.quarantine, each.worst)
        yield Line(
            f"{each.sentence(reason)}. The rows:",
            do=f"backfill raw quarantine {each.quarantine}",
            link=asset_page(each.quarantine, str(each.worst)),
        )


def _campaigns_that_wait(instance: dg.DagsterInstance, storage: Storage, newest_of: NewestEntries) -> Iterator[ToDo]:
    shown = set(instance.get_dynamic_partitions(CAMPAIGNS_SENSOR))
    log = PublicationLog(storage)
    for name, newest in newest_of.items():
        if why_over(newest, partial(newest_publications, log, [name])):
            continue
        page = next((asset_page(CAMPAIGN, page) for page in shown if is_page_of(page, name)), "")
        try:
            state, plan = course_of(log, name), plan_of(name)
        except (BackfillError, ValueError):
            # Its journal is of a later version of this code, or damaged.
            why = f"the newest tick of the sensor {CAMPAIGNS_SENSOR} says why"
            yield ToDo(f"{name} cannot be read", Urgency.DECISION, why)
            continue
        if state.stopped and not state.stopped.given_up:
            item = ToDo(f"{plan} was stopped", Urgency.DECISION, state.stopped.reason, page)
            yield _there_or_by(item, "read why, and start it again there", f"backfill status {plan}")
        elif waits_for_approval(state):
            item = ToDo(f"{plan} waits for approval", Urgency.DECISION, page=page)
            yield _there_or_by(item, "read its difference, and approve it there", f"backfill diff {plan}")


def _there_or_by(item: ToDo, do: str, command: str) -> ToDo:
    return replace(item, do=do, opens=item.page) if item.page else replace(item, command=command)


def report_state(instance: dg.DagsterInstance, found: StartPage, shown: str = "") -> str:
    return keep_page(instance, ASSET, state_metadata(found), shown)


def keep_page(instance: dg.DagsterInstance, asset: str, metadata: Mapping[str, dg.MetadataValue], seen: str) -> str:
    if (now := digest(metadata)) != seen:
        instance.report_runless_asset_event(dg.AssetMaterialization(asset, metadata=metadata))
    return now


def state_metadata(found: StartPage) -> dict[str, dg.MetadataValue]:
    rest = f"[the newest tick of the sensor repairs]({sensor_page(found.location, REPAIRS)}) has all"
    shown = {
        STATE: escape_markdown(found.state),
        **to_do.entries(found.people, PEOPLE, rest),
        LANDED: _in_short(found.landed),
        QUARANTINE: _in_short(found.quarantine),
        **({"newest publication": escape_markdown(found.newest)} if found.newest else {}),
    }
    return {
        **{name: dg.MetadataValue.md(text) for name, text in shown.items()},
        "waiting for people": dg.MetadataValue.int(len(found.people)),
    }


def _in_short(found: Sequence[Line]) -> str:
    return to_do.fitting([markdown(Answer(parts=(each,))).strip() for each in found]) or "Nothing."
