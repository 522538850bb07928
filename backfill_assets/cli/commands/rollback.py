"""``backfill rollback``: put back what the days held before a publication, or before a campaign."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_undoable
from backfill_assets.cli.foreground import foreground_builder, report_progress, run_info
from backfill_assets.cli.ids import Show, find_undoable, short_ids
from backfill_assets.cli.notices import deliver_notices
from backfill_assets.cli.output import ask, ranges, say, say_json, say_stale
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.errors import InvalidRequest
from backfill_assets.text import format_are, format_first

if TYPE_CHECKING:
    from backfill_assets.campaign.standing import PlanFacts
    from backfill_assets.campaign.undo import UndoPlan
    from backfill_assets.lakehouse.records import InputRead, Prepared, TableChange
    from backfill_assets.publication.publisher import Published, Publisher

_COMMAND = "backfill rollback"
_EPILOG = """
\b
Examples:
  backfill history --limit 5                         find the publication
  backfill rollback <publication>                    look, then say yes
  backfill rollback <publication> --yes              in a script
  backfill rollback plan-0123456789abcdef --dry-run  what undoing a campaign would do, and how long it takes
"""


@click.command(epilog=_EPILOG)
@click.argument("what", shell_complete=complete_undoable, metavar="CAMPAIGN|PLAN|PUBLICATION")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rollback(what: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Put back what the days held before a publication, in all its tables at once.

    Copies no data, and takes well under a second. A rollback is a publication itself, and can be rolled back.

    If a day was published again since, a single publication cannot be rolled back. A campaign can: such days are staged
    again first, with the version of the logic that they had before, so that rows that arrived since are kept. The
    command shows these days, and the time that they take, before it asks.
    """
    publisher = open_publisher(current_settings())
    what = find_undoable(publisher.storage, what)
    prepared = _find(publisher, _publication(publisher, what))
    if campaign := prepared.publication.provenance.campaign:
        _require_undoable(publisher, campaign, prepared)
        _undo_campaign(prepared, dry_run=dry_run, yes=yes, as_json=as_json)
    else:
        _roll_back_publication(publisher, prepared, dry_run=dry_run, yes=yes, as_json=as_json)


def _require_undoable(publisher: Publisher, campaign: str, prepared: Prepared) -> None:
    """The publication that undid it is there to bring it back; its cut-over may be named as well as its plan."""
    from backfill_assets.campaign.standing import PlanWord, require_allowed
    from backfill_assets.publication.rollback import require_in_force

    if prepared.publication.provenance.undoes:
        require_in_force(publisher, prepared)
    else:
        require_allowed(PlanWord.ROLLBACK, _facts(publisher, campaign))


def _publication(publisher: Publisher, what: str) -> str:
    """The id of the publication to roll back: for a plan or a campaign, the one that brought what main has of it.

    What a dead process has begun is ended first: it may be what is asked for.
    """
    from backfill_assets.campaign.standing import PlanWord, require_allowed
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.lakehouse.plans import is_plan_id
    from backfill_assets.lakehouse.timelines import CAMPAIGN
    from backfill_assets.published.reading import anything_published

    if not anything_published(publisher.storage):
        return what
    campaign = campaign_of(what) if is_plan_id(what) else what
    if not campaign.startswith(CAMPAIGN):
        publisher.recover()
        return what
    facts = _facts(publisher, campaign)
    require_allowed(PlanWord.ROLLBACK, facts)
    return facts.publication


def _facts(publisher: Publisher, campaign: str) -> PlanFacts:
    from backfill_assets.campaign.look import catch_up, look

    catch_up(publisher, campaign, run_info(_COMMAND).launched_by)
    return look(publisher, campaign)


