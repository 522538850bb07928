"""Where notices go: into a log, into files, to a web server, to a channel of Slack's, to an Alertmanager."""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse.records import Notice
from backfill_assets.notice_routes import Route
from backfill_assets.publish.outbox import DueNotice, Outlet, Routed

_TIMEOUT_SECONDS = 10.0
_FIRES = timedelta(days=365)
"""An alert without an end is over after some minutes; an incident, only when it is closed."""


def sender_of(routes: Sequence[Route], write: Callable[[str], None] | None = None) -> Routed:
    """What hands notices over by ``routes``, those of :attr:`Settings.notices`.

    ``write`` is where the log is written to, by default the logger ``backfill_assets.notices``.
    """
    log = LogSender(write or log_writer(logging.getLogger("backfill_assets.notices"), logging.WARNING))
    senders: Mapping[str, Callable[[str], Outlet]] = {
        "log": lambda _: log,
        "file": lambda where: FileSender(Path(where).expanduser(), is_folder=where.endswith("/")),
        "webhook": WebhookSender,
        "slack": SlackSender,
        "alertmanager": AlertmanagerSender,
    }
    return Routed(tuple(routes), {each.name: senders[each.kind](each.where) for each in (*routes, Route())})


def log_writer(logger: logging.Logger, level: int = logging.INFO) -> Callable[[str], None]:
    """Writes a text to ``logger``; raises :class:`NotDelivered` if its settings would drop it."""

    def write(text: str) -> None:
        if not _is_written(logger, level):
            name = logging.getLevelName(level)
            raise NotDelivered(f"no handler of the logger {logger.name} writes what is of level {name}")
        logger.log(level, text)

    return write


def _is_written(logger: logging.Logger, level: int) -> bool:
    """Whether a handler of ``logger``, or of one that it passes records on to, takes a record of ``level``."""
    if not logger.isEnabledFor(level):
        return False
    handlers, at = list(logger.handlers), logger
    while at.propagate and at.parent is not None:
        at = at.parent
        handlers += at.handlers
    if not handlers:
        return logging.lastResort is not None and level >= logging.lastResort.level
    return any(level >= each.level and not isinstance(each, logging.NullHandler) for each in handlers)


def as_json(due: DueNotice) -> dict[str, Any]:
    """The notice with its deduplication key, as files and web servers get it."""
    recipients = {"recipients": list(due.recipients)} if due.recipients else {}
    damage = {"damage": due.damage} if due.damage else {}
    return {"key": due.key, **due.notice.model_dump(mode="json"), **recipients, **damage}


def notice_lines(notice: Notice, recipients: Sequence[str] = ()) -> list[str]:
    """The notice as text: its title first."""
    parts = [notice.title, *notice.lines]
    parts += [f"For {', '.join(recipients)}"] if recipients else []
    parts += [f"Reports: {', '.join(notice.reports)}"] if notice.reports else []
    parts += [f"Approved by {notice.approved_by}"] if notice.approved_by else []
    return [*parts, f"To undo: {notice.undo}"] if notice.undo else parts


def message_lines(due: DueNotice) -> list[str]:
    """As people read it, with the key of each notice: what is told together is a line each."""
    if due.together:
        return [due.notice.title, *(f"[{each.key}] {each.notice.title}" for each in due.together)]
    first, *others = notice_lines(due.notice, due.recipients)
    return [f"[{due.key}] {first}", *others]


@dataclass(frozen=True)
class LogSender:
    """One text a message. ``write`` raises :class:`NotDelivered` where it would be lost."""

    write: Callable[[str], None]

    def send(self, due: DueNotice) -> None:
        self.write("\n  ".join(message_lines(due)))


