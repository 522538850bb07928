"""Processes that name timelines, with three names between them, and whether a name was ever that of two."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from backfill_assets import clock
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineBase,
    create_timeline,
    delete_timeline,
    kept_timelines,
    new_timeline_id,
    rename_timeline,
)
from backfill_assets.state.reading import published_versions
from backfill_assets_tests.simulator.world import Life
from backfill_assets_tests.storm.notes import LifeTold, Line
from backfill_assets_tests.storm.real_world import notes_of

_NAMES = ("alpha", "beta", "gamma")


def name_timelines(life: Life) -> None:
    now, name = clock.now(), life.draw.choice(_NAMES)
    kept = note_kept(life)
    chosen = life.draw.choice(kept) if kept and life.draw.random() < 0.6 else None
    if chosen is None:
        base = TimelineBase(versions=published_versions(life.storage))
        made = NamedTimeline(id=new_timeline_id(now), name=name, made_at=now, changed_at=now, base=base)
        _named(life, made.id, name, lambda: create_timeline(life.storage, made))
    elif life.draw.random() < 0.6:
        _named(life, chosen.id, name, lambda: rename_timeline(life.storage, chosen, name, now))
    else:
        _named(life, chosen.id, "", lambda: delete_timeline(life.storage, chosen, now))


def note_kept(life: Life) -> list[NamedTimeline]:
    """Those that these processes have named, as they are now; all are noted."""
    kept = kept_timelines(life.storage, clock.now())
    notes_of(life).write("kept", timelines=[[each.id, each.name] for each in kept])
    return [each for each in kept if each.name in _NAMES]


def _named(life: Life, id: str, name: str, do: Callable[[], object]) -> None:
    """``name`` is empty for a timeline that is deleted."""
    notes_of(life).write("naming", id=id, name=name)
    do()
    notes_of(life).write("named", id=id, name=name)
    life.world.tally["named"] += 1


# ------------------------------------------------------------------ judgement


def wrong_names(lives: Sequence[LifeTold]) -> Iterator[str]:
    """No name had two timelines at once, and what was acknowledged is so at the end."""
    listed = sorted((line for life in lives for line in life.of("kept")), key=lambda line: int(line["at"]))
    for line in listed:
        names = Counter(name for _, name in line["timelines"])
        if names and max(names.values()) > 1:
            yield f"timelines share a name: {line['timelines']}"
    tried, done = ([line for life in lives for line in life.of(what)] for what in ("naming", "named"))
    if listed:
        yield from _forgotten(listed[-1], tried, done)
    for first, second in _holders(tried, done):
        yield f"{second} got the name of {first}, which had it"


def _forgotten(end: Line, tried: Sequence[Line], done: Sequence[Line]) -> Iterator[str]:
    kept: dict[str, set[str]] = {}
    for id, name in end["timelines"]:
        kept.setdefault(id, set()).add(name)  # Two, if who renamed it was killed between them.
    told, asked = _by_id(done), _by_id(tried)
    for id, lines in told.items():
        last = max(lines, key=lambda line: int(line["at"]))
        begun = _begun(last, asked[id])
        later = [line["name"] for line in asked[id] if line["at"] >= last["at"]]
        beside = [line["name"] for line in lines if line["at"] >= begun]
        under_way = [line["name"] for line in asked[id] if not _is_answered(line, lines)]
        known, now = {*later, *beside, *under_way}, kept.get(id, {""})
        if not now & known:
            yield f"timeline {id} is {sorted(now)}, and was called {known}"


def _by_id(lines: Iterable[Line]) -> Mapping[str, Sequence[Line]]:
    found = defaultdict[str, list[Line]](list)
    for line in lines:
        found[line["id"]].append(line)
    return found


def _begun(line: Line, tried: Iterable[Line]) -> int:
    """When what ``line`` says is done was begun: it came about at any time since, however late it was noted."""
    return max(int(each["at"]) for each in tried if each["name"] == line["name"] and each["at"] <= line["at"])


def _is_answered(tried: Line, done: Iterable[Line]) -> bool:
    return any(line["name"] == tried["name"] and line["at"] >= tried["at"] for line in done)


def _holders(tried: Sequence[Line], done: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """Timelines that got a name, each with one that had it before and that nothing had tried to take it from."""
    asked, told = _by_id(tried), _by_id(done)
    got = [(line, _begun(line, asked[line["id"]])) for line in done if line["name"]]
    held = [(line, begun, _left(line, begun, asked[line["id"]], told[line["id"]])) for line, begun in got]
    for (first, _, left), (second, began) in product(held, got):
        same = first["name"] == second["name"] and first["id"] != second["id"]
        if same and first["at"] < began and second["at"] < left:
            yield first["id"], second["id"]


def _left(line: Line, begun: int, tried: Iterable[Line], done: Iterable[Line]) -> float:
    """When somebody first tried to take the name from a timeline that had got it."""
    answered = {each["name"] for each in done if each["at"] < begun}
    return min(
        (
            float(each["at"])
            for each in tried
            if each["name"] != line["name"] and (each["at"] >= begun or each["name"] not in answered)
        ),
        default=float("inf"),
    )
