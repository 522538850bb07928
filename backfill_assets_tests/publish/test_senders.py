"""Each place is a real receiver on this machine: what it gets, what it is never shown, and one that hangs."""

from __future__ import annotations

import builtins
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, Session

from backfill_assets.errors import NoAnswer, NotDelivered
from backfill_assets.lakehouse.records import Notice
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.outbox import announce, due_notices
from backfill_assets.publish.senders import (
    SMTP_PASSWORD,
    SMTP_USER,
    AlertmanagerSender,
    AppriseSender,
    MailSender,
    SlackSender,
    WebhookSender,
    sender_of,
)
from backfill_assets.publish.side_by_side import RoundLimits
from backfill_assets_tests.protocol.lake import Lake
from backfill_assets_tests.publish.test_notice_forms import BEGAN, ENDED
from backfill_assets_tests.publish.test_outbox import serving
from backfill_assets_tests.publish.test_routes import URGENT

pytestmark = pytest.mark.protocol
"""They start servers, and a process that is killed."""
SHORT = RoundLimits(1.0, 1.0)


# ------------------------------------------------------------------ over the web


def test_slack_and_an_alertmanager_get_their_own_form() -> None:
    with serving() as server:
        SlackSender(server.url).send(BEGAN)
        sender = AlertmanagerSender(server.url.replace("/hook", "/am/"))
        for due in (replace(BEGAN, key="k1"), replace(ENDED, key="k2")):
            sender.send(due)
    assert server.paths == ["/hook?token=secret", *["/am/api/v2/alerts?token=secret"] * 2]
    assert [block["type"] for block in server.bodies[BEGAN.key]["blocks"]] == ["header", *["section"] * 3, "context"]
    (began,), (ended,) = server.bodies["k1"], server.bodies["k2"]
    assert began["labels"] == ended["labels"] and began["endsAt"] > ended["endsAt"] >= ended["startsAt"]


def test_of_one_incident_one_alert_fires(lake: Lake) -> None:
    """It was opened and given up before the Alertmanager was asked; later it became critical; then it is over."""
    with serving() as server:
        sender = sender_of(parse_routes(f"alertmanager:{server.url}"))
        warning = BEGAN.notice.model_copy(update={"severity": "warning"})
        for incident in ("i1", "i2"):
            announce(lake.storage, f"{incident}-a-opened", warning.model_copy(update={"incident": incident}))
        announce(lake.storage, "i1-b-worse", BEGAN.notice.model_copy(update={"incident": "i1"}))
        deliver(lake.publisher(), sender)
        announce(lake.storage, "i2-b-worse", BEGAN.notice.model_copy(update={"incident": "i2"}))
        deliver(lake.publisher(), sender)
        for incident in ("i1", "i2"):
            over = ENDED.notice.model_copy(update={"incident": incident})
            announce(lake.storage, f"{incident}-c-over", over)
        deliver(lake.publisher(), sender)
    fires = dict[tuple[str, str], bool]()
    for key, expected in (
        ("i1-a-opened", {("i1", "critical"), ("i2", "warning")}),
        ("i2-b-worse", {("i1", "critical"), ("i2", "critical")}),
        ("i1-c-over", set()),
    ):
        for alert in server.bodies[key]:
            labels = alert["labels"]
            fires[labels["incident"], labels["severity"]] = alert["endsAt"] > datetime.now(UTC).isoformat()
        assert {which for which, is_firing in fires.items() if is_firing} == expected


# ------------------------------------------------------------------ mail


class Mailbox:
    """Keeps what arrives; refuses receivers of ``refusing``."""

    def __init__(self, *refusing: str) -> None:
        self.refusing, self.messages, self.users = refusing, list[Message](), list[str]()

    async def handle_RCPT(self, server: Any, session: Session, envelope: Envelope, to: str, options: list[str]) -> str:  # noqa: N802
        if to in self.refusing:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.messages.append(message_from_bytes(envelope.content or b""))  # type: ignore[arg-type]
        return "250 OK"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.users.append(f"{data.login.decode()}:{data.password.decode()}")
        return AuthResult(success=data.password == b"s3cret", handled=False)


