"""How a notice looks: text, JSON, Slack, Alertmanager, mail; shortened beside others. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from itertools import accumulate
from typing import Any

from backfill_assets.lakehouse.records import Detail, Notice
from backfill_assets.notice_routes import SEVERITIES, MailAddresses, Severity
from backfill_assets.publish.due_notice import DueNotice

OVER = "Over: "
_FIRES = timedelta(days=365)
"""Without an end, alerts would expire in minutes."""
_MOST_TITLE, _MOST_TEXT, _MOST_FIELD, _MOST_FIELDS, _MOST_BLOCKS = 150, 3000, 2000, 10, 50
"""Slack's limits: header, section, field, fields, blocks."""
_MOST_PLAIN, _MOST_LINK = 4000, 1000
_WEB = ("http://", "https://")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def headline(notice: Notice) -> str:
    if notice.resolved:
        return notice.title if notice.title.startswith(OVER) else f"{OVER}{notice.title}"
    return notice.title if notice.severity == "info" else f"{notice.severity.capitalize()}: {notice.title}"


# ------------------------------------------------------------------ text and JSON


def as_json(due: DueNotice) -> dict[str, Any]:
    recipients = {"recipients": list(due.recipients)} if due.recipients else {}
    damage = {"damage": due.damage} if due.damage else {}
    return {"key": due.key, **due.notice.model_dump(mode="json"), **recipients, **damage}


def notice_lines(notice: Notice, recipients: Sequence[str] = ()) -> list[str]:
    return [notice.title, *_beside_title(notice, recipients)]


def _beside_title(notice: Notice, recipients: Sequence[str]) -> Iterator[str]:
    yield from _sentences(notice, recipients)
    yield from map(_fact_line, notice.facts)
    yield from _steps(notice)


def _sentences(notice: Notice, recipients: Sequence[str]) -> Iterator[str]:
    yield from notice.lines
    if recipients:
        yield f"For {', '.join(recipients)}"
    if notice.reports:
        yield f"Reports: {', '.join(notice.reports)}"
    if notice.approved_by:
        yield f"Approved by {notice.approved_by}"


def _fact_line(fact: Detail) -> str:
    words = f"{fact.words} ({fact.link})" if fact.words and fact.link else fact.words or fact.link
    return f"{fact.label}: {words}"


def _steps(notice: Notice) -> Iterator[str]:
    if notice.to_do:
        yield f"To do: {notice.to_do}"
    if notice.undo:
        yield f"To undo: {notice.undo}"


def _link(notice: Notice) -> str:
    return next((fact.link for fact in notice.facts if fact.link), "")


def message_lines(due: DueNotice) -> list[str]:
    if not due.together:
        return [f"[{due.key}] {headline(due.notice)}", *_beside_title(due.notice, due.recipients)]
    return [headline(due.notice), *(line for part in due.parts for line in _part_lines(part))]


def _part_lines(part: DueNotice) -> Iterator[str]:
    yield f"[{part.key}] {headline(part.notice)}"
    yield from (f"  {line}" for line in _steps(part.notice))
    if link := _link(part.notice):
        yield f"  See {link}"


def text_block(due: DueNotice) -> str:
    return "\n  ".join(message_lines(due))


# ------------------------------------------------------------------ Slack


def slack_body(due: DueNotice) -> dict[str, Any]:
    """``text`` is for notifications, and services without Slack's blocks."""
    title = headline(due.notice)
    blocks = [{"type": "header", "text": {"type": "plain_text", "text": _cut(title, _MOST_TITLE), "emoji": False}}]
    blocks += _slack_group(due) if due.together else _slack_single(due)
    return {"text": _escaped("\n".join(message_lines(due)), _MOST_PLAIN), "blocks": blocks[:_MOST_BLOCKS]}


def _slack_single(due: DueNotice) -> Iterator[dict[str, Any]]:
    notice = due.notice
    if len(headline(notice)) > _MOST_TITLE:
        yield _section(_escaped(headline(notice), _MOST_TEXT))
    if lines := "\n".join(_sentences(notice, due.recipients)).strip():
        yield _section(_escaped(lines, _MOST_TEXT))
    fields = [_mrkdwn(_slack_fact(fact)) for fact in notice.facts]
    for start in range(0, len(fields), _MOST_FIELDS):
        yield {"type": "section", "fields": fields[start : start + _MOST_FIELDS]}
    for label, command in (("To do", notice.to_do), ("To undo", notice.undo)):
        if command.strip():
            yield _section(f"*{label}*\n{_code(command, _MOST_FIELD)}")
    about = [notice.severity, *filter(None, (notice.dataset,)), due.key]
    yield {"type": "context", "elements": [_mrkdwn(_escaped(each, _MOST_FIELD)) for each in about]}


