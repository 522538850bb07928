"""Where notices go: into a log, into files, or to a web server."""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse.records import Notice
from backfill_assets.publish.outbox import DueNotice, Sender

_TIMEOUT_SECONDS = 10.0


def sender_of(text: str, write: Callable[[str], None] | None = None) -> Sender:
    """The sender that ``text`` names, as :attr:`Settings.notices` has it.

    ``write`` is where ``log`` writes to, by default the logger ``backfill_assets.notices``.
    """
    kind, _, where = text.partition(":")
    if kind == "webhook":
        return WebhookSender(where)
    if kind == "file":
        return FileSender(Path(where).expanduser(), is_folder=where.endswith("/"))
    return LogSender(write or log_writer(logging.getLogger("backfill_assets.notices"), logging.WARNING))


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


@dataclass(frozen=True)
class LogSender:
    """One message a notice. ``write`` raises :class:`NotDelivered` where the message would be lost."""

    write: Callable[[str], None]

    def send(self, due: DueNotice) -> None:
        first, *others = notice_lines(due.notice, due.recipients)
        self.write("\n  ".join([f"[{due.key}] {first}", *others]))


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
class WebhookSender:
    """A POST of the notice's JSON with the key as ``Idempotency-Key``. Only an answer of 2xx counts as delivered."""

    url: str = field(repr=False)
    timeout: float = _TIMEOUT_SECONDS

    def send(self, due: DueNotice) -> None:
        body = json.dumps(as_json(due)).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": due.key, **self._credentials()}
        address = urlsplit(self.url)._replace(netloc=self.host).geturl()
        request = urllib.request.Request(address, body, headers, method="POST")  # noqa: S310 - settings took http only
        try:
            with urllib.request.build_opener(_NoRedirect()).open(request, timeout=self.timeout) as answer:
                answer.read(1)
        except urllib.error.HTTPError as error:
            error.close()
            raise NotDelivered(f"{self.host} answered {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:  # their text may repeat the URL
            raise NotDelivered(f"{self.host} did not answer ({_kind(error)})") from None

    def _credentials(self) -> dict[str, str]:
        """A name and a password in the URL, as the header that they stand for: urllib takes them for the host."""
        user, at, _ = urlsplit(self.url).netloc.rpartition("@")
        name, _, password = user.partition(":")
        both = f"{unquote(name)}:{unquote(password)}".encode()
        return {"Authorization": f"Basic {b64encode(both).decode()}"} if at else {}

    @property
    def host(self) -> str:
        """All of the URL that may be shown: the rest may hold a secret."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def _kind(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return "timed out" if isinstance(reason, TimeoutError) else type(reason).__name__