def _roll_back_publication(
    publisher: Publisher, prepared: Prepared, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    from backfill_assets.landing.raw_rollback import require_sound_rollback
    from backfill_assets.publication.rollback import (
        require_in_force,
        require_in_place,
        rollback_request,
        undoable,
    )

    undoable(publisher, prepared.publication.id)
    require_in_force(publisher, prepared)
    if not as_json:
        _say_plan(prepared, short_ids(publisher.storage))
    looked_at = require_sound_rollback(publisher, current_catalog(), prepared)
    request = rollback_request(publisher, prepared, current_catalog().steps)
    require_in_place(publisher, request)
    stale = dict(request.leaves_stale)
    if not as_json:
        say_stale(request.leaves_stale)
    if dry_run:
        _say_dry({"publication": prepared.publication.id, "leaves_stale": stale}, as_json)
        return
    if not yes:
        ask("Put this back?")
    done = _roll_back(publisher, prepared.publication.id, looked_at)
    if as_json:
        say_json({"publication": done.publication, "versions": done.versions, "leaves_stale": stale})
    else:
        _say_result(done, publisher)


# ------------------------------------------------------------------ a campaign


def _undo_campaign(prepared: Prepared, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    from backfill_assets.campaign.look import carry_out_undo
    from backfill_assets.campaign.undo import plan_undo
    from backfill_assets.campaign.undo_days import require_undoable

    settings = current_settings()
    with ExitStack() as stack:
        lake = foreground_builder(settings, stack).lake
        plan = plan_undo(lake, prepared.publication.id)
        if not as_json:
            _say_undo(plan)
        if dry_run:
            _say_dry(_undo_json(plan), as_json)
            return
        require_undoable(plan.days)
        if not yes:
            ask("Put this back?")
        done = carry_out_undo(lake, plan, run_info(_COMMAND), report_progress)
        deliver_notices(settings, lake.publisher, as_json=as_json)
    if as_json:
        published = {"publication": done.published.publication, "tables": dict(done.tables)}
        say_json({**_undo_json(done.plan), **published, "leaves_stale": dict(done.leaves_stale)})
    else:
        say(*(f"{table}: {what}" for table, what in done.tables.items()))
        say_stale(done.leaves_stale)
        _say_result(done.published, lake.publisher)


def _say_undo(plan: UndoPlan) -> None:
    from backfill_assets.campaign.undo_days import UndoAction

    rows = new_table("table", "what", "days", "which days", "by", "why", numbers=["days"], drop=["which days", "by"])
    steps = dict.fromkeys(each.step for each in plan.days)
    for step in steps:
        for way in UndoAction:
            found = [each for each in plan.days if (each.step, each.way) == (step, way)]
            if found:
                versions = (
                    ", ".join(sorted({each.version for each in found} - {""})) if way is UndoAction.STAGE_AGAIN else ""
                )
                reasons = "; ".join(list(dict.fromkeys(each.reason for each in found if each.reason))[:2])
                which = ranges([each.day for each in found])
                rows.add_row(step, way.value, f"{len(found):,}", which, versions, reasons)
    said = f"Bringing back {plan.campaign}, which {plan.publication} has undone:"
    say(said if plan.restores else f"Undoing {plan.campaign} ({plan.publication}):", rows, _how_long(plan))


def _how_long(plan: UndoPlan) -> str:
    if not plan.again:
        return "It takes about a second: no day has to be staged again."
    timed = "an unknown time (none was measured yet)" if plan.seconds is None else f"about {plan.seconds:.0f} s"
    again = f"{format_are(len(plan.again), 'day')} staged again first, so that what has arrived since is kept"
    return f"{again}. It takes {timed} and the start of Spark."


def _undo_json(plan: UndoPlan) -> dict[str, Any]:
    days = [
        {"table": each.step, "day": each.day, "what": each.way.value, "version": each.version, "why": each.reason}
        for each in plan.days
    ]
    back = {"restores": True} if plan.restores else {}
    return {"campaign": plan.campaign, "undoes": plan.publication, **back, "seconds": plan.seconds, "days": days}


def _say_dry(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say_json(report)
    else:
        say("Nothing was done: --dry-run.")


# ------------------------------------------------------------------ a publication


def new_rollback_id(now: datetime | None = None) -> str:
    """``rollback-20170301t112000-1a2b3c``: sorts by time (UTC), and two in the same second differ."""
    at = (now or datetime.now(UTC)).strftime("%Y%m%dt%H%M%S")
    return f"rollback-{at}-{secrets.token_hex(3)}"


def _find(publisher: Publisher, publication: str) -> Prepared:
    from backfill_assets.published.reading import anything_published, unknown_publication

    found = publisher.log.find_prepared(publication) if anything_published(publisher.storage) else None
    if found is None:
        raise unknown_publication(publisher.storage, publication)
    if publisher.log.outcome(publisher.log.head(), publication) == "aborted":
        raise InvalidRequest(f"The publication {publication} was aborted: there is nothing to roll back.")
    return found[0]


def _say_plan(prepared: Prepared, show: Show) -> None:
    columns = ("table", "days", "which days", "rows now", "rows then", "put back")
    plans = (_plan_of(prepared, change, show) for change in prepared.publication.tables)
    rows = new_table(*columns, rows=plans, numbers=["days", "rows now", "rows then"], drop=["put back", "which days"])
    say(f"Rolling back {show(prepared.publication.id)} ({prepared.publication.kind}):")
    if prepared.publication.tables:
        say(rows)
    for step, switch in prepared.publication.switches.items():
        say(f"{step}: from {_version_text(switch.version)} back to {_version_text(switch.former)}")


def _version_text(version: str) -> str:
    return version or "the declared version"


def _plan_of(prepared: Prepared, change: TableChange, show: Show) -> tuple[str, ...]:
    before = prepared.before[change.table]
    results = [prepared.result(change.table, day.day) for day in change.days]
    now = sum(result.rows for result in results if result)
    then = sum(file.rows for day in before.values() for file in day.files)
    sources = sorted({day.publication for day in before.values() if day.publication})
    put_back = format_first([show(each) for each in sources], 2)
    days = [day.day for day in change.days]
    return change.table, f"{len(days):,}", ranges(days), f"{now:,}", f"{then:,}", put_back or "nothing: never published"


def _roll_back(publisher: Publisher, publication: str, looked_at: tuple[InputRead, ...]) -> Published:
    from backfill_assets.lakehouse.records import Provenance
    from backfill_assets.publication.rollback import roll_back

    run, reason = run_info(_COMMAND), f"rollback of {publication}"
    provenance = Provenance(run=run.run_id, launched_by=run.launched_by, git_commit=run.git_commit, reason=reason)
    steps = current_catalog().steps
    return roll_back(publisher, publication, id=new_rollback_id(), steps=steps, provenance=provenance, inputs=looked_at)


def _say_result(published: Published, publisher: Publisher) -> None:
    tables = ", ".join(f"{table} (version {version})" for table, version in sorted(published.versions.items()))
    say(Text.assemble(("Rolled back", "bold green"), f": {tables}." if tables else "."))
    say(f"To undo: backfill rollback {short_ids(publisher.storage)(published.publication)}")
