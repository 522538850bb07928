"""Outlets of notices: log, files, web, mail, and apprise's services."""

from __future__ import annotations

import json
import logging
import os
import smtplib
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from backfill_assets import clock
from backfill_assets.errors import NoAnswer, NotDelivered
from backfill_assets.notice_routes import MailAddresses, Route
from backfill_assets.publish.delivery import Outlet, Routed
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.notice_forms import alerts, as_json, headline, mail, message_lines, slack_body, text_block

SMTP_USER, SMTP_PASSWORD = "BACKFILL_SMTP_USER", "BACKFILL_SMTP_PASSWORD"
APPRISE_MISSING = "the package apprise is not installed"
INSTALL_APPRISE = "pip install 'backfill-assets[apprise]'"
_TIMEOUT_SECONDS = 8.0
_log = logging.getLogger("backfill_assets.notices")


def sender_of(routes: Sequence[Route], write: Callable[[str], None] | None = None) -> Routed:
    log = LogSender(write or log_writer(_log, logging.WARNING))
    senders: Mapping[str, Callable[[str], Outlet]] = {
        "log": lambda _: log,
        "file": lambda where: FileSender(Path(where).expanduser(), is_folder=where.endswith("/")),
        "webhook": WebhookSender,
        "slack": SlackSender,
        "alertmanager": AlertmanagerSender,
        "mail": MailSender,
        "apprise": AppriseSender,
    }
    return Routed(tuple(routes), {each.name: senders[each.kind](each.where) for each in (*routes, Route())})


def log_writer(logger: logging.Logger, level: int = logging.INFO) -> Callable[[str], None]:
    """The function raises :class:`NotDelivered` if the logger would drop the text."""

    def write(text: str) -> None:
        if not _is_written(logger, level):
            name = logging.getLevelName(level)
            raise NotDelivered(f"no handler of the logger {logger.name} writes what is of level {name}")
        logger.log(level, text)

    return write


def _is_written(logger: logging.Logger, level: int) -> bool:
    if not logger.isEnabledFor(level):
        return False
    handlers, at = list(logger.handlers), logger
    while at.propagate and at.parent is not None:
        at = at.parent
        handlers += at.handlers
    if not handlers:
        return logging.lastResort is not None and level >= logging.lastResort.level
    return any(level >= each.level and not isinstance(each, logging.NullHandler) for each in handlers)


@dataclass(frozen=True)
class LogSender:
    write: Callable[[str], None]

    def send(self, due: DueNotice) -> None:
        self.write(text_block(due))


