"""Which place gets which notices, and when: tables of cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.notice_routes import (
    MailAddresses,
    QuietHours,
    Route,
    Severity,
    parse_routes,
    routes_for,
    routes_to,
)
from backfill_assets.settings import Settings

MAIL = "smtps://relay.example/?from=a@b.c&to=d@e.f,g@h.i"
HOOK, PAGER = "https://hooks.example/T/secret", "https://pager.example"


@pytest.mark.parametrize(
    ("text", "kinds", "read"),
    [
        ("", ["log"], Route()),
        ("log", ["log"], Route()),
        ("file:/var/my notices.jsonl", ["file"], Route("file", "/var/my notices.jsonl")),
        (f" log ; slack:{HOOK};", ["log", "slack"], Route("slack", HOOK)),
        (f"slack:{HOOK} for sales,fx", ["slack"], Route("slack", HOOK, frozenset({"sales", "fx"}))),
        (f"alertmanager:{PAGER}  from critical", ["alertmanager"], Route("alertmanager", PAGER, least="critical")),
        ("webhook:http://u:p@h:8080/x?y=1", ["webhook"], Route("webhook", "http://u:p@h:8080/x?y=1")),
        ("log for sales from warning", ["log"], Route("log", "", frozenset({"sales"}), "warning")),
        (f"mail:{MAIL} quiet 22:00-07:00", ["mail"], Route("mail", MAIL, quiet=QuietHours.parse("22:00-07:00"))),
        ("apprise:tgram://token/1 from warning", ["apprise"], Route("apprise", "tgram://token/1", least="warning")),
    ],
)
def test_routes_are_read(text: str, kinds: list[str], read: Route) -> None:
    """One target as before, or several with what each gets."""
    found = parse_routes(text)
    assert [each.kind for each in found] == kinds and found[-1] == read


@pytest.mark.parametrize(
    "text",
    [
        "mail",
        "file:",
        "log:x",
        "slack",
        "webhook:ftp://secret",
        "webhook:http://secret:99999/hook",
        "webhook:http://secret:http/hook",
        "webhook:http://[::1/secret",
        "webhook:http://secret/gr\u00fc\u00dfe",
        "slack:https://secret if critical",
        "slack:https://secret from urgent",
        "slack:https://secret quiet 22-07",
        "slack:https://secret quiet 22:00-25:00",
        "log; webhook:htps://host/secret",
        "apprise:secret",
        "apprise:json://sec ret",
        "mail:http://secret/?from=a@b.c&to=d@e.f",
        "mail:smtp://secret/?from=a@b.c",
        "mail:smtp://secret/?to=d@e.f",
        "mail:smtp://secret/?from=a&to=d@e.f",
        "mail:smtp://secret/?from=a@b.c&to=d@e.f%0d%0aBcc:x@y.z",
        "mail:smtp://ana:secret@host/?from=a@b.c&to=d@e.f",
        "mail:smtp:///?from=a@b.c&to=d@secret.f",
    ],
)
def test_what_cannot_be_read_is_refused_without_its_secret(text: str) -> None:
    """Before any work is done, and by the name of the variable."""
    with pytest.raises(InvalidRequest, match="BACKFILL_NOTICES") as refused:
        Settings.from_environment({"BACKFILL_NOTICES": text})
    assert "secret" not in str(refused.value)


def test_the_name_and_the_settings_hide_the_address() -> None:
    """Settings are printed and logged, and names are files; the address of a webhook is a password."""
    settings = Settings.from_environment({"BACKFILL_NOTICES": f"slack:{HOOK}"})
    (route,) = settings.notices
    assert "secret" not in repr(settings) + route.name
    assert route.name == parse_routes(f"slack:{HOOK} from critical")[0].name != parse_routes(f"slack:{HOOK}2")[0].name


@pytest.mark.parametrize(
    ("severity", "dataset", "to"),
    [
        ("info", "", ["log"]),
        ("info", "sales", ["log"]),
        ("warning", "fx", ["log"]),
        ("warning", "sales", ["slack"]),
        ("critical", "fx", ["alertmanager"]),
        ("critical", "sales", ["slack", "alertmanager"]),
    ],
)
def test_a_notice_goes_by_the_routes_that_take_it(severity: Severity, dataset: str, to: list[str]) -> None:
    """And to the log if none does: what nobody asked for is not lost."""
    routes = parse_routes(f"slack:{HOOK} for sales from warning; alertmanager:{PAGER} from critical")
    assert [route.kind for route in routes_for(routes, severity, dataset).values()] == to


def test_two_routes_to_one_place_send_once() -> None:
    routes = parse_routes(f"slack:{HOOK} for sales; slack:{HOOK} from warning")
    assert list(routes_for(routes, "critical", "sales").values()) == [routes[0]]
    assert list(routes_for(routes, "critical", "fx").values()) == [routes[1]]


def test_what_is_over_goes_to_whom_it_was_told_however_urgent_they_have_it() -> None:
    """Rather by the route about its dataset; a place that is not declared any more gets nothing."""
    text = f"slack:{HOOK} from critical; slack:{HOOK} for sales quiet 22:00-07:00; webhook:{PAGER}"
    routes = parse_routes(text)
    assert routes_to(routes, {routes[0].name, "log", "webhook-of-old"}, "fx") == {
        routes[0].name: routes[0],
        "log": Route(),
    }
    assert routes_to(routes[1:], {routes[1].name}, "fx") == {routes[1].name: routes[1]}


def test_where_mail_goes() -> None:
    """The ports of SMTP, unless one is named."""
    found = MailAddresses.parse(MAIL)
    assert (found.host, found.port, found.is_encrypted) == ("relay.example", 465, True)
    assert (found.sender, found.to) == ("a@b.c", ("d@e.f", "g@h.i"))
    assert MailAddresses.parse(MAIL.replace("smtps:", "smtp:")).port == 25
    assert MailAddresses.parse(MAIL.replace("example/", "example:587/")).port == 587
    assert MailAddresses.parse(MAIL.replace("d@", "d+alarm@")).to[0] == "d+alarm@e.f"


@pytest.mark.parametrize(
    ("hours", "at", "is_held"),
    [
        ("22:00-07:00", "21:59", False),
        ("22:00-07:00", "22:00", True),
        ("22:00-07:00", "06:59", True),
        ("22:00-07:00", "07:00", False),
        ("12:00-13:30", "13:29", True),
        ("12:00-13:30", "11:59", False),
        ("12:00-12:00", "12:00", True),
    ],
)
def test_quiet_hours_hold_all_that_is_not_critical(hours: str, at: str, is_held: bool) -> None:
    """In UTC, wherever the machine is; the same time twice is the whole day."""
    (route,) = parse_routes(f"slack:{HOOK} quiet {hours}")
    moment = datetime.fromisoformat(f"2017-03-01T{at}").replace(tzinfo=UTC)
    for zone in (UTC, timezone(timedelta(hours=-5))):
        found = [route.holds(severity, moment.astimezone(zone)) for severity in ("info", "warning", "critical")]
        assert found == [is_held, is_held, False]
