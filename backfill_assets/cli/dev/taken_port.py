"""Why ``make dev`` cannot start: its lakehouse has one already, or another program has its port."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from backfill_assets.cli.running_dev import running_dev
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import answers
from backfill_assets.text import escape_controls
from backfill_assets.ui_addresses import asset_page

_MOST_CHARACTERS = 80
LAST_PORT = 65535


class DevRefused(BackfillError):
    """Another ``make dev`` or another program is where this one would be."""


def require_place(settings: Settings, ui: str) -> None:
    """Raise :class:`DevRefused` if ``make dev`` runs for this home, or if something has the port of ``ui``."""
    if dev := running_dev(settings):
        raise DevRefused(
            f"`make dev` of {settings.home} runs already: {dev.ui}{asset_page('start_here')}",
            hint=f"Use that one, or end it first: Ctrl-C where it runs, or kill {dev.pid}. "
            "Another port is no way out: a lakehouse has one daemon.",
        )
    require_free_port(settings, ui)


def require_free_port(settings: Settings, ui: str) -> None:
    """Raise :class:`DevRefused` if something has the port of ``ui``, with its name where the system gives it."""
    port = port_of(ui)
    if not answers(port):
        return
    owner = _owner(port)
    end = f"end what has it: kill {owner.pid}. Or " if owner else ""
    hint = f"{end}take another port: PORT={_free_pair(port)} make dev."
    raise DevRefused(f"Port {port} is taken by {_named(owner, settings)}.", hint=hint[0].upper() + hint[1:])


def port_of(ui: str) -> int:
    """The port in the address of a UI."""
    try:
        if port := urlsplit(ui).port:
            return port
    except ValueError:
        pass
    raise InvalidRequest(f"{ui} has no valid port.", hint="A port is a number, for example: PORT=3100 make dev")


def _owner(port: int) -> psutil.Process | None:
    """The process that listens, if this user may know it."""
    try:
        for each in psutil.net_connections(kind="tcp"):
            if each.pid and each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port:
                return psutil.Process(each.pid)
    except psutil.Error:
        return None
    return None


def _named(owner: psutil.Process | None, settings: Settings) -> str:
    if owner is None:
        return "another program"
    try:
        command, home = " ".join(owner.cmdline()), owner.environ().get("DAGSTER_HOME", "")
    except psutil.Error:
        return f"process {owner.pid}"
    if "dagster" not in command or not home:
        return f"process {owner.pid}, {escape_controls(command)[:_MOST_CHARACTERS]}"
    if Path(home) == settings.home / "dagster":
        return f"process {owner.pid}, Dagster's UI that an earlier start for this lakehouse has left behind"
    return f"process {owner.pid}, Dagster's UI with DAGSTER_HOME={escape_controls(home)}"


def _free_pair(taken: int) -> int:
    """The next port that is free, and the one after it, which the letters have."""
    above = (port for port in count(taken + 1) if port < LAST_PORT and not answers(port) and not answers(port + 1))
    return next(above) if taken < LAST_PORT - 1 else _free_pair(3000)