class _OnAnyPort(Controller):
    """It greets itself to see that it is up, and so has to know its port."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        super()._trigger_server()  # type: ignore[no-untyped-call]


@contextmanager
def mail_server(box: Mailbox, **options: Any) -> Iterator[str]:
    """The address of a route to it."""
    controller = _OnAnyPort(box, hostname="127.0.0.1", port=0, **options)
    controller.start()
    try:
        yield f"smtp://localhost:{controller.port}/?from=backfill@example.com&to=ana@example.com,on-call@example.com"
    finally:
        controller.stop()


def test_a_mail_arrives_and_the_end_answers_it(lake: Lake) -> None:
    """By what the lakehouse keeps of the first message, whichever process sends the second."""
    box = Mailbox()
    with mail_server(box) as url:
        routes = parse_routes(f"mail:{url}")
        for due in (BEGAN, ENDED):
            announce(lake.storage, due.key, due.notice)
            assert deliver(lake.publisher(), sender_of(routes)).sent == (due.key,)
    began, ended = box.messages
    assert began["Message-ID"] == f"<{BEGAN.key}@example.com>" == ended["In-Reply-To"] == ended["References"]
    assert began["Subject"].startswith("Critical: ") and ended["Subject"].startswith("Over: ")
    assert "To do: backfill plan fact_daily_revenue --days 2017-03-04" in str(began.get_payload())


def test_one_receiver_is_enough_and_none_is_no_delivery(caplog: pytest.LogCaptureFixture) -> None:
    """Or those who have it would get it again and again, because of one mailbox that is gone."""
    some, none = Mailbox("ana@example.com"), Mailbox("ana@example.com", "on-call@example.com")
    with mail_server(some) as url:
        MailSender(url).send(BEGAN)
    assert len(some.messages) == 1 and "refused the receiver ana@example.com" in caplog.text
    with mail_server(none) as url, pytest.raises(NotDelivered, match=r"localhost refused every receiver \(550\)"):
        MailSender(url).send(BEGAN)


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SMTP_USER, "ana")
    monkeypatch.setenv(SMTP_PASSWORD, "s3cret")


@pytest.mark.usefixtures("password")
def test_a_password_is_never_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_server(box := Mailbox()) as url:
        with pytest.raises(NotDelivered, match="offers no encryption") as refused:
            MailSender(url).send(BEGAN)
        assert "s3cret" not in str(refused.value) and SMTP_USER in str(refused.value.hint)
        monkeypatch.delenv(SMTP_USER)
        MailSender(url).send(BEGAN)
    assert len(box.messages) == 1 and box.users == []


@pytest.mark.usefixtures("password")
def test_a_password_goes_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong one is told by the server's number alone."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run([*make.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    box = Mailbox()
    with mail_server(box, tls_context=context, authenticator=box.authenticate) as url:
        with pytest.raises(NotDelivered, match=r"localhost did not answer \(SSLCertVerificationError\)"):
            MailSender(url).send(BEGAN)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        MailSender(url).send(BEGAN)
        monkeypatch.setenv(SMTP_PASSWORD, "wrong")
        with pytest.raises(NotDelivered, match="localhost answered 535") as refused:
            MailSender(url).send(BEGAN)
    assert len(box.messages) == 1 and box.users[0] == "ana:s3cret" and "wrong" not in str(refused.value)


# ------------------------------------------------------------------ apprise


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_apprise_hands_it_over_to_what_its_address_names(caplog: pytest.LogCaptureFixture) -> None:
    """Its own ``json://``, to a server on this machine; an end is a success."""
    with serving(200, 200, 500) as server:
        sender = AppriseSender(server.url.replace("http://", "json://"))
        for due in (BEGAN, ENDED):
            server.bodies.clear()
            sender.send(due)
            (body,) = server.bodies.values()
            assert body["type"] == ("success" if due is ENDED else "failure")
            assert body["title"].endswith("fact_daily_revenue 2017-03-04: foreign write")
            assert f"[{due.key}]" in body["message"] and ("To do: backfill plan" in body["message"]) is (due is BEGAN)
        with pytest.raises(NotDelivered, match="apprise could not hand it over by json"):
            sender.send(BEGAN)
    with pytest.raises(NotDelivered, match="apprise does not take this address of nosuch") as refused:
        AppriseSender("nosuch://secret").send(BEGAN)
    assert "secret" not in str(refused.value) + repr(sender)


