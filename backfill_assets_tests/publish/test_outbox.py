"""The outbox: a notice is due once its publication is done, and a receiver that drops known keys gets each once."""

from __future__ import annotations

import json
import logging
import os
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import InvalidRequest, NotDelivered
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.records import Notice, Provenance, Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.crash_points import CrashPoint, Reached
from backfill_assets.publish.delivery import Outlet, deliver
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.outbox import announce, due_notices, is_taken, mark_delivered
from backfill_assets.publish.senders import (
    AlertmanagerSender,
    FileSender,
    LogSender,
    SlackSender,
    WebhookSender,
    log_writer,
    sender_of,
)
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.audit import delivered_keys
from backfill_assets_tests.protocol.lake import D1, D2, Lake, dying_at
from backfill_assets_tests.web_server import served

NOTICE = Notice(title="March is right now", lines=("revenue -0.4 %",), reports=("u",), undo="backfill rollback p1")
DUE = DueNotice("p1", NOTICE)


@dataclass
class Receiver:
    """Drops every key that it has seen; ``sent`` has all attempts."""

    sent: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)

    def send(self, due: DueNotice) -> None:
        if due.key in self.failing:
            raise NotDelivered("not today")
        self.sent.append(due.key)

    @property
    def seen(self) -> set[str]:
        return set(self.sent)


def told(lake: Lake, id: str, rows: dict[str, dict[date, list[str]]]) -> Publication:
    return lake.request(id, rows).model_copy(update={"notice": NOTICE})


