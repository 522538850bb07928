"""What main and timelines hold when one thing is done after the other, in plain dicts. Pure.

A ``Deed`` takes a model to the next one, and says whether it is done or refused. Rows are computed by the functions
that the transforms use; when days are computed, from what, and what a timeline reads is modelled here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from backfill_assets.days import Cadence
from backfill_assets_tests.simulator.arrow_engine import fact_names, report_names

Made = tuple[str, tuple[tuple[date, tuple[str, ...] | None], ...]]
"""The version of the logic, and the rows of each input day: None for one that was never published."""
DONE, REFUSED, EITHER = "done", "refused", "either"


@dataclass(frozen=True)
class Value:
    """What a day holds; ``token`` is of the deed that staged it: equal ones are the same files."""

    rows: tuple[str, ...]
    made: Made
    token: int

    @property
    def version(self) -> str:
        return self.made[0]


Days = Mapping[date, Value]
Tables = Mapping[str, Days]
Images = Mapping[str, Mapping[date, Value | None]]
"""By table and day; None for a day that is not published."""


@dataclass(frozen=True)
class Published:
    """One publication: what its days held before and after, and main right after it."""

    deed: int
    before: Images
    after: Images
    main: Tables
    epoch: int


@dataclass(frozen=True)
class Line:
    """A timeline: its own days, what the others read through to, and what it was rewound for."""

    days: Images
    base: Tables
    targets: tuple[str, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    moment: Tables | None = None
    """What was published at the moment that it was rewound to."""

    @property
    def tables(self) -> Tables:
        return {table: _laid_over(self.base.get(table, {}), self.days.get(table, {})) for table in self.base}

    @property
    def stale(self) -> dict[str, set[date]]:
        """The days that were computed from others than it shows: its own, and those that read one of its own."""
        shown = self.tables
        changed = {
            day for day, own in self.days.get("fact", {}).items() if _rows(own) != _rows(self.base["fact"].get(day))
        }
        days = {
            "fact": set(self.days.get("fact", ())),
            "report": {*self.days.get("report", ()), *map(Cadence.WEEKLY.start, changed)},
        }
        found = {
            table: {
                day for day in known if day in shown[table] and shown[table][day].made[1] != _inputs(shown, table, day)
            }
            for table, known in days.items()
        }
        return {table: stale for table, stale in found.items() if stale}


@dataclass(frozen=True)
class Model:
    """The lakehouse as a plain program would keep it."""

    main: Tables = field(default_factory=lambda: {"raw": {}, "fact": {}, "report": {}})
    published: tuple[Published, ...] = ()
    lines: Mapping[str, Line] = field(default_factory=dict)
    epoch: int = 0
    raws: tuple[Days, ...] = ({},)
    """Raw after each time that rows arrived."""

    def raw_now(self, day: date) -> tuple[str, ...]:
        return self.main["raw"][day].rows

    def publish(self, deed: int, after: Images) -> Model:
        """Main with the days of ``after`` in place of its own, as one publication."""
        before = {table: {day: self.main[table].get(day) for day in days} for table, days in after.items()}
        main = {table: _laid_over(days, after.get(table, {})) for table, days in self.main.items()}
        made = Published(deed, before, after, main, self.epoch)
        return replace(self, main=main, published=(*self.published, made))


def _inputs(shown: Tables, table: str, day: date) -> tuple[tuple[date, tuple[str, ...] | None], ...]:
    """What a day would be computed from."""
    if table == "fact":
        return ((day, _rows(shown["raw"].get(day))),)
    week = [day + timedelta(days=number) for number in range(7)]
    return tuple((each, _rows(shown["fact"].get(each))) for each in week)


def _laid_over(days: Days, over: Mapping[date, Value | None]) -> Days:
    both = {**days, **over}
    return {day: value for day, value in sorted(both.items()) if value is not None}


Result = tuple[Model, str]
RawOf = Mapping[date, tuple[str, ...]]
Deed = Callable[[Model, RawOf, Model], Result]
"""From a model, raw as the deed has read it, and the model that it looked at first, to the next one and the outcome."""


def raw_choices(model: Model, since: int) -> Iterator[RawOf]:
    """Raw as a deed may have read it that began when rows had arrived ``since`` times: each day as of then or later.

    Rows that arrive while days are staged do not keep them from being published.
    """
    days = sorted(model.main["raw"])
    seen = [tuple({raws[day].rows: None for raws in model.raws[since:] if day in raws}) for day in days]
    for chosen in itertools.product(*seen):
        yield dict(zip(days, chosen, strict=True))


# ---------------------------------------------------------------- main


def land(deed: int, day: date, names: tuple[str, ...]) -> Deed:
    def landed(model: Model, _: RawOf, __: Model) -> Result:
        before = model.main["raw"].get(day)
        rows = tuple(sorted((*(before.rows if before else ()), *names)))
        found = model.publish(deed, {"raw": {day: Value(rows, ("", ()), deed)}})
        return replace(found, raws=(*model.raws, found.main["raw"])), DONE

    return landed


def run_fact(deed: int, days: Iterable[date], version: str) -> Deed:
    """A day that was unchanged when it looked is left as it is, whoever publishes it meanwhile."""
    asked = tuple(days)

    def ran(model: Model, raw: RawOf, planned: Model) -> Result:
        looked_at = planned.main["fact"]
        computed = _facts(deed, asked, version, raw)
        changed = {day: value for day, value in computed.items() if value and not _same(looked_at.get(day), value)}
        return _publish_changed(model, deed, {"fact": changed}), DONE

    return ran


def run_report(deed: int, weeks: Iterable[date]) -> Deed:
    asked = tuple(weeks)

    def ran(model: Model, _: RawOf, __: Model) -> Result:
        computed = {week: _report(deed, week, model.main["fact"]) for week in asked}
        if None in computed.values():
            return model, REFUSED
        return _publish_changed(model, deed, {"report": computed}), DONE

    return ran


def _facts(deed: int, days: Iterable[date], version: str, raw: RawOf) -> dict[date, Value | None]:
    return {day: Value(fact_names(version, raw[day]), (version, ((day, raw[day]),)), deed) for day in days}


def _report(deed: int, week: date, facts: Days) -> Value | None:
    """None if no day of the week is published: there is nothing to compute it from."""
    inputs = _inputs({"fact": facts}, "report", week)
    if all(rows is None for _, rows in inputs):
        return None
    return Value(report_names(name for _, rows in inputs for name in rows or ()), ("v1", inputs), deed)


def _changed(now: Tables, computed: Images) -> dict[str, dict[date, Value | None]]:
    """The days that are not as they are now from the same inputs by the same version."""
    changed: dict[str, dict[date, Value | None]] = {
        table: {day: value for day, value in days.items() if value and not _same(now[table].get(day), value)}
        for table, days in computed.items()
    }
    return {table: days for table, days in changed.items() if days}


def _same(value: Value | None, other: Value) -> bool:
    return value is not None and value.made == other.made


def _publish_changed(model: Model, deed: int, computed: Images) -> Model:
    changed = _changed(model.main, computed)
    return model.publish(deed, changed) if changed else model


def roll_back(deed: int, which: int) -> Deed:
    """Undo the publication with the number ``which``."""

    def undone(model: Model, _: RawOf, __: Model) -> Result:
        target = model.published[which]
        now = {(table, day): model.main[table].get(day) for table, days in target.after.items() for day in days}
        is_ours = all(_token(now[table, day]) == _token(target.after[table][day]) for table, day in now)
        if not is_ours or model.epoch > target.epoch or _is_torn(model, target.before):
            return model, REFUSED
        return model.publish(deed, target.before), DONE

    return undone


def _is_torn(model: Model, back: Images) -> bool:
    """Would a day come back that was made of something else than main has then? Raw may have gained rows since."""
    after = {table: _laid_over(days, back.get(table, {})) for table, days in model.main.items()}
    return any(
        value is not None and _is_made_of_other(model, back, after, table, day, value)
        for table, days in back.items()
        for day, value in days.items()
    )


def _is_made_of_other(model: Model, back: Images, after: Tables, table: str, day: date, value: Value) -> bool:
    reads = {"fact": "raw", "report": "fact"}[table]
    shown = model.main[table].get(day)
    brings_inputs = any(input_day in back.get(reads, {}) for input_day, _ in value.made[1])
    if shown is not None and (shown.rows, shown.made) == (value.rows, value.made) and not brings_inputs:
        return False
    now = {input_day: after[reads].get(input_day) for input_day, _ in value.made[1]}
    rows = {input_day: found.rows if found else None for input_day, found in now.items()}
    if table == "fact":
        return any(not set(made or ()) <= set(rows[input_day] or ()) for input_day, made in value.made[1])
    return any(made != rows[input_day] for input_day, made in value.made[1])


def _token(value: Value | None) -> int | None:
    return value.token if value else None


def days_pass(model: Model, _: RawOf, __: Model) -> Result:
    return replace(model, epoch=model.epoch + 1), DONE


def nothing(model: Model, _: RawOf, __: Model) -> Result:
    """Reclaiming changes nothing that anyone reads."""
    return model, DONE


# ----------------------------------------------------------- timelines


def rewind(name: str, target: str, which: int, *, before: bool, days: tuple[date, ...] | None) -> Deed:
    """To the publication with the number ``which``, or to the one before it."""

    def rewound(model: Model, _: RawOf, __: Model) -> Result:
        if name in model.lines:
            return model, REFUSED
        at = which - 1 if before else which
        moment = model.published[at]
        back = _days_to_rewind(moment.main, model.main, target, days)
        if not back:
            return model, REFUSED
        held = {target: {day: moment.main[target].get(day) for day in back[target]}}
        if target == "fact" and "report" in back:
            facts = {"fact": _laid_over(model.main["fact"], held["fact"])}
            held["report"] = {week: _that_fits(week, moment.main, model.main, facts) for week in back["report"]}
        line = Line(held, model.main, (target,), moment=moment.main)
        made = replace(model, lines={**model.lines, name: line})
        return made, DONE if model.published[which].epoch == model.epoch and at == which else EITHER

    return rewound


def _that_fits(week: date, then: Tables, now: Tables, shown: Tables) -> Value | None:
    """The report of then if it was computed from the facts that are shown, or none was from just these; else main's."""
    was = then["report"].get(week)
    made = was.made[1] if was else _inputs(then, "report", week)
    return was if made == _inputs(shown, "report", week) else now["report"].get(week)


