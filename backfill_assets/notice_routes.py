"""Where notices go, as a person declares it: each route is a place, and which notices it gets, and when. Pure.

``log; slack:https://hooks.slack.com/services/... for sales from warning quiet 22:00-07:00; alertmanager:https://host
from critical``. What a place is called elsewhere never shows its address: that may hold a secret.
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
"""How urgent a notice is: for the record, for the next working day, or now."""
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
"""The name of the place that needs no address."""


@dataclass(frozen=True)
class QuietHours:
    """A part of each day, UTC; it may include midnight."""

    begins: time
    ends: time

    def include(self, at: datetime) -> bool:
        now = at.astimezone(UTC).time()
        if self.begins < self.ends:
            return self.begins <= now < self.ends
        return now >= self.begins or now < self.ends

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Of ``22:00-07:00``."""
        found = _HOURS.fullmatch(text)
        try:
            begins, ends = map(time.fromisoformat, found.groups() if found else ())
        except ValueError:
            raise _refused(f"its quiet hours are {text!r}") from None
        return cls(begins, ends)


@dataclass(frozen=True)
class Route:
    """A place that gets notices, and which of them."""

    kind: PlaceKind = "log"
    where: str = field(default="", repr=False)
    datasets: frozenset[str] = frozenset()
    """Only notices about these; empty for all, also for those that are about none."""
    least: Severity = "info"
    quiet: QuietHours | None = None
    """What is less than critical waits until they end."""

    @property
    def name(self) -> str:
        """The same for the same place, and without its address."""
        return f"{self.kind}-{sha256(self.where.encode()).hexdigest()[:8]}" if self.where else self.kind

    @property
    def groups(self) -> bool:
        """Whether several notices about a dataset are one message there; machines get each by itself."""
        return self.kind not in _FOR_EACH

    def takes(self, severity: Severity, dataset: str) -> bool:
        return SEVERITIES.index(severity) >= SEVERITIES.index(self.least) and self.is_about(dataset)

    def is_about(self, dataset: str) -> bool:
        return not self.datasets or dataset in self.datasets

    def holds(self, severity: Severity, at: datetime) -> bool:
        """Whether such a notice waits for the end of the quiet hours."""
        return self.quiet is not None and severity != "critical" and self.quiet.include(at)


def routes_for(routes: Iterable[Route], severity: Severity, dataset: str) -> dict[str, Route]:
    """By name: the first route to each place that takes such a notice; the log if none does: nothing is lost."""
    found: dict[str, Route] = {}
    for route in routes:
        if route.takes(severity, dataset):
            found.setdefault(route.name, route)
    return found or {LOG: Route()}


def routes_to(routes: Iterable[Route], places: Collection[str], dataset: str) -> dict[str, Route]:
    """By name: a route to each of ``places`` that is declared, rather one about ``dataset``, however urgent it has it.

    What is over goes to those who were told that it began.
    """
    found: dict[str, Route] = {}
    for route in sorted((*routes, Route()), key=lambda route: not route.is_about(dataset)):
        if route.name in places:
            found.setdefault(route.name, route)
    return found


def parse_routes(text: str) -> tuple[Route, ...]:
    """Raises :class:`InvalidRequest` without repeating ``text``, of which an address may be a secret."""
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
    """What ``smtp://host:port/?from=a@x&to=b@y,c@y`` says; ``smtps`` speaks TLS from its first word."""

    host: str
    port: int
    is_encrypted: bool
    sender: str
    to: tuple[str, ...]

    @classmethod
    def parse(cls, url: str) -> MailAddresses:
        """Raises :class:`ValueError` for what names no server, or not one sender and at least one receiver."""
        address = urlsplit(url)
        query = parse_qs(address.query.replace("+", "%2B"))  # A plus is a part of many addresses, and no space.
        (sender,) = query.get("from", [])
        to = tuple(each.strip() for text in query.get("to", []) for each in text.split(","))
        is_encrypted = address.scheme == "smtps"
        if not to or not all(_MAILBOX.fullmatch(each) for each in (sender, *to)) or "@" in address.netloc:
            raise ValueError
        return cls(address.hostname or "", address.port or (465 if is_encrypted else 25), is_encrypted, sender, to)


def _is_address(kind: str, where: str) -> bool:
    """Whether ``where`` can be the address of such a place."""
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
    """Does ``url`` have a host, and a port that can be one? The rest of a URL is in ASCII, with ``%``."""
    try:
        address = urlsplit(url)
        # The port is parsed when it is asked for.
        whole = bool(address.hostname) and address.port != 0
    except ValueError:
        return False
    is_one_word = not re.search(r"\s", url) and f"{address.path}{address.query}".isascii()
    return whole and is_one_word and address.scheme in schemes