@dataclass(frozen=True)
class FileSender:
    path: Path
    is_folder: bool = False

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
        named = Path(str(error.filename or self.path))
        return f"{self.path}" if self.path in (named, named.parent) else f"{self.path} ({named})"

    def _put(self, path: Path, text: str) -> None:
        unfinished = path.with_suffix(f".{clock.token(4)}.tmp")
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
    """A redirected POST arrives as a GET without the notice."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True)
class _WebSender:
    url: str = field(repr=False)
    timeout: float = _TIMEOUT_SECONDS

    def _post(self, body: object, key: str, below: str = "") -> None:
        """Raises :class:`NotDelivered` with the host alone: the URL may be secret."""
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
            raise _no_answer(error)(f"{host} did not answer ({_kind(error)})") from None


def _credentials(user: str) -> dict[str, str]:
    """A header: urllib would take credentials in a URL for the host."""
    name, _, password = user.partition(":")
    both = f"{unquote(name)}:{unquote(password)}".encode()
    return {"Authorization": f"Basic {b64encode(both).decode()}"} if user else {}


def _kind(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return "timed out" if isinstance(reason, TimeoutError) else type(reason).__name__


def _no_answer(error: Exception) -> type[NotDelivered]:
    """A refused connection is a certain no; silence is not."""
    reason = getattr(error, "reason", error)
    is_in_doubt = isinstance(reason, TimeoutError | ConnectionResetError | HTTPException)
    return NoAnswer if is_in_doubt else NotDelivered


class WebhookSender(_WebSender):
    def send(self, due: DueNotice) -> None:
        self._post(as_json(due), due.key)


class SlackSender(_WebSender):
    def send(self, due: DueNotice) -> None:
        self._post(slack_body(due), due.key)


class AlertmanagerSender(_WebSender):
    def send(self, due: DueNotice) -> None:
        self._post(alerts(due, clock.now()), due.key, below="/api/v2/alerts")


@dataclass(frozen=True)
class MailSender:
    """Encrypted if offered, and always with a password; the environment has credentials."""

    url: str = field(repr=False)
    timeout: float = _TIMEOUT_SECONDS

    def send(self, due: DueNotice) -> None:
        """One accepting receiver suffices. Raises :class:`NotDelivered` with the host alone."""
        to = MailAddresses.parse(self.url)
        message = mail(due, to, clock.now())
        try:
            with self._connected(to) as server:
                refused = server.send_message(message)
        except smtplib.SMTPResponseException as error:
            raise NotDelivered(f"{to.host} answered {error.smtp_code}") from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise NotDelivered(f"{to.host} refused every receiver ({', '.join(map(str, codes))})") from None
        except (OSError, smtplib.SMTPException) as error:  # their text may repeat what was sent
            is_in_doubt = isinstance(error, TimeoutError | smtplib.SMTPServerDisconnected)
            said = "timed out" if isinstance(error, TimeoutError) else type(error).__name__
            raise (NoAnswer if is_in_doubt else NotDelivered)(f"{to.host} did not answer ({said})") from None
        for receiver, (code, _) in refused.items():
            _log.warning("%s refused the receiver %s of the notice %s: %s", to.host, receiver, due.key, code)

    def _connected(self, to: MailAddresses) -> smtplib.SMTP:
        if to.is_encrypted:
            context = ssl.create_default_context()
            server: smtplib.SMTP = smtplib.SMTP_SSL(to.host, to.port, timeout=self.timeout, context=context)
        else:
            server = smtplib.SMTP(to.host, to.port, timeout=self.timeout)
        try:
            self._prepare(server, to)
        except BaseException:
            server.close()
            raise
        return server

    def _prepare(self, server: smtplib.SMTP, to: MailAddresses) -> None:
        server.ehlo_or_helo_if_needed()
        is_encrypted = to.is_encrypted
        if not is_encrypted and server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
            server.ehlo()
            is_encrypted = True
        if user := os.environ.get(SMTP_USER, ""):
            if not is_encrypted:
                why = f"{to.host} offers no encryption, so {SMTP_PASSWORD} is not sent"
                raise NotDelivered(why, hint=f"Use smtps://, or unset {SMTP_USER}.")
            server.login(user, os.environ.get(SMTP_PASSWORD, ""))


@dataclass(frozen=True)
class AppriseSender:
    url: str = field(repr=False)

    def send(self, due: DueNotice) -> None:
        """Raises :class:`NotDelivered` with the scheme alone: the address may be secret."""
        scheme = self.url.partition("://")[0]
        apprise = _apprise()
        place = apprise.Apprise()
        if not place.add(self.url):
            raise NotDelivered(
                f"apprise does not take this address of {scheme}", hint="Look at it in BACKFILL_NOTICES."
            )
        kinds = {"critical": "failure", "warning": "warning", "info": "info"}
        kind = "success" if due.notice.resolved else kinds[due.notice.severity]
        first, *others = message_lines(due)
        body = "\n".join(others or [first])
        if due.key not in body and not due.together:
            body = f"{body}\n[{due.key}]"
        if not place.notify(title=headline(due.notice), body=body, notify_type=kind, body_format="text"):
            raise NotDelivered(f"apprise could not hand it over by {scheme}", hint="The log of apprise says why.")


def _apprise() -> Any:
    try:
        import apprise
    except ImportError:
        raise NotDelivered(APPRISE_MISSING, hint=INSTALL_APPRISE) from None
    return apprise