def _days_to_rewind(then: Tables, now: Tables, target: str, days: tuple[date, ...] | None) -> dict[str, set[date]]:
    known = {table: {*then[table], *now[table]} for table in ("fact", "report")}
    differ = {
        table: {day for day in known[table] if _rows(then[table].get(day)) != _rows(now[table].get(day))}
        for table in known
    }
    found = differ[target] if days is None else {day for day in map(_period(target), days) if day in known[target]}
    if target == "report":
        return {"report": found} if found else {}
    weeks = {Cadence.WEEKLY.start(day) for day in found} & known["report"]
    return {table: each for table, each in (("fact", found), ("report", weeks)) if each}


def _period(table: str) -> Callable[[date], date]:
    return Cadence.WEEKLY.start if table == "report" else Cadence.DAILY.start


def _rows(value: Value | None) -> tuple[str, ...] | None:
    return value.rows if value else None


def forward(deed: int, name: str, version: str, other: str | None, *, arrivals: bool) -> Deed:
    """From main as it is now, or without arrivals from all that there was at the moment."""

    def went(model: Model, raw: RawOf, _: Model) -> Result:
        line = model.lines.get(name)
        if line is None or (other is not None and other in model.lines):
            return model, REFUSED
        if version not in (("v1", "v2") if "fact" in line.targets else ("v1",)):
            return model, REFUSED
        base = model.main if arrivals else line.moment
        if base is None:
            return model, REFUSED
        read = raw if arrivals else {day: each.rows for day, each in base["raw"].items()}
        fact_version = version if "fact" in line.targets else "v2"
        found = _recomputed(deed, line, base, read, fact_version)
        versions = {"fact": fact_version} if "fact" in line.days else {}
        after = replace(line, days=found, base=base, versions={**versions, "report": "v1"})
        return replace(model, lines={**model.lines, other or name: after}), DONE

    return went


