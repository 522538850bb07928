"""``backfill incident``: what went wrong by itself, why, what was tried, and what is for a person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from backfill_assets.cli.completion import complete_incident
from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say_answer
from backfill_assets.cli.wiring import open_storage

id_argument = click.argument("incident", metavar="ID", shell_complete=complete_incident)


@click.group()
def incident() -> None:
    """Look at what went wrong with published days, and say when it is settled.

    \b
    Examples:
      backfill incident list
      backfill incident show late-rows-bronze-sales-20170304-1
      backfill incident close unusual-figures-raw-sales-20170417-1 "Easter"

    The sensor `repairs` opens an incident for whatever is wrong, says why, repairs it within BACKFILL_REPAIRS, has the
    failed check asked again, and closes it. What it leaves to people says what to do.
    """


@incident.command("list")
@as_json
def list_() -> None:
    """List open incidents, those that need a person first; below them, what was closed in a week."""
    from backfill_assets.answers.incidents import incidents_answer
    from backfill_assets.upkeep.incidents import IncidentBook

    book = IncidentBook(open_storage())
    say_answer(incidents_answer(book.open(), book.closed_since(datetime.now(UTC) - timedelta(days=7))))


@incident.command()
@id_argument
@as_json
def show(incident: str) -> None:
    """Show one incident: cause, attempts, and what its days held before and after."""
    from backfill_assets.answers.incidents import incident_answer
    from backfill_assets.upkeep.incidents import IncidentBook

    say_answer(incident_answer(IncidentBook(open_storage()).get(incident)))


@incident.command()
@id_argument
@click.argument("reason")
@as_json
def close(incident: str, reason: str) -> None:
    """Close an incident by hand. The sensor does it at its next tick.

    Figures that are as they should be stay quiet for these days. Days that are still wrong are found again.
    """
    from backfill_assets.rebuild.outcome import os_person
    from backfill_assets.report.answer import Answer, Fact, Id, Line
    from backfill_assets.upkeep.incidents import IncidentBook

    book = IncidentBook(open_storage())
    found = book.get(incident)
    asked = found.closed is None and book.ask_to_close(found, str(os_person()), reason, datetime.now(UTC))
    words = "The sensor closes it at its next tick." if asked else "It is closed already."
    say_answer(Answer(parts=(Fact("incident", Id(found.id)), Line(words))))
