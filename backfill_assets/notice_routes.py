"""Where notices go, as declared. Pure.

``log; slack:https://hooks.slack.com/services/... for sales from warning quiet 22:00-07:00; alertmanager:https://host
from critical``. A place's name never contains its address, which may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from hashlib import sha256
from typing import Literal, cast, get_args
from urllib.parse import parse_qs, urlsplit

from backfill_assets.errors import InvalidRequest

Severity = Literal["info", "warning", "critical"]
"""For the record, for the next working day, or now."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
PlaceKind = Literal["log", "file", "webhook", "slack", "alertmanager", "mail", "apprise"]
_KINDS: tuple[PlaceKind, ...] = get_args(PlaceKind)
_OVER_THE_WEB = ("webhook", "slack", "alertmanager")
_FOR_EACH = ("file", "webhook")
_ROUTE = re.compile(r"(?P<place>.*?)(?P<options>(?:\s+(?:for|from|quiet)\s+\S+)*)")
_MAILBOX = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+")
_HOURS = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")
_HINT = (
    "Separate routes by a semicolon. Each is log, file:PATH, webhook:URL, slack:URL, alertmanager:URL, "
    "mail:smtp://HOST:PORT/?from=ADDRESS&to=ADDRESS,ADDRESS or apprise:URL, and may go on with: for DATASET,DATASET; "
    f"from {'|'.join(SEVERITIES)}; quiet 22:00-07:00 (UTC)."
)


LOG = "log"


@dataclass(frozen=True)
class QuietHours:
    """Daily hours in UTC; may include midnight."""

    begins: time
    ends: time

    def include(self, at: datetime) -> bool:
        now = at.astimezone(UTC).time()
        if self.begins < self.ends:
            return self.begins <= now < self.ends
        return now >= self.begins or now < self.ends

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        found = _HOURS.fullmatch(text)
        try:
            begins, ends = map(time.fromisoformat, found.groups() if found else ())
        except ValueError:
            raise _refused(f"its quiet hours are {text!r}") from None
        return cls(begins, ends)


@dataclass(frozen=True)
class Route:
    kind: PlaceKind = "log"
    where: str = field(default="", repr=False)
    datasets: frozenset[str] = frozenset()
    """Empty: all, also about no dataset."""
    least: Severity = "info"
    quiet: QuietHours | None = None
    """Notices below critical wait."""

    @property
    def name(self) -> str:
        return f"{self.kind}-{sha256(self.where.encode()).hexdigest()[:8]}" if self.where else self.kind

    @property
    def groups(self) -> bool:
        """A dataset's notices become one message, except for machines."""
        return self.kind not in _FOR_EACH

    def takes(self, severity: Severity, dataset: str) -> bool:
        return SEVERITIES.index(severity) >= SEVERITIES.index(self.least) and self.is_about(dataset)

    def is_about(self, dataset: str) -> bool:
        return not self.datasets or dataset in self.datasets

    def holds(self, severity: Severity, at: datetime) -> bool:
        return self.quiet is not None and severity != "critical" and self.quiet.include(at)


def routes_for(routes: Iterable[Route], severity: Severity, dataset: str) -> dict[str, Route]:
    """The first route per place, or the log: nothing is lost."""
    found: dict[str, Route] = {}
    for route in routes:
        if route.takes(severity, dataset):
            found.setdefault(route.name, route)
    return found or {LOG: Route()}


def routes_to(routes: Iterable[Route], places: Collection[str], dataset: str) -> dict[str, Route]:
    """An all-clear goes where the notice went, whatever its severity."""
    found: dict[str, Route] = {}
    for route in sorted((*routes, Route()), key=lambda route: not route.is_about(dataset)):
        if route.name in places:
            found.setdefault(route.name, route)
    return found


def parse_routes(text: str) -> tuple[Route, ...]:
    """Raises :class:`InvalidRequest`, which does not repeat ``text``: it may contain secrets."""
    return tuple(_route(part) for each in text.split(";") if (part := each.strip())) or (Route(),)


def _route(text: str) -> Route:
    match = _ROUTE.fullmatch(text)
    place, words = (match["place"], match["options"].split()) if match else (text, [])
    kind, _, where = place.partition(":")
    if kind not in _KINDS or bool(where) == (kind == LOG) or not _is_address(kind, where):
        raise _refused("a place cannot be read")
    options = dict(zip(words[::2], words[1::2], strict=True))
    least = options.get("from", "info")
    if least not in SEVERITIES:
        raise _refused(f"{least!r} is not how urgent a notice is")
    quiet = QuietHours.parse(options["quiet"]) if "quiet" in options else None
    datasets = frozenset(options["for"].split(",")) if "for" in options else frozenset[str]()
    return Route(cast("PlaceKind", kind), where, datasets, cast("Severity", least), quiet)


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"BACKFILL_NOTICES does not say where notices are sent: {why}.", hint=_HINT)


@dataclass(frozen=True)
class MailAddresses:
    """Parsed ``smtp://host:port/?from=a@x&to=b@y,c@y``; ``smtps`` is TLS from the start."""

    host: str
    port: int
    is_encrypted: bool
    sender: str
    to: tuple[str, ...]

    @classmethod
    def parse(cls, url: str) -> MailAddresses:
        """Raises :class:`ValueError` without a server, one sender, a receiver."""
        address = urlsplit(url)
        query = parse_qs(address.query.replace("+", "%2B"))  # a plus is part of many addresses
        (sender,) = query.get("from", [])
        to = tuple(each.strip() for text in query.get("to", []) for each in text.split(","))
        is_encrypted = address.scheme == "smtps"
        if not to or not all(_MAILBOX.fullmatch(each) for each in (sender, *to)) or "@" in address.netloc:
            raise ValueError
        return cls(address.hostname or "", address.port or (465 if is_encrypted else 25), is_encrypted, sender, to)


def _is_address(kind: str, where: str) -> bool:
    if kind in _OVER_THE_WEB:
        return _can_be_asked(where, "http", "https")
    if kind == "apprise":
        return re.fullmatch(r"[a-z][a-z0-9+.-]*://\S+", where, re.IGNORECASE) is not None
    if kind != "mail":
        return True
    try:
        MailAddresses.parse(where)
    except ValueError:
        return False
    return _can_be_asked(where, "smtp", "smtps")


def _can_be_asked(url: str, *schemes: str) -> bool:
    try:
        address = urlsplit(url)
        # An invalid port raises on access.
        whole = bool(address.hostname) and address.port != 0
    except ValueError:
        return False
    is_one_word = not re.search(r"\s", url) and f"{address.path}{address.query}".isascii()
    return whole and is_one_word and address.scheme in schemes