@dataclass(frozen=True)
class FileSender:
    """One JSON line a notice, appended to a file; or into a folder, a file for each, named after its key."""

    path: Path
    is_folder: bool = False
    """``path`` is written as a folder, and made if it is not there; without this a folder has to be there."""

    def send(self, due: DueNotice) -> None:
        text = json.dumps(as_json(due), sort_keys=True) + "\n"
        try:
            if self.is_folder:
                self.path.mkdir(parents=True, exist_ok=True)
            if self.path.is_dir():
                self._put(self.path / f"{due.key}.json", text)
            else:
                self._append(text)
        except OSError as error:
            raise NotDelivered(f"{self._what_is_wrong(error)}: {error.strerror}") from error

    def _what_is_wrong(self, error: OSError) -> str:
        """What ``error`` is about: a folder above is named too."""
        named = Path(str(error.filename or self.path))
        return f"{self.path}" if self.path in (named, named.parent) else f"{self.path} ({named})"

    def _put(self, path: Path, text: str) -> None:
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        unfinished.write_text(text)
        unfinished.replace(path)

    def _append(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if file.tell() and not _ends_a_line(file):
                file.write(b"\n")  # A full disk kept a part of the last one.
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def _ends_a_line(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected arrives as a GET without the notice: that is not delivered."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True)
class _WebSender:
    """A POST of JSON. Only an answer of 2xx counts as delivered."""

    url: str = field(repr=False)
    timeout: float = _TIMEOUT_SECONDS

    def _post(self, body: object, key: str, below: str = "") -> None:
        """Raises :class:`NotDelivered` with the host alone: the rest of the URL may hold a secret."""
        url = urlsplit(self.url)
        user, _, host = url.netloc.rpartition("@")
        address = url._replace(netloc=host, path=f"{url.path.rstrip('/')}{below}" if below else url.path).geturl()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key, **_credentials(user)}
        request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 - http
        try:
            with urllib.request.build_opener(_NoRedirect()).open(request, timeout=self.timeout) as answer:
                answer.read(1)
        except urllib.error.HTTPError as error:
            error.close()
            raise NotDelivered(f"{host} answered {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:  # their text may repeat the URL
            raise NotDelivered(f"{host} did not answer ({_kind(error)})") from None


def _credentials(user: str) -> dict[str, str]:
    """A name and a password in a URL, as the header that they stand for: urllib takes them for the host."""
    name, _, password = user.partition(":")
    both = f"{unquote(name)}:{unquote(password)}".encode()
    return {"Authorization": f"Basic {b64encode(both).decode()}"} if user else {}


def _kind(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return "timed out" if isinstance(reason, TimeoutError) else type(reason).__name__


class WebhookSender(_WebSender):
    """The notice's JSON, with the key as ``Idempotency-Key``."""

    def send(self, due: DueNotice) -> None:
        self._post(as_json(due), due.key)


class SlackSender(_WebSender):
    """A text for an incoming webhook of Slack's, or of what takes the same body; it has the key of each notice."""

    def send(self, due: DueNotice) -> None:
        first, *others = (line.translate(_SLACK_ESCAPES) for line in message_lines(due))
        urgency = "" if due.notice.severity == "info" else f"*{due.notice.severity}* "
        self._post({"text": "\n".join([f"{urgency}{first}", *others])}, due.key)


_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class AlertmanagerSender(_WebSender):
    """An alert for each notice, to ``<URL>/api/v2/alerts``; alerts with the same labels are one.

    An incident fires until a notice says that it is over: with its dataset and its severity, for these are labels.
    What tells of no incident is over when the Alertmanager has not heard of it for its ``resolve_timeout``.
    """

    def send(self, due: DueNotice) -> None:
        self._post([_alert(each, datetime.now(UTC)) for each in due.parts], due.key, below="/api/v2/alerts")


def _alert(due: DueNotice, now: datetime) -> dict[str, Any]:
    told = due.notice
    dataset = {"dataset": told.dataset} if told.dataset else {}
    about = {"alertname": "BackfillNotice", "notice": due.key}
    if told.incident:
        about = {"alertname": "BackfillIncident", "incident": told.incident}
    ends = now if told.resolved else now + _FIRES if told.incident else None
    summary, *others = notice_lines(told, due.recipients)
    return {
        "labels": {**about, **dataset, "severity": told.severity},
        "annotations": {"summary": summary, "description": "\n".join(others)},
        "startsAt": now.isoformat(),
        **({"endsAt": ends.isoformat()} if ends else {}),
    }
