"""The asset ``incidents``, and the job by which a person acknowledges or closes one."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
import enum
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dagster as dg
import yaml
from pydantic import Field

from backfill_assets import clock
from backfill_assets.answers.incidents import WORDS, acknowledge, close, sentence
from backfill_assets.answers.to_do import fitting
from backfill_assets.defs.campaigns.pages import LOCATION
from backfill_assets.defs.own_lakehouse import lakehouse_job
from backfill_assets.defs.resources import Backfill, person_behind
from backfill_assets.defs.specs import BEGIN
from backfill_assets.defs.start_here import keep_page
from backfill_assets.lakehouse.records import Detail
from backfill_assets.report.answer import shown
from backfill_assets.report.markdown import markdown, with_commands
from backfill_assets.text import escape_markdown, format_count
from backfill_assets.ui_addresses import launchpad_page
from backfill_assets.upkeep.effect import PAGE, looked_after
from backfill_assets.upkeep.incidents import Incident, IncidentBook

INCIDENTS = JOB = "incidents"
STEP = "say"
_SHOWN_CLOSED, _MOST_PAGES = timedelta(days=7), 12
_MOST_HAPPENED, _MOST_DAYS = 8, 10
_HOURS = "4h"


class Word(enum.Enum):
    ACKNOWLEDGE = "acknowledge"
    CLOSE = "close"


class IncidentConfig(dg.Config):
    """Which incident, and what is said of it."""

    incident: str = Field(description="Its id, as backfill incident list and the asset incidents have it.")
    action: Word = Field(description="ACKNOWLEDGE: somebody looks after it. CLOSE: it is settled.")
    reason: str = Field(default="", description="What others read beside your name; to close one, it is needed.")
    until: str = Field(
        default="", description="To acknowledge it for so long: 30m, 4h, 2d. Empty: until something else is seen of it."
    )


def incident_job() -> dg.JobDefinition:
    return lakehouse_job(
        JOB,
        STEP,
        "Says of an incident who looks after it (ACKNOWLEDGE), or that it is settled (CLOSE). The page of the "
        "asset incidents opens it filled in. Give the run the tag user with your name: it is what others read.",
        IncidentConfig,
        _say,
    )


def _say(context: dg.OpExecutionContext, config: IncidentConfig, backfill: Backfill) -> None:
    book, by, now = IncidentBook(backfill.storage), str(person_behind(context.run.tags)), clock.now()
    if config.action is Word.ACKNOWLEDGE:
        said = acknowledge(book, config.incident, by, now, config.reason, config.until)
    else:
        said = close(book, config.incident, by, now, config.reason)
    context.log.info(markdown(said))


# ------------------------------------------------------------------ the page


def incidents_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        INCIDENTS,
        group_name=BEGIN,
        kinds={"deltalake"},
        description="What went wrong with published days: the cause, which reports are affected, what the sensor "
        "repairs tried, what its check says now, and what needs a person. Metadata below has each open incident, "
        f"and those of the last week. The job {JOB} acknowledges and closes.",
    )


def show_incidents(context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
    book, origin = IncidentBook(backfill.storage), context.code_location_origin
    closed = book.closed_since(clock.now() - _SHOWN_CLOSED)
    metadata = incidents_metadata(book.open(), closed, origin.location_name if origin else LOCATION)
    return "", keep_page(context.instance, INCIDENTS, metadata, seen)


def incidents_metadata(
    open_: list[Incident], closed: list[Incident], location: str = LOCATION
) -> dict[str, dg.MetadataValue]:
    """Content of the page; the UI shows 1,000 characters of Markdown in place. Pure."""
    first = sorted(open_, key=lambda each: each.state != "person")[:_MOST_PAGES]
    pages: dict[str, str] = {}
    for each in first:
        pages[each.id] = _in_short(each)
        pages[f"{each.id}: say"] = _buttons(each.id, location)
        pages[f"{each.id}: in full"] = "\n\n".join(_in_full(each))
    return {
        "open": dg.MetadataValue.int(len(open_)),
        "for people": dg.MetadataValue.int(sum(each.state == "person" for each in open_)),
        "closed in a week": dg.MetadataValue.int(len(closed)),
        "all": dg.MetadataValue.md(fitting([_line(each) for each in (*first, *reversed(closed))], "\n") or "None."),
        **{name: dg.MetadataValue.md(text) for name, text in pages.items()},
    }


def _line(incident: Incident) -> str:
    looks = looked_after(incident)
    state = " ".join(filter(None, (WORDS.get(incident.state, incident.state), looks and f"(looked after by {looks})")))
    days = f"{incident.table} {incident.first_ranges}: {incident.cause}"
    more = f": {incident.outcome}" if incident.outcome else ""
    return f"- **{escape_markdown(state)}**: {escape_markdown(f'{days}{more}')}"


def _in_short(incident: Incident) -> str:
    to_do = [f"**To do:** {with_commands(incident.next_step)}"] if incident.next_step else []
    told = (each for each in incident.facts if each.label != PAGE and each.words != incident.words)
    facts = [f"**{each.label}:** {_linked(each)}" for each in told]
    return fitting([f"**{escape_markdown(sentence(incident))}**", *to_do, *facts])


def _in_full(incident: Incident) -> Iterator[str]:
    yield from (f"**{each.label}**: {_linked(each)}" for each in incident.facts if each.label != PAGE)
    happened = incident.history[-_MOST_HAPPENED:]
    yield from (f"{shown(each.at)}: {escape_markdown(each.words)}" for each in happened)
    days = incident.days[:_MOST_DAYS]
    held = [(day, incident.before.get(day, ""), incident.after.get(day, "")) for day in days]
    yield from (
        f"{day}: {escape_markdown(' -> '.join(filter(None, (before, after))))}" for day, before, after in held if before
    )
    if more := len(incident.days) - len(days):
        yield f"and {format_count(more, 'more day')}"


def _linked(fact: Detail) -> str:
    words = escape_markdown(fact.words)
    return f"[{words}]({fact.link})" if fact.link else words


def _buttons(id: str, location: str) -> str:
    """Links that open a filled launchpad: open-source Dagster has no custom buttons."""
    looks = launchpad(location, id, Word.ACKNOWLEDGE, until=_HOURS, reason="")
    settled = launchpad(location, id, Word.CLOSE, reason="")
    how = "*Launch Run* there says so; give the run the tag `user` with your name."
    return f"[Look after it for {_HOURS}]({looks}) or [close it with a reason]({settled}). {how}"


def launchpad(location: str, id: str, word: Word, **more: str) -> str:
    config = {"ops": {STEP: {"config": {"incident": id, "action": word.name, **more}}}}
    return launchpad_page(location, JOB, {"config": yaml.safe_dump(config, sort_keys=False)})