@pytest.mark.parametrize(
    "step",
    [CrashPoint.TABLE_COMMITTED, CrashPoint.CLOSED, CrashPoint.NOTICE_SENT, CrashPoint.NOTICE_MARKED],
    ids=str,
)
def test_after_any_death_each_notice_arrives_once(lake: Lake, step: CrashPoint) -> None:
    """Published, sent, marked: with a death at each step, and another process that does the rest."""
    announce(lake.storage, "campaign-x.start", NOTICE)
    request, receiver = told(lake, "p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}}), Receiver()

    def work(reached: Reached) -> None:
        lake.publisher(reached).publish(request)
        deliver(lake.publisher(reached), receiver)

    with pytest.raises(Died):
        work(dying_at(step))
    if step is CrashPoint.TABLE_COMMITTED:
        assert [due.key for due in due_notices(lake.publisher())] == ["campaign-x.start"], "the entry may be aborted"
    lake.publisher().recover()
    deliver(lake.publisher(), receiver)
    assert receiver.seen == {"campaign-x.start", "p1"}
    assert max(Counter(receiver.sent).values()) == (2 if step is CrashPoint.NOTICE_SENT else 1)
    assert deliver(lake.publisher(), receiver).sent == () and due_notices(lake.publisher()) == []
    assert delivered_keys(lake.publisher()) == ["campaign-x.start", "p1"]


def test_an_aborted_publication_is_never_announced(lake: Lake) -> None:
    """A foreign writer wrote to its second table meanwhile: nothing of it is there, so there is nothing to announce."""
    lake.publish("p0", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, told(lake, "p1", {"t": {D1: ["A"]}, "u": {D1: ["B"]}}))
    lake.foreign_rows("u", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"p1": "aborted"}
    assert due_notices(lake.publisher()) == []


def test_one_that_cannot_be_sent_stays_due_and_holds_up_no_other(lake: Lake) -> None:
    """The others are sent; it is tried again the next time."""
    for id, day in (("p1", D1), ("p2", D2)):
        lake.publisher().publish(told(lake, id, {"t": {day: ["a"]}}))
    receiver = Receiver(failing={"p1"})
    found = deliver(lake.publisher(), receiver)
    assert (found.sent, found.failed) == (("p2",), (("p1", "not today"),))
    receiver.failing.clear()
    assert deliver(lake.publisher(), receiver).sent == ("p1",)


@pytest.mark.parametrize("damaged", ["", '{"title": "Mar', '{"title": "x", "of": "a later version"}'])
def test_a_damaged_announcement_is_named_and_holds_up_no_other(lake: Lake, damaged: str) -> None:
    """It stays where it is, for a person to put right or to remove."""
    announce(lake.storage, "campaign-a-begins", NOTICE)
    announce(lake.storage, "campaign-b-begins", NOTICE)
    path = "_outbox/due/campaign-a-begins.json"
    lake.storage.replace_bytes(path, damaged.encode())
    lake.publisher().publish(told(lake, "p1", {"t": {D1: ["a"]}}))
    found = deliver(lake.publisher(), receiver := Receiver())
    assert found.sent == ("campaign-b-begins", "p1") == tuple(receiver.sent)
    ((key, why),) = found.failed
    assert key == "campaign-a-begins" and lake.storage.uri(path) in why and "remove the file" in why
    assert lake.storage.exists(path)


@pytest.mark.parametrize("damaged", ["", '{"terms": {"noti', "[]"])
def test_a_notice_whose_plan_is_damaged_waits_and_holds_up_no_other(lake: Lake, damaged: str) -> None:
    """For whom it is, is unknown; once the plan is back, it is sent."""
    plan, campaign = "plan-0123456789abcdef", "campaign-0123456789abcdef"
    keep_plan(lake.storage, plan, damaged)
    for id, of in (("p1", campaign), ("p2", "")):
        request = told(lake, id, {"t": {D1 if of else D2: ["a"]}})
        lake.publisher().publish(request.model_copy(update={"provenance": Provenance(campaign=of)}))
    announce(lake.storage, f"{campaign}-begins", NOTICE)
    found = deliver(lake.publisher(), Receiver())
    assert found.sent == ("p2",) and [key for key, _ in found.failed] == [f"{campaign}-begins", "p1"]
    assert all(lake.storage.uri(f"_plans/{plan}.json") in why for _, why in found.failed)
    lake.storage.replace_bytes(f"_plans/{plan}.json", b'{"asked": {"terms": {"notices": ["ana"]}}}')
    assert [due.recipients for due in due_notices(lake.publisher())] == [("ana",), ("ana",)]


def test_the_same_announcement_is_made_once(lake: Lake) -> None:
    """A step that is repeated after a crash sends nothing again; a key that could leave its folder is refused."""
    assert announce(lake.storage, "campaign-x.start", NOTICE)
    assert not announce(lake.storage, "campaign-x.start", NOTICE)
    deliver(lake.publisher(), Receiver())
    assert not announce(lake.storage, "campaign-x.start", NOTICE)
    assert due_notices(lake.publisher()) == []
    with pytest.raises(InvalidRequest, match="cannot be the key"):
        announce(lake.storage, "../elsewhere", NOTICE)


def test_what_was_announced_first_is_due_first(lake: Lake) -> None:
    """By the time of its file; announcements come before the notices of publications, and equal times by their keys."""
    lake.publisher().publish(told(lake, "a-publication", {"t": {D1: ["a"]}}))
    for key, second in {"d": 1, "c": 2, "b": 2, "e": 0}.items():
        announce(lake.storage, key, NOTICE)
        os.utime(lake.root / f"_outbox/due/{key}.json", (1_000 + second, 1_000 + second))
    assert [due.key for due in due_notices(lake.publisher())] == ["e", "d", "b", "c", "a-publication"]


def test_a_notice_that_two_processes_have_sent_is_marked_once(lake: Lake) -> None:
    """Each place drops the second one; the log has one entry of it, and whoever asks later sends it nowhere."""
    lake.publisher().publish(told(lake, "p1", {"t": {D1: ["a"]}}))
    (due,) = due_notices(lake.publisher())
    assert not is_taken(lake.publisher(), "file", due)
    mark_delivered(lake.publisher(), due)
    entries = lake.publisher().log.head().version
    mark_delivered(lake.publisher(), due)
    assert lake.publisher().log.head().version == entries and delivered_keys(lake.publisher()) == ["p1"]
    assert is_taken(lake.publisher(), "file", due)


def test_a_notice_that_another_process_delivers_meanwhile_is_left_to_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of a campaign and the sensor look at the same moment: the file is listed, and gone when it is read."""
    announce(lake.storage, "campaign-x.start", NOTICE)
    exists, other, mine = Storage.exists, Receiver(), Receiver()

    def then_delivered(storage: Storage, path: str) -> bool:
        found = exists(storage, path)
        monkeypatch.setattr(Storage, "exists", exists)
        deliver(lake.publisher(), other)
        return found

    monkeypatch.setattr(Storage, "exists", then_delivered)
    assert deliver(lake.publisher(), mine).sent == ()
    assert (other.sent, mine.sent) == (["campaign-x.start"], [])


def test_asking_creates_no_lakehouse(lake: Lake) -> None:
    """A mistyped path must not become one."""
    assert not due_notices(lake.publisher()) and not delivered_keys(lake.publisher())
    assert not lake.root.exists()


def test_looking_reads_no_history(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head names what is due: the same few files are read after three publications and after thirteen."""
    read: list[str] = []
    original = Storage.read_bytes

    def counting(storage: Storage, path: str) -> bytes:
        read.append(path)
        return original(storage, path)

    lake.publisher().publish(told(lake, "p1", {"u": {D1: ["a"]}}))
    costs = []
    for entries in (2, 10):
        for number in range(entries):
            lake.publish(f"q{entries}-{number}", {"t": {D1: [f"a{number}"]}})
        publisher = lake.publisher()
        with monkeypatch.context() as patched:
            patched.setattr(Storage, "read_bytes", counting)
            patched.setattr(type(publisher.log), "files", None)
            assert [due.key for due in due_notices(publisher)] == ["p1"]
        costs.append(len(read))
        read.clear()
    assert costs[0] == costs[1]


def test_undoing_a_campaign_is_announced_and_undoing_a_run_is_not(lake: Lake) -> None:
    """People who read that numbers changed must learn that they changed back."""
    lake.publish("plain", {"t": {D1: ["a"]}})
    roll_back(lake.publisher(), "plain", id="undo-plain", steps=())
    assert due_notices(lake.publisher()) == []
    request = told(lake, "cut", {"t": {D1: ["b"]}}).model_copy(
        update={"provenance": Provenance(campaign="campaign-x", launched_by="ana")}
    )
    lake.publisher().publish(request)
    roll_back(lake.publisher(), "cut", id="undo", steps=(), provenance=Provenance(launched_by="bob"))
    _, undone = due_notices(lake.publisher())
    assert undone.key == "undo" and undone.notice.title == f"Undone: {NOTICE.title}"
    assert (undone.notice.approved_by, undone.notice.undo) == ("bob", "backfill rollback undo")
    held = lake.publisher().log.find_prepared("undo")
    assert held and (held[0].publication.provenance.undoes, held[0].publication.provenance.campaign) == (
        "cut",
        "campaign-x",
    )


# ------------------------------------------------------------------ senders


@dataclass
class Server:
    """Answers with ``answers`` in turn (``slow`` never does in time), then with 200; ``bodies`` by key."""

    answers: list[int | str]
    paths: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    """When each was asked, on the clock that only goes forward."""
    credentials: list[str | None] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict)
    url: str = ""