def _slack_group(due: DueNotice) -> Iterator[dict[str, Any]]:
    sections: list[list[str]] = [[]]
    for part in map(_slack_part, due.parts):
        if sum(map(len, sections[-1])) + len(part) + 2 * len(sections[-1]) > _MOST_TEXT:
            sections.append([])
        sections[-1].append(part)
    shown, left = sections[: _MOST_BLOCKS - 2], sections[_MOST_BLOCKS - 2 :]
    yield from (_section("\n\n".join(parts)) for parts in shown)
    if more := sum(map(len, left)):
        yield _section(f"and {more} more: {_code('backfill incident list', _MOST_TEXT)}")


def _slack_part(part: DueNotice) -> str:
    notice, steps = part.notice, (("To do", part.notice.to_do), ("To undo", part.notice.undo))
    lines = [f"*{_escaped(headline(notice), _MOST_TEXT // 4)}*"]
    lines += [f"{label}: {_code(words, _MOST_TEXT // 6)}" for label, words in steps if words]
    lines += [_slack_link(_link(notice), "more")] if _link(notice) else []
    return "\n".join([*lines, f"`{part.key}`"])


def _slack_fact(fact: Detail) -> str:
    label, words = _escaped(fact.label, _MOST_FIELD // 4), _escaped(fact.words, _MOST_FIELD // 4)
    return f"*{label}*\n{_slack_link(fact.link, words or 'more') if fact.link else words}"


def _slack_link(link: str, words: str) -> str:
    """Slack links whole addresses only."""
    address = link.replace("|", "%7C").replace(">", "%3E").replace("<", "%3C").replace("&", "&amp;")
    if len(address) > _MOST_LINK:
        return words
    return f"<{address}|{words}>" if link.startswith(_WEB) else f"{words} ({address})"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text}


def _code(command: str, most: int) -> str:
    return f"```{_escaped(command.replace('`', chr(39)), most - 6)}```"


def _escaped(text: str, most: int) -> str:
    """``most`` counts characters after escaping; no escape is cut."""
    pieces = [character.translate(_ESCAPES) for character in text[: most + 1]]
    ends = list(accumulate(map(len, pieces)))
    if not ends or ends[-1] <= most:
        return "".join(pieces)
    return "".join(pieces[: bisect_right(ends, most - 1)]) + "…"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ------------------------------------------------------------------ Alertmanager


def alerts(due: DueNotice, now: datetime) -> list[dict[str, Any]]:
    """One alert a notice; of alerts with the same labels, the newest counts.

    An incident fires until a notice ends it; other alerts end by the Alertmanager's ``resolve_timeout``.
    """
    found = (alert for part in due.parts for alert in _alerts(part, now))
    return list({tuple(sorted(alert["labels"].items())): alert for alert in found}.values())


def _alerts(due: DueNotice, now: datetime) -> Iterator[dict[str, Any]]:
    notice, told = due.notice, due.before
    began = min(told.at, now) if told and told.at else now
    if notice.resolved:
        for severity in (told.severities if told else ()) or SEVERITIES:
            yield _alert(due, severity, began, now)
        return
    for severity in told.severities if told else ():
        if severity != notice.severity:
            yield _alert(due, severity, began, now)
    yield _alert(due, notice.severity, began, now + _FIRES if notice.incident else None)


def _alert(due: DueNotice, severity: Severity, starts: datetime, ends: datetime | None) -> dict[str, Any]:
    notice = due.notice
    about = {"alertname": "BackfillNotice", "notice": due.key}
    if notice.incident:
        about = {"alertname": "BackfillIncident", "incident": notice.incident}
    words = {
        "summary": notice.title,
        "description": "\n".join(_sentences(notice, due.recipients)),
        "facts": "\n".join(map(_fact_line, notice.facts)),
        "to_do": notice.to_do,
        "undo": notice.undo,
    }
    link = _link(notice) if _link(notice).startswith(_WEB) else ""
    return {
        "labels": {**about, **({"dataset": notice.dataset} if notice.dataset else {}), "severity": severity},
        "annotations": {name: text for name, text in words.items() if text},
        "startsAt": starts.isoformat(),
        **({"endsAt": ends.isoformat()} if ends else {}),
        **({"generatorURL": link} if link else {}),
    }


# ------------------------------------------------------------------ mail


def mail(due: DueNotice, addresses: MailAddresses, now: datetime) -> EmailMessage:
    found, domain = EmailMessage(), addresses.sender.rpartition("@")[2]
    found["From"], found["To"] = addresses.sender, ", ".join(addresses.to)
    found["Subject"] = _cut(" ".join(headline(due.notice).split()), 200)
    found["Date"], found["Message-ID"] = format_datetime(now), f"<{due.key}@{domain}>"
    if due.firsts:
        found["In-Reply-To"] = found["References"] = " ".join(f"<{key}@{domain}>" for key in due.firsts)
    if due.notice.severity == "critical":
        found["Importance"] = "high"
    found["Auto-Submitted"], found["X-Backfill-Severity"] = "auto-generated", due.notice.severity
    first, *others = message_lines(due)
    found.set_content("\n".join([first, "", *others]) + "\n")
    return found
