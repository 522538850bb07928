"""``backfill notices``: lists the notices of campaigns, and sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
from rich.text import Text

from backfill_assets.cli.output import say, say_json, say_lines
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_publisher
from backfill_assets.errors import NotDelivered
from backfill_assets.text import escape_controls, format_count

if TYPE_CHECKING:
    from backfill_assets.publication.outbox import NoticeDelivery, Sender
    from backfill_assets.publication.publisher import Publisher
    from backfill_assets.settings import Settings

_EPILOG = """
\b
Examples:
  backfill notices list
  backfill notices send
  BACKFILL_NOTICES=file:notices.jsonl backfill notices send
  BACKFILL_NOTICES=file:notices/ backfill notices send
"""
_LIST_EPILOG = """
\b
Examples:
  backfill notices list
  backfill notices list --all --json
"""
_SEND_EPILOG = """
\b
Examples:
  backfill notices send
  BACKFILL_NOTICES=webhook:https://chat.example.com/hooks/reports backfill notices send
"""


@click.group(epilog=_EPILOG)
def notices() -> None:
    """List the notices of campaigns to their readers, and send them.

    A notice is stored in one step with the publication that it is about. It is sent at least once, always with the
    same key: a receiver that drops known keys gets it exactly once.
    """


@notices.command("list", epilog=_LIST_EPILOG)
@click.option("--all", "with_delivered", is_flag=True, help="Also list the keys of notices that were sent.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_notices(with_delivered: bool, as_json: bool) -> None:
    """List the notices that are due: not sent yet."""
    from backfill_assets.publication.outbox import delivered_keys, due_notices
    from backfill_assets.publication.senders import as_json as notice_as_json

    publisher = open_publisher(current_settings())
    due = due_notices(publisher)
    delivered = delivered_keys(publisher) if with_delivered else []
    if as_json:
        say_json({"due": [notice_as_json(each) for each in due], "delivered": delivered})
        return
    rows = new_table("key", "notice", "reports", "approved by")
    for each in due:
        title = Text(f"{each.notice.title}: {each.damage}", "yellow") if each.damage else each.notice.title
        rows.add_row(each.key, title, ", ".join(each.notice.reports), each.notice.approved_by)
    for key in delivered:
        rows.add_row(key, Text("sent", "green"), "", "")
    say(rows if due or delivered else "No notice is due.")
    if due:
        say("To send them: backfill notices send")


@notices.command(epilog=_SEND_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def send(as_json: bool) -> None:
    """Send every notice that is due to where BACKFILL_NOTICES says.

    The exit code is 1 if one cannot be sent. It stays due.
    """
    settings = current_settings()
    found = deliver_notices(settings, open_publisher(settings), as_json=as_json)
    if as_json:
        say_json({"sent": list(found.sent), "failed": dict(found.failed)})
    elif not found.sent and not found.failed:
        say("No notice is due.")
    if found.failed:
        raise NotDelivered(
            f"Not sent, and still due: {format_count(len(found.failed), 'notice')}.",
            hint="backfill notices send tries again.",
        )


def deliver_notices(settings: Settings, publisher: Publisher, *, as_json: bool = False) -> NoticeDelivery:
    """Send the notices that are due, and say so. A notice that cannot be sent does not fail the command."""
    from backfill_assets.publication.outbox import deliver

    found = deliver(publisher, notice_sender(settings, as_json=as_json))
    if not as_json and found.sent:
        say(Text(f"Sent {format_count(len(found.sent), 'notice')} by {settings.notices.partition(':')[0]}.", "green"))
    say_undelivered(dict(found.failed), as_json=as_json)
    return found


def notice_sender(settings: Settings, *, as_json: bool) -> Sender:
    """The sender that BACKFILL_NOTICES names; ``log`` prints, with ``--json`` to standard error."""
    from backfill_assets.publication.senders import sender_of

    return sender_of(settings.notices, _print_beside_json if as_json else say_lines)


def say_undelivered(failed: Mapping[str, str], *, as_json: bool = False) -> None:
    """Why notices stay due, by key."""
    for key, reason in () if as_json else failed.items():
        say(Text(f"Not sent yet: {key}: {reason}. To try again: backfill notices send", "yellow"))


def _print_beside_json(message: str) -> None:
    """With ``--json``, standard output has only JSON."""
    for line in message.split("\n"):
        click.echo(escape_controls(line), err=True)
