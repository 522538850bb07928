from __future__ import annotations

from datetime import timedelta

import click

from backfill_assets import clock
from backfill_assets.cli.completion import complete_incident
from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say_answer
from backfill_assets.cli.wiring import current_settings, open_storage

id_argument = click.argument("incident", metavar="ID", shell_complete=complete_incident)


@click.group()
def incident() -> None:
    """Look at what went wrong with published days, and say who looks after it and when it is settled.

    \b
    Examples:
      backfill incident list
      backfill incident show late-rows-bronze-sales-20170304-1
      backfill incident acknowledge late-rows-bronze-sales-20170304-1 4h
      backfill incident close unusual-figures-raw-sales-20170417-1 "Easter"

    The sensor `repairs` opens an incident for whatever is wrong, says why, repairs it within BACKFILL_REPAIRS, has the
    failed check asked again, and closes it. What it leaves to people says what to do.
    """


@incident.command("list")
@as_json
def list_() -> None:
    """List what is open, urgent first, and what closed in a week."""
    from backfill_assets.answers.incidents import incidents_answer
    from backfill_assets.upkeep.incidents import IncidentBook

    book = IncidentBook(open_storage())
    say_answer(incidents_answer(book.open(), book.closed_since(clock.now() - timedelta(days=7))))


@incident.command()
@id_argument
@as_json
def show(incident: str) -> None:
    """Show one: affected reports, who wrote, what was tried."""
    from backfill_assets.answers.incidents import incident_answer
    from backfill_assets.upkeep.incidents import IncidentBook

    ui = current_settings().ui or ""
    say_answer(incident_answer(IncidentBook(open_storage()).get(incident), ui))


@incident.command()
@id_argument
@click.argument("until", metavar="TIME")
@click.argument("reason", default="", metavar="[REASON]")
@as_json
def acknowledge(incident: str, until: str, reason: str) -> None:
    """Say that you look after an incident for so long: 30m, 4h, 2d. It stays quiet until then, or until something else
    is seen.

    Others read your name and the reason. Repairs go on. Acknowledge it again to change the time.
    """
    from backfill_assets.answers import incidents
    from backfill_assets.rebuild.outcome import os_person
    from backfill_assets.upkeep.incidents import IncidentBook

    book, now = IncidentBook(open_storage()), clock.now()
    say_answer(incidents.acknowledge(book, incident, str(os_person()), now, reason, until))


@incident.command()
@id_argument
@click.argument("reason")
@as_json
def close(incident: str, reason: str) -> None:
    """Close an incident by hand, with a reason. The sensor does it at its next tick.

    It stays closed as long as the same is seen. Days that are wrong in another way open an incident again.
    """
    from backfill_assets.answers import incidents
    from backfill_assets.rebuild.outcome import os_person
    from backfill_assets.upkeep.incidents import IncidentBook

    book, now = IncidentBook(open_storage()), clock.now()
    say_answer(incidents.close(book, incident, str(os_person()), now, reason))
