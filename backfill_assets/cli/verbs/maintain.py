from __future__ import annotations

import click

from backfill_assets.cli.foreground import report_progress, run_info
from backfill_assets.cli.ids import prepared
from backfill_assets.cli.options import PUBLICATION, TABLE, as_json, dry_run, yes
from backfill_assets.cli.output import deliver_notices, go_on, say_answer, wants_json
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.errors import NotDelivered
from backfill_assets.text import format_count


@click.command()
@dry_run
@click.option("--send-notices", is_flag=True, help="Send the notices that are due, and do nothing else.")
@click.option(
    "--abort",
    type=PUBLICATION,
    help="Give up this publication, and do nothing else.",
)
@click.option(
    "--mend",
    type=TABLE,
    help="Write lost files of the Delta log of this table anew, and do nothing else.",
)
@click.argument("reason", default="")
@yes
@as_json
def maintain(
    dry_run: bool,
    send_notices: bool,
    abort: str | None,
    mend: str | None,
    reason: str,
    yes: bool,
) -> None:
    """Compact days of many small files, close abandoned staging, and delete files that nothing needs.

    \b
    Examples:
      backfill maintain --dry-run
      backfill maintain --send-notices
      backfill maintain --abort <publication>      gives up one that is open and cannot be finished
      backfill maintain --mend fact_daily_revenue  writes lost commits of its Delta log anew

    REASON is for the history, with --abort and --mend.

    Files that a rollback window, an open plan or a pinned version needs are kept. Starts no Spark. Readers and writers
    can work meanwhile. BACKFILL_CLOCK=checked counts long pauses too: you have checked this machine's clock.

    --abort: first stop the process that makes the publication. Its days get back what they held before; days that
    another writer has changed since are left alone. A table that accepts no commit is left as it is and named. The
    history records who aborted it and why.

    --mend: the publication log has all files of each publication, so a lost commit or checkpoint is made again under
    the version that it had: readers who pin a version, rollbacks and source positions go on as before. Damaged files
    are kept in <table>/_mended. Refused if data files are gone: they are named.

    --send-notices: a notice is sent at least once, always with the same key, to where BACKFILL_NOTICES says, also to
    places that are left alone because they failed. The exit code is 1 if one cannot be sent: it stays due.
    """
    if abort is not None:
        _abort(abort, reason, dry_run, yes)
    elif mend is not None:
        _mend(mend, reason, dry_run, yes)
    elif send_notices:
        _send_notices(dry_run)
    else:
        _maintain(dry_run)


def _maintain(dry_run: bool) -> None:
    from backfill_assets.answers.maintenance import maintenance_answer
    from backfill_assets.upkeep.maintenance import Done, Maintenance

    settings = current_settings()
    tables = current_catalog().table_names
    found = Maintenance(open_publisher(), tables, settings.timeline_days, settings.clock_checked)
    tasks = found.plan()
    done = [Done(task, "") for task in tasks] if dry_run else found.carry_out(tasks, report_progress)
    say_answer(maintenance_answer(done, dry_run=dry_run))


def _abort(publication: str, reason: str, dry_run: bool, yes: bool) -> None:
    from backfill_assets.answers.maintenance import abort_plan_answer, aborted_answer

    publisher = open_publisher()
    known = prepared(publisher, publication)
    publisher.require_open(publication)
    if not go_on(abort_plan_answer(known), "Give this up?", dry_run=dry_run, yes=yes):
        return
    left = publisher.abort(publication, by=run_info("backfill maintain --abort").launched_by, reason=reason)
    say_answer(aborted_answer(publication, left))


def _mend(table: str, reason: str, dry_run: bool, yes: bool) -> None:
    from backfill_assets.answers.maintenance import mend_plan_answer, mended_answer
    from backfill_assets.publish.mend import carry_out, plan_mend

    publisher = open_publisher()
    plan = plan_mend(publisher, table)
    if not plan.is_needed:
        say_answer(mended_answer(plan))
        return
    plan.require_files()
    if go_on(mend_plan_answer(plan), "Write these files?", dry_run=dry_run, yes=yes):
        carry_out(publisher, plan, by=run_info("backfill maintain --mend").launched_by, reason=reason)
        say_answer(mended_answer(plan))


def _send_notices(dry_run: bool) -> None:
    from backfill_assets.answers.maintenance import SEND, delivery_answer, due_answer
    from backfill_assets.publish.outbox import due_notices

    settings = current_settings()
    publisher = open_publisher()
    if dry_run:
        say_answer(due_answer(due_notices(publisher)))
        return
    found = deliver_notices(settings, publisher, at_once=True)
    if wants_json() or not (found.sent or found.failed or found.waiting):
        say_answer(delivery_answer(found, settings.notices))
    if found.failed:
        still = format_count(len(found.failed), "notice")
        raise NotDelivered(f"Not sent, and still due: {still}.", hint=f"{SEND} tries again.")
