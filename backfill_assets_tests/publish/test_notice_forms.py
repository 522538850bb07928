"""How one incident is told in each place, literally, when it begins and when it is over; what Slack takes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.lakehouse.records import Detail, Notice
from backfill_assets.notice_routes import SEVERITIES, MailAddresses
from backfill_assets.publish import notice_forms as forms
from backfill_assets.publish.due_notice import DueNotice, in_one_message
from backfill_assets.publish.endings import Told
from backfill_assets_tests.strategies.how_many import drawn

ID = "foreign-write-fact-daily-revenue-20170304-1"
PAGE = "https://dagster.example/assets/incidents?a=1&b=2"
BEGAN = DueNotice(
    f"{ID}-opened",
    Notice(
        title="fact_daily_revenue 2017-03-04: foreign write",
        lines=("Another writer has put 12 rows into a published day.",),
        severity="critical",
        dataset="sales",
        incident=ID,
        to_do="backfill plan fact_daily_revenue --days 2017-03-04",
        facts=(
            Detail(label="Since", words="2017-03-05 03:10 UTC"),
            Detail(label="Affected", words="report_department_revenue, 1,234.50 EUR"),
            Detail(label="Wrote", words="Spark <4.2>, WRITE at 03:09 UTC"),
            Detail(label="Page", words="the incident", link=PAGE),
        ),
    ),
    with_publication=False,
)
NOW = datetime(2017, 3, 5, 3, 11, tzinfo=UTC)
TOLD = Told().and_now(BEGAN.key, "critical", BEGAN.key, NOW)
ENDED = DueNotice(
    f"{ID}-closed",
    Notice(
        title="Over: fact_daily_revenue 2017-03-04: foreign write",
        lines=("repaired by repair-1: the watchdog read it again",),
        dataset="sales",
        incident=ID,
        resolved=True,
    ),
    with_publication=False,
    before=TOLD,
)
TO = MailAddresses.parse("smtp://relay.example/?from=backfill@example.com&to=ana@example.com,on-call@example.com")


def test_as_text() -> None:
    """One readable block."""
    assert forms.text_block(BEGAN) == (
        f"[{BEGAN.key}] Critical: fact_daily_revenue 2017-03-04: foreign write\n"
        "  Another writer has put 12 rows into a published day.\n"
        "  Since: 2017-03-05 03:10 UTC\n"
        "  Affected: report_department_revenue, 1,234.50 EUR\n"
        "  Wrote: Spark <4.2>, WRITE at 03:09 UTC\n"
        f"  Page: the incident ({PAGE})\n"
        "  To do: backfill plan fact_daily_revenue --days 2017-03-04"
    )
    assert forms.text_block(ENDED) == (
        f"[{ENDED.key}] Over: fact_daily_revenue 2017-03-04: foreign write\n"
        "  repaired by repair-1: the watchdog read it again"
    )


def test_for_slack() -> None:
    """Facts are fields, the command is code, links are links; no emoji, and nothing that Slack reads as its own."""
    header, words, facts, to_do, context = forms.slack_body(BEGAN)["blocks"]
    title = {"type": "plain_text", "text": "Critical: fact_daily_revenue 2017-03-04: foreign write", "emoji": False}
    assert header == {"type": "header", "text": title}
    assert words["text"] == {"type": "mrkdwn", "text": "Another writer has put 12 rows into a published day."}
    assert [each["text"] for each in facts["fields"]] == [
        "*Since*\n2017-03-05 03:10 UTC",
        "*Affected*\nreport_department_revenue, 1,234.50 EUR",
        "*Wrote*\nSpark &lt;4.2&gt;, WRITE at 03:09 UTC",
        "*Page*\n<https://dagster.example/assets/incidents?a=1&amp;b=2|the incident>",
    ]
    assert to_do["text"]["text"] == "*To do*\n```backfill plan fact_daily_revenue --days 2017-03-04```"
    assert [each["text"] for each in context["elements"]] == ["critical", "sales", BEGAN.key]
    assert forms.slack_body(ENDED)["blocks"][0]["text"]["text"].startswith("Over: fact_daily_revenue")
    text = forms.slack_body(BEGAN)["text"]
    assert text.startswith(f"[{BEGAN.key}] Critical: ") and "Spark &lt;4.2&gt;" in text


def test_for_an_alertmanager() -> None:
    """The same labels until the end, by which it ends; annotations for people; the link leads back."""
    (began,) = forms.alerts(BEGAN, NOW)
    labels = {"alertname": "BackfillIncident", "incident": ID, "dataset": "sales", "severity": "critical"}
    assert began == {
        "labels": labels,
        "annotations": {
            "summary": "fact_daily_revenue 2017-03-04: foreign write",
            "description": "Another writer has put 12 rows into a published day.",
            "facts": "Since: 2017-03-05 03:10 UTC\nAffected: report_department_revenue, 1,234.50 EUR\n"
            f"Wrote: Spark <4.2>, WRITE at 03:09 UTC\nPage: the incident ({PAGE})",
            "to_do": "backfill plan fact_daily_revenue --days 2017-03-04",
        },
        "startsAt": NOW.isoformat(),
        "endsAt": (NOW + timedelta(days=365)).isoformat(),
        "generatorURL": PAGE,
    }
    later = NOW + timedelta(hours=1)
    (ended,) = forms.alerts(ENDED, later)
    assert (ended["labels"], ended["startsAt"], ended["endsAt"]) == (labels, NOW.isoformat(), later.isoformat())


def test_one_alert_of_an_incident_fires_at_a_time() -> None:
    """One that becomes critical takes the place of the warning; of one message the newest word counts."""
    worse = DueNotice("k2", BEGAN.notice, before=Told().and_now("k1", "warning", "k1", NOW))
    later = NOW + timedelta(hours=1)
    fires = {each["labels"]["severity"]: each["endsAt"] > later.isoformat() for each in forms.alerts(worse, later)}
    assert fires == {"warning": False, "critical": True}
    both = in_one_message([BEGAN, ENDED])
    (alert,) = forms.alerts(both, later)
    assert alert["endsAt"] == later.isoformat(), "it is over"
    unknown = DueNotice("k3", ENDED.notice)
    assert [each["labels"]["severity"] for each in forms.alerts(unknown, later)] == list(SEVERITIES)
    (plain,) = forms.alerts(DueNotice("k4", Notice(title="March is rebuilt")), NOW)
    assert plain["labels"] == {"alertname": "BackfillNotice", "notice": "k4", "severity": "info"}
    assert "endsAt" not in plain


def test_as_mail() -> None:
    """The end answers the beginning, by its id."""
    began, ended = forms.mail(BEGAN, TO, NOW), forms.mail(ENDED, TO, NOW + timedelta(hours=1))
    assert began["Subject"] == "Critical: fact_daily_revenue 2017-03-04: foreign write"
    assert began["To"] == "ana@example.com, on-call@example.com" and began["Importance"] == "high"
    assert began["Message-ID"] == f"<{BEGAN.key}@example.com>" and began["In-Reply-To"] is None
    assert ended["In-Reply-To"] == ended["References"] == began["Message-ID"] != ended["Message-ID"]
    assert ended["Subject"].startswith("Over: ") and ended["Importance"] is None
    first, blank, *others = began.get_content().splitlines()
    assert (first, blank) == (forms.message_lines(BEGAN)[0], "") and others == forms.message_lines(BEGAN)[1:]


def test_a_title_of_several_lines_is_no_header_of_its_own() -> None:
    """Nor is a mail refused for it."""
    notice = Notice(title="a\r\nBcc: eve@example.com\nb" * 20)
    found = forms.mail(DueNotice("k", notice), TO, NOW)
    assert found["Bcc"] is None and len(found["Subject"]) <= 200


def test_several_keep_title_to_do_and_link() -> None:
    """In text and in Slack; what is over comes last."""
    group = in_one_message([ENDED, BEGAN, DueNotice("k", BEGAN.notice.model_copy(update={"facts": ()}))])
    assert forms.message_lines(group) == [
        "Critical: 3 notices about sales, 1 over",
        f"[{BEGAN.key}] Critical: fact_daily_revenue 2017-03-04: foreign write",
        "  To do: backfill plan fact_daily_revenue --days 2017-03-04",
        f"  See {PAGE}",
        "[k] Critical: fact_daily_revenue 2017-03-04: foreign write",
        "  To do: backfill plan fact_daily_revenue --days 2017-03-04",
        f"[{ENDED.key}] Over: fact_daily_revenue 2017-03-04: foreign write",
    ]
    (section,) = forms.slack_body(group)["blocks"][1:]
    assert section["text"]["text"].startswith(
        "*Critical: fact_daily_revenue 2017-03-04: foreign write*\n"
        "To do: ```backfill plan fact_daily_revenue --days 2017-03-04```\n"
        f"<https://dagster.example/assets/incidents?a=1&amp;b=2|more>\n`{BEGAN.key}`\n\n*Critical: "
    )


_TEXT = st.builds(str.__mul__, st.text(st.sampled_from("aä&<>|`\n *_"), max_size=8), st.sampled_from((1, 20, 500)))
_LINKS = st.sampled_from(("", "/a|b", "https://h/?a|<b>&c", "https://h/" + "a" * 3000))
_NOTICES = st.builds(
    Notice,
    title=_TEXT.map("a{}".format),
    lines=st.lists(_TEXT, max_size=3).map(tuple),
    severity=st.sampled_from(SEVERITIES),
    dataset=st.just("sales"),
    to_do=_TEXT,
    undo=_TEXT,
    facts=st.lists(st.builds(Detail, label=_TEXT, words=_TEXT, link=_LINKS), max_size=12).map(tuple),
)


@given(notices=st.lists(_NOTICES, min_size=1, max_size=3).map(lambda few: few * (1 if len(few) == 1 else 40)))
@settings(max_examples=drawn(15))
def test_slack_takes_every_message(notices: list[Notice]) -> None:
    """Its limits: a message with a block that is too long is refused as a whole, for ever."""
    body = forms.slack_body(in_one_message([DueNotice(f"k{n}", each) for n, each in enumerate(notices)]))
    assert 1 <= len(body["blocks"]) <= 50 and len(body["text"]) <= 40_000
    for block in body["blocks"]:
        match block["type"]:
            case "header":
                assert 1 <= len(block["text"]["text"]) <= 150
            case "section":
                assert 1 <= len(block.get("text", {"text": "-"})["text"].strip()) <= 3000
                assert len(block.get("fields", ())) <= 10
        for field in (*block.get("fields", ()), *block.get("elements", ())):
            assert 1 <= len(field["text"].strip()) <= 2000
    json.dumps(body)