@contextmanager
def serving(*answers: int | str) -> Iterator[Server]:
    state = Server(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = state.answers.pop(0) if state.answers else 200
            key = self.headers["Idempotency-Key"]
            state.keys.append(key)
            state.at.append(time.monotonic())
            state.paths.append(self.path)
            state.credentials.append(self.headers["Authorization"])
            if answer == "slow":
                time.sleep(0.4)
                answer = 200
            if answer == 200:
                state.bodies.setdefault(key, json.loads(body))
            self.send_response(int(answer))
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Quiet."""

    with served(Handler) as url:
        state.url = f"{url}/hook?token=secret"
        yield state


def test_a_web_server_that_fails_redirects_and_sleeps_gets_it_in_the_end(lake: Lake) -> None:
    """500, a redirect, no answer in time although it was taken, then 200: four attempts, one key, one notice."""
    lake.publisher().publish(told(lake, "p1", {"t": {D1: ["a"]}}))
    with serving(500, 302, "slow") as server:
        sender = WebhookSender(server.url, timeout=0.2)
        reasons = [deliver(lake.publisher(), sender).failed[0][1] for _ in range(3)]
        assert deliver(lake.publisher(), sender).sent == ("p1",)
        assert deliver(lake.publisher(), sender).sent == ()
    host = server.url.split("/")[2]
    assert reasons == [f"{host} answered 500", f"{host} answered 302", f"{host} did not answer (timed out)"]
    assert server.keys == ["p1"] * 4
    assert list(server.bodies) == ["p1"] and server.bodies["p1"] == {"key": "p1", **NOTICE.model_dump(mode="json")}


def test_a_name_and_a_password_in_the_address_are_sent_as_such() -> None:
    """As curl does; percent-encoded, as a colon and an at sign of a password have to be."""
    with serving(200, 200) as server:
        WebhookSender(server.url).send(DUE)
        WebhookSender(server.url.replace("://", "://ana:p%40ss%3A1@")).send(DUE)
    assert server.keys == [DUE.key] * 2
    assert server.credentials == [None, "Basic " + b64encode(b"ana:p@ss:1").decode()]


def test_a_server_that_is_not_there_is_named_without_its_secret() -> None:
    """The path and the query of a webhook are its password."""
    with serving() as server:
        pass
    sender = WebhookSender(server.url, timeout=0.5)
    with pytest.raises(NotDelivered) as refused:
        sender.send(DUE)
    assert "did not answer" in str(refused.value)
    assert "secret" not in str(refused.value) + repr(sender)


@pytest.mark.parametrize("url", ["http://a..b/secret", "http://127.0.0.1:99999/secret", "http://127.0.0.1/secret-ü"])
def test_an_address_that_cannot_be_asked_holds_up_no_other_notice(url: str) -> None:
    """Python refuses it before it asks: the sensor `campaigns` would fail, and carry on no campaign."""
    with pytest.raises(NotDelivered, match="did not answer") as refused:
        WebhookSender(url, timeout=0.5).send(DUE)
    assert "secret" not in str(refused.value)


def test_a_file_gets_a_line_and_a_folder_a_file(tmp_path: Path) -> None:
    """A path that ends in a slash is a folder, and is made; a line that a full disk has cut spoils no other."""
    lines = tmp_path / "made" / "notices.jsonl"
    FileSender(lines).send(DUE)
    lines.write_text('{"key": "p')
    for _ in range(2):
        FileSender(lines).send(DUE)
        FileSender(tmp_path).send(DUE)
    cut, *whole = lines.read_text().splitlines()
    assert cut == '{"key": "p' and [json.loads(line)["key"] for line in whole] == ["p1", "p1"]
    outlet(f"file:{tmp_path}/absent/notices/").send(DUE)
    for folder in (tmp_path, tmp_path / "absent" / "notices"):
        assert [path.name for path in folder.glob("*.json")] == ["p1.json"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [("file/", "/file: File exists"), ("file/below/n.jsonl", r"/file/below/n.jsonl \({}/file/below\): Not a dir")],
)
def test_what_cannot_be_written_is_named(tmp_path: Path, setting: str, said: str) -> None:
    """A folder above it, if that is what is wrong: it is no delivery."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotDelivered, match=f"{tmp_path}{said.format(tmp_path)}"):
        outlet(f"file:{tmp_path}/{setting}").send(DUE)


def outlet(setting: str, written: list[str] | None = None) -> Outlet:
    """What the one route of ``setting`` leads to."""
    (route,) = parse_routes(setting)
    return sender_of((route,), None if written is None else written.append).outlets[route.name]


def test_the_outlet_is_chosen_by_its_setting(tmp_path: Path) -> None:
    written: list[str] = []
    outlet("log", written).send(DUE)
    assert written == ["[p1] March is right now\n  revenue -0.4 %\n  Reports: u\n  To undo: backfill rollback p1"]
    assert outlet(f"file:{tmp_path}/n") == FileSender(tmp_path / "n")
    for kind in (WebhookSender, SlackSender, AlertmanagerSender):
        assert outlet(f"{kind.__name__.removesuffix('Sender').lower()}:https://h/x") == kind("https://h/x")


def test_a_notice_reaches_standard_error_without_any_handler(capsys: pytest.CaptureFixture[str]) -> None:
    """Python's own last resort writes warnings."""
    logger = logging.Logger("notices")  # noqa: LOG001 - of its own: pytest listens to all others
    LogSender(log_writer(logger, logging.WARNING)).send(DUE)
    assert "[p1] March is right now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("handler", "level"),
    [(logging.NullHandler(), logging.NOTSET), (logging.StreamHandler(), logging.ERROR), (None, logging.NOTSET)],
    ids=["null handler", "level of the logger", "last resort"],
)
def test_what_a_logger_would_drop_is_not_delivered(handler: logging.Handler | None, level: int) -> None:
    """It stays due; a notice that was written into nothing would count as delivered."""
    logger = logging.Logger("notices", level)  # noqa: LOG001
    if handler is not None:
        logger.addHandler(handler)
    written = logging.INFO if handler is None else logging.WARNING
    with pytest.raises(NotDelivered, match="no handler of the logger notices writes what is of level"):
        LogSender(log_writer(logger, written)).send(DUE)