def _recomputed(deed: int, line: Line, base: Tables, raw: RawOf, version: str) -> Images:
    """A day whose inputs were never published is held back, with the week that reads it: both stay what they were."""
    own = line.days.get("fact", {})
    held_back = {day for day in own if day not in raw}
    computed = _facts(deed, own.keys() - held_back, version, raw)
    facts = {day: computed.get(day, held) for day, held in own.items()}
    read = _laid_over(base["fact"], facts)
    blocked = set(map(Cadence.WEEKLY.start, held_back))
    weeks = {
        week: held if week in blocked else _report(deed, week, read) or held
        for week, held in line.days.get("report", {}).items()
    }
    return {table: days for table, days in (("fact", facts), ("report", weeks)) if days}


def run_fact_on(deed: int, name: str, days: Iterable[date], version: str) -> Deed:
    """Days of the fact are built on a timeline, from raw as of its base: all of them, or none if a day has no raw."""
    asked = tuple(days)

    def ran(model: Model, _: RawOf, __: Model) -> Result:
        if name not in model.lines:
            return model, REFUSED
        shown = model.lines[name].tables
        raw = {day: value.rows for day, value in shown["raw"].items()}
        if not raw.keys() >= set(asked):
            return model, REFUSED
        return _build_on(model, name, {"fact": _facts(deed, asked, version, raw)}, {"fact": version}), DONE

    return ran


