from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from backfill_assets import clock
from backfill_assets.cli.completion import complete_undoable
from backfill_assets.cli.foreground import foreground_lake, report_progress, run_info
from backfill_assets.cli.ids import campaign_meant, find_undoable, prepared
from backfill_assets.cli.options import as_json, dry_run, yes
from backfill_assets.cli.output import ask, deliver_notices, go_on, say_done
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from backfill_assets.campaign.standing import PlanFacts
    from backfill_assets.lakehouse.records import InputRead, Prepared
    from backfill_assets.plan.records import Plan
    from backfill_assets.publish.publisher import Published, Publisher

_COMMAND, _QUESTION = "backfill rollback", "Put this back?"


@click.command()
@click.argument("what", shell_complete=complete_undoable, metavar="PUBLICATION|PLAN")
@dry_run
@yes
@as_json
def rollback(what: str, dry_run: bool, yes: bool) -> None:
    """Put back what the days held before a publication, in all its tables at once.

    \b
    Examples:
      backfill history                                    lists publications, newest first
      backfill rollback <publication>                     shows what comes back, and asks; --yes in a script
      backfill rollback plan-0123456789abcdef --dry-run   what undoing a campaign would do

    It copies no data and takes well under a second. A rollback is a publication itself: you can roll it back, too.

    A single publication is refused if one of its days was published again since. A campaign is not: such days are
    computed again first, by the version that they had before, and keep the rows that arrived since. The command shows
    these days, and the time that they take, before it asks.
    """
    from backfill_assets.publish.closed_days import Declared

    publisher = open_publisher()
    publisher.declared = Declared.of(current_catalog().steps)
    what = find_undoable(publisher.storage, what)
    found = _find(publisher, _publication(publisher, what))
    if campaign := found.publication.provenance.campaign:
        _require_undoable(publisher, campaign, found)
        _undo_campaign(found, dry_run=dry_run, yes=yes)
    else:
        _roll_back_publication(publisher, found, dry_run=dry_run, yes=yes)


def _require_undoable(publisher: Publisher, campaign: str, found: Prepared) -> None:
    """To roll back the undo of a campaign brings the campaign back."""
    from backfill_assets.campaign.standing import PlanWord, require_allowed
    from backfill_assets.campaign.undoable import require_in_force

    if found.publication.provenance.undoes:
        require_in_force(publisher, found)
    else:
        require_allowed(PlanWord.ROLLBACK, _facts(publisher, campaign))


def _publication(publisher: Publisher, what: str) -> str:
    """What brought the rows of main; what a dead process began is finished first."""
    from backfill_assets.campaign.standing import PlanWord, require_allowed
    from backfill_assets.publish.log import anything_published

    if not anything_published(publisher.storage):
        return what
    campaign = campaign_meant(what)
    if not campaign:
        publisher.recover()
        return what
    facts = _facts(publisher, campaign)
    require_allowed(PlanWord.ROLLBACK, facts)
    return facts.publication


def _facts(publisher: Publisher, campaign: str) -> PlanFacts:
    from backfill_assets.campaign.look import look, settle
    from backfill_assets.lakehouse.campaign_journal import plan_of
    from backfill_assets.plan.keep import plan_as_kept

    settle(publisher, campaign)
    plan: Plan | None = None
    with suppress(InvalidRequest):
        plan = plan_as_kept(current_settings(), plan_of(campaign))
    return look(publisher, campaign, plan)


def _find(publisher: Publisher, publication: str) -> Prepared:
    found = prepared(publisher, publication)
    if publisher.log.outcome(publisher.log.head(), publication) == "aborted":
        raise InvalidRequest(f"The publication {publication} was aborted: there is nothing to roll back.")
    return found


def _roll_back_publication(publisher: Publisher, found: Prepared, *, dry_run: bool, yes: bool) -> None:
    from backfill_assets.answers.history import rollback_plan_answer, rolled_back_answer
    from backfill_assets.campaign.rollback import plan_rollback
    from backfill_assets.campaign.undoable import require_in_force, undoable
    from backfill_assets.landing.raw_rollback import require_sound_rollback

    undoable(publisher, found.publication.id)
    require_in_force(publisher, found)
    looked_at = require_sound_rollback(publisher, current_catalog(), found)
    plan = plan_rollback(publisher, found, current_catalog().steps)
    answer = rollback_plan_answer(found, plan.leaves_stale, plan.switched)
    if not go_on(answer, _QUESTION, dry_run=dry_run, yes=yes):
        return
    done = _roll_back(publisher, found.publication.id, looked_at)
    say_done(answer, rolled_back_answer(done))


def _roll_back(publisher: Publisher, publication: str, looked_at: tuple[InputRead, ...]) -> Published:
    from backfill_assets.campaign.rollback import roll_back
    from backfill_assets.lakehouse.records import Provenance

    run, reason = run_info(_COMMAND), f"rollback of {publication}"
    provenance = Provenance(run=run.run_id, launched_by=run.launched_by, git_commit=run.git_commit, reason=reason)
    steps = current_catalog().steps
    return roll_back(
        publisher,
        publication,
        id=new_rollback_id(),
        steps=steps,
        provenance=provenance,
        inputs=looked_at,
        progress=report_progress,
    )


def _undo_campaign(found: Prepared, *, dry_run: bool, yes: bool) -> None:
    from backfill_assets.answers.history import undo_plan_answer, undone_answer
    from backfill_assets.campaign.look import carry_out_undo
    from backfill_assets.campaign.undo import plan_undo, undone_sentence
    from backfill_assets.campaign.undo_days import require_undoable

    with foreground_lake() as lake:
        plan = plan_undo(lake, found.publication.id)
        if not go_on(undo_plan_answer(plan), dry_run=dry_run):
            return
        require_undoable(plan.days)
        if not yes:
            ask(_QUESTION)
        try:
            done = carry_out_undo(lake, plan, run_info(_COMMAND), report_progress)
        except InvalidRequest:
            # After losing to another undo, raise the same error as for an undone campaign.
            _require_undoable(lake.publisher, plan.campaign, found)
            raise
        deliver_notices(current_settings(), lake.publisher)
    say_done(undo_plan_answer(done.plan), undone_answer(done, undone_sentence(done, current_catalog().steps)))


def new_rollback_id() -> str:
    return f"rollback-{clock.now():%Y%m%dt%H%M%S}-{clock.token(3)}"
