"""Sending the notices that are due, for each command after which one may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backfill_assets.cli.output import say_answer, say_lines, wants_json
from backfill_assets.text import escape_controls

if TYPE_CHECKING:
    from backfill_assets.publication.outbox import NoticeDelivery, Sender
    from backfill_assets.publication.publisher import Publisher
    from backfill_assets.settings import Settings


def deliver_notices(settings: Settings, publisher: Publisher) -> NoticeDelivery:
    """Send the notices that are due, and say so. A notice that cannot be sent does not fail the command."""
    from backfill_assets.answers.maintenance import delivery_answer
    from backfill_assets.publication.outbox import deliver

    found = deliver(publisher, notice_sender(settings))
    if not wants_json() and (found.sent or found.failed):
        say_answer(delivery_answer(found, settings.notices))
    return found


def notice_sender(settings: Settings) -> Sender:
    """The sender that BACKFILL_NOTICES names; ``log`` prints, with ``--json`` to standard error."""
    from backfill_assets.publication.senders import sender_of

    return sender_of(settings.notices, _print_beside_json if wants_json() else say_lines)


def _print_beside_json(message: str) -> None:
    """With ``--json``, standard output has only JSON."""
    for line in message.split("\n"):
        click.echo(escape_controls(line), err=True)