def test_without_apprise_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported when the first notice goes there, and holds up no other place."""
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "apprise":
            raise ImportError
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NotDelivered, match="apprise is not installed") as refused:
        AppriseSender("json://host/secret").send(BEGAN)
    assert refused.value.hint == "pip install 'backfill-assets[apprise]'"


# ------------------------------------------------------------------ one that hangs


@pytest.fixture
def hanging() -> Iterator[socket.socket]:
    """It takes connections, and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _port(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_a_receiver_that_hangs_holds_up_nobody(lake: Lake, hanging: socket.socket) -> None:
    """Nine notices: Slack has its message, and the webhook all nine, while the first one hangs; then it is let be."""
    for number in range(9):
        announce(lake.storage, f"n{number}", URGENT.model_copy(update={"incident": f"i{number}"}))
    with serving() as web, serving() as slack:
        routes = f"webhook:http://127.0.0.1:{_port(hanging)}/secret; webhook:{web.url}; slack:{slack.url}"
        sender = replace(sender_of(parse_routes(routes)), limits=SHORT)
        begun = time.monotonic()
        found = deliver(lake.publisher(), sender)
        took = time.monotonic() - begun
        assert took < 3 and len(web.bodies) == 9 and len(slack.bodies) == 1
        assert max(*web.at, *slack.at) - begun < 1, "before the first one was given up"
        (place,) = found.failing
        assert len(found.failed) == 9 and place.words == "no answer within 1 s" and "secret" not in str(place)
        begun = time.monotonic()
        deliver(lake.publisher(), sender)
        assert time.monotonic() - begun < 0.5, "it is not tried again at once"
        assert len(web.keys) == 9 and len(slack.keys) == 1
        lake.clock += timedelta(minutes=2)
        assert deliver(lake.publisher(), sender).failing[0].failures == 2


@pytest.mark.parametrize("route", ["webhook:http://127.0.0.1:{}/x", "mail:smtp://127.0.0.1:{}/?from=a@b.c&to=d@e.f"])
def test_a_socket_is_not_waited_for_much_longer_than_that(hanging: socket.socket, route: str) -> None:
    """The thread that was given up ends too; whether the notice arrived is not known."""
    (parsed,) = parse_routes(route.format(_port(hanging)))
    outlet: Any = sender_of((parsed,)).outlets[parsed.name]
    with pytest.raises(NoAnswer, match="did not answer"):
        type(outlet)(outlet.url, timeout=0.2).send(BEGAN)


_DELIVERS = """
import sys
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.senders import sender_of
deliver(Publisher(Storage(sys.argv[1])), sender_of(parse_routes(sys.argv[2])))
"""


def test_a_process_that_is_killed_while_threads_send_leaves_nothing_out(lake: Lake, hanging: socket.socket) -> None:
    """Who has it by then does not get it again; who was just being sent it does, and then its end."""
    announce(lake.storage, BEGAN.key, BEGAN.notice)
    with serving() as web, serving() as back_up:
        there = f"webhook:{web.url}"
        routes = f"{there}; webhook:http://127.0.0.1:{_port(hanging)}/x"
        process = subprocess.Popen([sys.executable, "-c", _DELIVERS, str(lake.root), routes])
        _wait_until(
            lambda: [
                each for each in lake.storage.files("_outbox/routes", recursive=True) if not each.path.endswith(".tmp")
            ]
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
        hung = next(each for each in parse_routes(routes) if each.where.endswith("/x"))
        told = lake.storage.files(f"_outbox/told/{BEGAN.notice.incident}")
        assert any(hung.name in file.path for file in told), "written before it is sent"
        announce(lake.storage, ENDED.key, ENDED.notice)
        sender = sender_of(parse_routes(routes))
        mended = {**sender.outlets, hung.name: WebhookSender(back_up.url)}
        found = deliver(lake.publisher(), replace(sender, outlets=mended))
    assert sorted(found.sent) == sorted([BEGAN.key, ENDED.key]) and not due_notices(lake.publisher())
    assert web.keys == back_up.keys == [BEGAN.key, ENDED.key]


def _wait_until(is_so: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_names_of_places_hide_what_is_in_their_addresses() -> None:
    """Settings are printed, names are files."""
    for text in ("mail:smtp://relay.secret/?from=a@b.c&to=d@secret.f", "apprise:tgram://secret/1"):
        (route,) = parse_routes(text)
        shown: Mapping[str, object] = sender_of((route,)).outlets
        assert "secret" not in repr(route) + route.name + repr(shown)


def test_a_notice_of_any_title_is_a_mail() -> None:
    with mail_server(box := Mailbox()) as url:
        MailSender(url).send(replace(BEGAN, notice=Notice(title="März\r\nist da")))
    assert len(box.messages) == 1
