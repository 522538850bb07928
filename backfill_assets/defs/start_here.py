"""The asset ``start_here``: the first page to open. It says how the lakehouse is, what people do, and what needs one.

No run materializes it: the sensor keeps it as the lakehouse is.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from backfill_assets.campaign.course import state_of, waits_for_approval, why_over
from backfill_assets.defs.campaigns.jobs import ASSET as CAMPAIGN
from backfill_assets.defs.campaigns.jobs import SENSOR as CAMPAIGNS_SENSOR
from backfill_assets.defs.campaigns.pages import LOCATION
from backfill_assets.defs.dagster_internals import is_on
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.landed_files import nothing_builds
from backfill_assets.defs.sensors.repairs import decide
from backfill_assets.defs.sensors.shows_what_is import Page
from backfill_assets.defs.specs import BEGIN
from backfill_assets.defs.upkeep import schedule_name
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.campaign_journal import ABANDONED, entries, newest_entries, plan_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import chains
from backfill_assets.model.declaration import Dataset, Step
from backfill_assets.model.graph import build_order
from backfill_assets.text import days_options, escape_markdown
from backfill_assets.ui_addresses import BACKFILLS, asset_page, lineage_page, schedule_page
from backfill_assets.upkeep.rejected_days import RejectedRows, commonest_reason, rejected_rows
from backfill_assets.upkeep.repair import first_ranges
from backfill_assets.upkeep.start_page import StartPage, dataset_states

ASSET = "start_here"
STATE, PEOPLE, QUARANTINE = "state", "needs a person now", "in quarantine"
_MOST_RANGES = 2
_FIRST_TABLE = "fact_sales_transactions"


def start_here_spec(datasets: Sequence[Dataset]) -> dg.AssetSpec:
    return dg.AssetSpec(ASSET, group_name=BEGIN, kinds={"deltalake"}, description=_description(datasets))


def _description(datasets: Sequence[Dataset]) -> str:
    """The first lesson is on the fact of the sample, if it is declared; else on the last table of the last chain."""
    tables = [table.name for dataset in datasets for table in dataset.tables]
    table = _FIRST_TABLE if _FIRST_TABLE in tables else tables[-1]
    selection = f'key:"{table}"+'
    launch = (
        f"**1. Launch a range.** [The lineage of {table}]({lineage_page(selection)}) is filtered by `{selection}`: "
        "the table and all that is made of it. Press *Materialize all*, choose the days, press *Launch backfill*. "
        f"[Backfills]({BACKFILLS}) shows it. Readers see each table change at once, when all days are good."
    )
    repair = (
        "**2. Let sensors repair.** Late rows, damaged files and changed inputs are built again by themselves: under "
        "[Automation](/automation), each tick of the sensor `repairs` says what it did and why."
    )
    ci = (
        "**3. Materialize in CI.** One line, which exits with an error when a gate fails: "
        f"`dagster asset materialize -m backfill_assets.definitions --select {table} --partition-range A...B`"
    )
    state = "How the lakehouse is, and what needs a person now, is under *Metadata* below."
    return f"{state}\n\n{launch}\n\n{repair}\n\n{ci}"


def start_here_page(datasets: Sequence[Dataset], partitions: Mapping[str, Partitions]) -> Page:
    """Keeps the page as the lakehouse is, for the sensor."""
    steps = build_order([step for dataset in datasets for step in dataset.steps])

    def show_state(context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
        origin = context.code_location_origin
        location = origin.location_name if origin else LOCATION
        state = lakehouse_state(context.instance, backfill, datasets, steps, partitions, location)
        return "", report_state(context.instance, state, seen or "")

    return show_state


def lakehouse_state(
    instance: dg.DagsterInstance,
    backfill: Backfill,
    datasets: Sequence[Dataset],
    steps: Sequence[Step],
    partitions: Mapping[str, Partitions],
    location: str = LOCATION,
) -> StartPage:
    """The state now, with what the sensor ``repairs`` would do and leave to people.

    Reads logs and journals, names of landed files, and some of the reasons of rejected rows. ``location`` is the code
    location, for links.
    """
    log = backfill.publications()
    if log is None:
        return StartPage(dataset_states(_in_order(datasets), {}))
    head = log.head()
    states = log.day_states(head, partitions)
    newest = max(states.values(), key=lambda state: state.sequence, default=None)
    decision = decide(instance, backfill.storage, steps, partitions)
    found = log.find_prepared(newest.publication) if newest else None
    return StartPage(
        dataset_states(_in_order(datasets), states),
        newest=newest.publication if newest else "",
        newest_at=found[1] if found else None,
        under_way=(*(repair.title for repair in decision.launch), *decision.waiting),
        for_people=(
            *_campaigns_that_wait(instance, backfill.storage),
            *(escape_markdown(str(each)) for each in decision.for_people),
            *_landed_and_left(instance, backfill, datasets, partitions, location),
        ),
        in_quarantine=tuple(_in_quarantine(backfill.storage, head.state.versions, rejected_rows(steps, states))),
    )


def _landed_and_left(
    instance: dg.DagsterInstance,
    backfill: Backfill,
    datasets: Sequence[Dataset],
    partitions: Mapping[str, Partitions],
    location: str,
) -> Iterator[str]:
    """New days that are left to a daily job which is off."""
    for chain in chains(datasets):
        schedule = schedule_name(chain[-1].name)
        if is_on(instance, schedule):
            continue
        waiting = nothing_builds(instance, backfill, chain, partitions)
        if waiting:
            landed = ", ".join(f"{raw} {first_ranges(days)}" for raw, days in waiting.items())
            days = days_options({day for of_raw in waiting.values() for day in of_raw}, _MOST_RANGES)
            yield (
                f"{landed} landed, and nothing builds it: the daily job is off. "
                f"[Turn on `{schedule}`]({schedule_page(location, schedule)}), which builds each day that has ended. "
                f"To build it now: `backfill run {' '.join(waiting)} --downstream {days}`"
            )


def _in_quarantine(storage: Storage, versions: Mapping[str, int], found: Sequence[RejectedRows]) -> Iterator[str]:
    """Days that passed their gates among them: that a few rows are missing is tolerated, and no secret."""
    for each in found:
        reason = commonest_reason(storage, versions[each.quarantine], each.quarantine, each.worst)
        page = asset_page(each.quarantine, str(each.worst))
        yield (
            f"{escape_markdown(each.sentence(reason))}: [{each.worst}]({page}). The rows: "
            f"`backfill raw quarantine {each.quarantine}`"
        )


def _in_order(datasets: Sequence[Dataset]) -> list[Dataset]:
    """What each chain leads to: the other datasets are there for it."""
    return [chain[-1] for chain in chains(datasets)]


def _campaigns_that_wait(instance: dg.DagsterInstance, storage: Storage) -> Iterator[str]:
    """A campaign that a command has carried so far has no page here: its commands are named then."""
    shown = set(instance.get_dynamic_partitions(CAMPAIGNS_SENSOR))
    for name in (name for name, newest in newest_entries(storage).items() if not why_over(newest)):
        try:
            state, plan = state_of(name, entries(storage, name)), plan_of(name)
        except (BackfillError, ValueError):
            # Its journal is of a later version of this code, or damaged.
            yield f"{name} cannot be read: the newest tick of the sensor `{CAMPAIGNS_SENSOR}` says why"
            continue
        if state.stopped and not state.stopped.report.get(ABANDONED):
            look = "" if name in shown else f" (`backfill status {plan}` shows it)"
            yield f"{_name(name, shown)} was stopped: {escape_markdown(state.stopped.reason)}{look}"
        elif waits_for_approval(state):
            look = f"`backfill status {plan}` shows the difference, `backfill approve {plan}` publishes it"
            page = "its page has the difference, and how to approve it"
            yield f"{_name(name, shown)} waits for approval: {page if name in shown else look}"


def _name(campaign: str, shown: Collection[str]) -> str:
    return f"[{campaign}]({asset_page(CAMPAIGN, campaign)})" if campaign in shown else campaign


def report_state(instance: dg.DagsterInstance, state: StartPage, shown: str = "") -> str:
    """Write the page if it says something else than ``shown``, the digest of what it said; returns the new one."""
    metadata = state_metadata(state)
    text = json.dumps({name: str(value.value) for name, value in metadata.items()})
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    if digest != shown:
        instance.report_runless_asset_event(dg.AssetMaterialization(ASSET, metadata=metadata))
    return digest


def state_metadata(state: StartPage) -> dict[str, dg.MetadataValue]:
    """What the page shows. Pure."""
    return {
        STATE: dg.MetadataValue.md(state.sentence),
        PEOPLE: dg.MetadataValue.md(state.people),
        QUARANTINE: dg.MetadataValue.md(state.quarantine),
        "waiting for people": dg.MetadataValue.int(len(state.for_people)),
    }