def run_report_on(deed: int, name: str, weeks: Iterable[date]) -> Deed:
    asked = tuple(weeks)

    def ran(model: Model, _: RawOf, __: Model) -> Result:
        if name not in model.lines:
            return model, REFUSED
        computed = {week: _report(deed, week, model.lines[name].tables["fact"]) for week in asked}
        if None in computed.values():
            return model, REFUSED
        return _build_on(model, name, {"report": computed}, {"report": "v1"}), DONE

    return ran


def _build_on(model: Model, name: str, computed: Images, versions: Mapping[str, str]) -> Model:
    line = model.lines[name]
    changed = _changed(line.tables, computed)
    if not changed:
        return model
    days = {table: {**line.days.get(table, {}), **changed.get(table, {})} for table in {*line.days, *changed}}
    after = replace(line, days=days, versions={**line.versions, **versions})
    return replace(model, lines={**model.lines, name: after})


def publish(deed: int, name: str) -> Deed:
    """What the timeline holds and main does not, with all that is computed from it, in one publication.

    Which days these are was planned before they are staged.
    """

    def published(model: Model, raw: RawOf, planned: Model) -> Result:
        line = planned.lines.get(name)
        if line is None or not line.versions:
            return model, REFUSED
        differ = {
            table: [day for day, held in days.items() if _rows(held) != _rows(planned.main[table].get(day))]
            for table, days in line.days.items()
        }
        if not any(differ.values()):
            return model, REFUSED
        days = differ.get("fact", [])
        facts = _facts(deed, days, line.versions.get("fact", "v2"), raw)
        read = _laid_over(model.main["fact"], {**facts})
        touched = map(Cadence.WEEKLY.start, days) if days else differ["report"]
        weeks = {week: _report(deed, week, read) for week in touched}
        changed = _changed(model.main, {"fact": facts, "report": weeks})
        return (model.publish(deed, changed), DONE) if changed else (model, REFUSED)

    return published


def delete(name: str) -> Deed:
    def deleted(model: Model, _: RawOf, __: Model) -> Result:
        if name not in model.lines:
            return model, REFUSED
        return replace(model, lines={key: line for key, line in model.lines.items() if key != name}), DONE

    return deleted
