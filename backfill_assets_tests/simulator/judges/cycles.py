"""All tables together: pinned reads and publications are strictly serializable, or a cycle shows why not.

Values are unique, so a read names the write that it saw, and a publication the one that it replaced. That gives a graph
of what has to come before what, as Adya, and Elle after him, draw it:

- ``ww``: B replaced what A wrote. ``wr``: B saw what A wrote. ``rw``: B replaced what A saw.
- ``rt``: A had ended before B began.

An order of all operations has no cycle; the kinds of edges of which one consists give it its name. Components and
shortest paths are those of rustworkx. Of cycles through one edge, the worst is told, and in real time the last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import rustworkx

from backfill_assets_tests.simulator.history import History, Key, Operation
from backfill_assets_tests.simulator.judges.verdict import Anomaly, Verdict, at, named, settled

JUDGE = "cycles"
NOBODY_WROTE, ABORTED, INTERMEDIATE = "a value that nobody wrote", "G1a, aborted read", "G1b, intermediate read"
LOST, STALE = "G-single, lost update", "G-single in real time, stale read"


@dataclass(frozen=True)
class _Class:
    """Cycles of one name: over an edge of kind ``first``, else of ``others``; ``again`` is one that comes once more."""

    name: str
    first: str
    others: frozenset[str]
    again: str = ""


_OF_DATA = (
    _Class("G0", "ww", frozenset({"ww"})),
    _Class("G1c", "wr", frozenset({"ww", "wr"})),
    _Class("G-single", "rw", frozenset({"ww", "wr"})),
    _Class("G2", "rw", frozenset({"ww", "wr", "rw"}), again="rw"),
)
_CLASSES = (*_OF_DATA, *(_Class(f"{c.name} in real time", c.first, c.others | {"rt"}, c.again) for c in _OF_DATA))
_IN_WORDS = {
    "G0": "write cycle",
    "G1c": "circular flow",
    "G-single": "read skew",
    "G2": "anti-dependency cycle",
    "G1c in real time": "read from the future",
}


def verdict(history: History) -> Verdict:
    """Of pinned reads and publications; what readers who pin nothing saw of several tables is only counted."""
    facts = _Facts.of(history)
    together = [read for read in _reads(facts.settled, pinned=False) if len(read.tables) > 1]
    seen = {anomaly.name: anomaly.times for anomaly in _seen_by(together, facts)}
    return Verdict(JUDGE, tuple(_anomalies(facts)), seen=seen)


def _reads(history: History, *, pinned: bool) -> Iterator[Operation]:
    return (each for each in history if each.kind == "read" and each.end is not None and each.pinned is pinned)


def _anomalies(facts: _Facts) -> Iterator[Anomaly]:
    reads = list(_reads(facts.settled, pinned=True))
    published = [each for each in facts.settled if each.publication is not None and each.outcome == "ok"]
    yield from _wrong_values([*reads, *published], facts)
    graph = _Graph.of(facts.settled, reads)
    yield from _lost_updates(graph.operations)
    yield from _cycles(graph)


def _seen_by(reads: list[Operation], facts: _Facts) -> Iterator[Anomaly]:
    """Only what takes one of these reads: publications are judged without them."""
    yield from _wrong_values(reads, facts)
    readers = {id(read) for read in reads}
    found = _cycles(_Graph.of(facts.settled, reads), observers=readers)
    yield from found


# ------------------------------------------------------------------ single values


@dataclass(frozen=True)
class _Facts:
    """The history with one operation for each publication, and of each value who wrote it and what came of it."""

    settled: History
    writers: Mapping[tuple[Key, str], Operation]
    finals: Mapping[tuple[str, Key], str]

    @classmethod
    def of(cls, history: History) -> _Facts:
        found = settled(history)
        finals = {(each.publication, key): value for each in found for key, value in each.writes.items()}
        writers = {place: each for each in found for place in each.writes.items()}
        return cls(found, writers, {(name, key): value for (name, key), value in finals.items() if name is not None})

    def wrong(self, key: Key, value: str) -> tuple[str, str]:
        """Why nobody may see it: the name of the anomaly and the reason; both empty where everybody may."""
        writer = self.writers.get((key, value))
        if writer is None:
            return NOBODY_WROTE, "which nobody wrote"
        if writer.outcome == "refused":
            return ABORTED, f"which {named(writer)} wrote, and that was aborted"
        final = self.finals.get((writer.publication or "", key), value)
        if final != value:
            return INTERMEDIATE, f"which {named(writer)} replaced by {final} itself"
        return "", ""


def _wrong_values(observers: Iterable[Operation], facts: _Facts) -> Iterator[Anomaly]:
    found: dict[str, list[tuple[Operation, str]]] = {}
    for observer in observers:
        for key, value in (*observer.reads.items(), *observer.replaced.items()):
            name, why = facts.wrong(key, value) if value is not None else ("", "")
            if name:
                found.setdefault(name, []).append((observer, f"{named(observer)} saw {value} on {at(key)}, {why}"))
    for name, cases in found.items():
        yield Anomaly(name, cases[0][1], (cases[0][0],), len({id(observer) for observer, _ in cases}))


def _lost_updates(operations: Iterable[Operation]) -> Iterator[Anomaly]:
    """Two publications replaced the same value: whichever came last, it never saw the other."""
    replaced: dict[tuple[Key, str | None], dict[str, Operation]] = {}
    for each in operations:
        for place in each.replaced.items():
            replaced.setdefault(place, {})[named(each)] = each
    cases = {place: list(several.values()) for place, several in replaced.items() if len(several) > 1}
    if cases:
        (key, value), (one, other, *_) = next(iter(cases.items()))
        sentence = f"{named(one)} and {named(other)} both replaced {value or 'nothing'} on {at(key)}"
        lost = {id(each) for several in cases.values() for each in several[1:]}
        yield Anomaly(LOST, sentence, (one, other), len(lost))


# ------------------------------------------------------------------ the graph


@dataclass(frozen=True)
class _Edge:
    """``why`` is the sentence for it, empty for a part of the way through time."""

    source: int
    target: int
    kind: str
    why: str = ""
    length: float = 1.0


@dataclass(frozen=True)
class _Graph:
    """Nodes are operations, and behind them moments: one for each end, so that ``rt`` needs few edges."""

    operations: list[Operation]
    edges: list[_Edge] = field(default_factory=list)

    @classmethod
    def of(cls, history: History, reads: list[Operation]) -> _Graph:
        graph = cls([*_that_happened(history, reads), *reads])
        graph.edges.extend(graph._by_data())
        graph.edges.extend(graph._by_time())
        return graph

    def _by_data(self) -> Iterator[_Edge]:
        """One edge of a kind between two operations, however many days show it."""
        found: set[tuple[int, int, str]] = set()
        for edge in (*self._seen_and_replaced(), *self._seen_before_it_was_replaced()):
            between = edge.source, edge.target, edge.kind
            if edge.source != edge.target and between not in found:
                found.add(between)
                yield edge

    def _seen_and_replaced(self) -> Iterator[_Edge]:
        writers = {place: number for number, each in enumerate(self.operations) for place in each.writes.items()}
        for number, each in enumerate(self.operations):
            for kind, verb, values in (("wr", "saw", each.reads), ("ww", "replaced", each.replaced)):
                for key, value in values.items():
                    writer = writers.get((key, value or ""))
                    if writer is not None:
                        whose = f"{value} of {named(self.operations[writer])} on {at(key)}"
                        yield _Edge(writer, number, kind, f"{named(each)} {verb} {whose}")

    def _seen_before_it_was_replaced(self) -> Iterator[_Edge]:
        replacers: dict[tuple[Key, str | None], list[int]] = {}
        for number, each in enumerate(self.operations):
            for place in each.replaced.items():
                replacers.setdefault(place, []).append(number)
        for number, each in enumerate(self.operations):
            for key, value in each.reads.items():
                for later in replacers.get((key, value), ()):
                    whose = f"{named(self.operations[later])} {'replaced' if value else 'wrote'}"
                    yield _Edge(
                        number, later, "rw", f"{named(each)} saw {value or 'nothing'} on {at(key)}, which {whose}"
                    )

    def _by_time(self) -> Iterator[_Edge]:
        """A write past the log is seen by pinned readers when a publication comes after it, so its end says nothing."""
        numbered = list(enumerate(self.operations))
        ended = {n: each.end for n, each in numbered if each.end is not None and each.outcome == "ok" and _in_log(each)}
        ends = sorted(set(ended.values()))
        first = len(self.operations)
        yield from (_Edge(first + n, first + n + 1, "rt", length=0.0) for n in range(len(ends) - 1))
        yield from (_Edge(number, first + bisect_left(ends, end), "rt") for number, end in ended.items())
        for number, each in numbered:
            if before := bisect_left(ends, each.begin):
                yield _Edge(first + before - 1, number, "rt", length=0.0)


def _in_log(operation: Operation) -> bool:
    return operation.kind == "read" or operation.publication is not None


def _that_happened(history: History, reads: list[Operation]) -> list[Operation]:
    """What was answered with ok, and of what died what these reads, or what happened after it, have seen."""
    happened = [each for each in history if each.kind == "publish" and each.outcome == "ok"]
    unknown = {place: each for each in history if each.outcome == "unknown" for place in each.writes.items()}
    witnesses = [*reads, *(each for each in happened if each.publication is not None)]
    while witnesses:
        witness = witnesses.pop()
        for key, value in (*witness.reads.items(), *witness.replaced.items()):
            seen = unknown.get((key, value or ""))
            if seen is not None:
                happened.append(seen)
                witnesses.append(seen)
                unknown = {place: each for place, each in unknown.items() if each is not seen}
    return happened


# ------------------------------------------------------------------ its cycles


def _cycles(graph: _Graph, observers: set[int] | None = None) -> Iterator[Anomaly]:
    """One anomaly for each name, with its shortest cycle; ``observers`` are the operations that must have seen it."""
    edges = _on_cycles(graph.edges)
    told: set[tuple[int, int]] = set()
    cases: dict[str, list[tuple[Operation, list[_Edge]]]] = {}
    for kind in _CLASSES if edges else ():
        for cycle in _shortest(kind, edges, graph.operations, told):
            first = cycle[0]
            observer = graph.operations[first.target if first.kind == "wr" else first.source]
            told.add((first.source, first.target))
            if observers is None or id(observer) in observers:
                cases.setdefault(_name(kind, observer), []).append((observer, cycle))
    for name, found in cases.items():
        shortest = min((cycle for _, cycle in found), key=len)
        operations = tuple(graph.operations[edge.source] for edge in shortest)
        sentence = "; ".join(edge.why for edge in shortest)
        yield Anomaly(name, sentence, operations, len({id(observer) for observer, _ in found}))


def _name(kind: _Class, observer: Operation) -> str:
    if kind.name == "G-single in real time" and observer.kind == "read":
        return STALE
    return f"{kind.name}, {_IN_WORDS[kind.name]}" if kind.name in _IN_WORDS else kind.name


def _on_cycles(edges: list[_Edge]) -> list[_Edge]:
    """Those within a strongly connected component: no other is on any cycle."""
    graph: rustworkx.PyDiGraph[None, _Edge] = rustworkx.PyDiGraph()
    graph.add_nodes_from([None] * (1 + max((max(edge.source, edge.target) for edge in edges), default=0)))
    graph.add_edges_from([(edge.source, edge.target, edge) for edge in edges])
    component = {node: n for n, nodes in enumerate(rustworkx.strongly_connected_components(graph)) for node in nodes}
    return [edge for edge in edges if component[edge.source] == component[edge.target]]


def _shortest(
    kind: _Class, edges: list[_Edge], operations: list[Operation], told: set[tuple[int, int]]
) -> Iterator[list[_Edge]]:
    """For each edge that such a cycle begins with the shortest one, unless a worse one was told of it.

    So a way of this kind takes at least one edge that a worse kind may not, and passes no operation twice.
    """
    firsts: dict[int, list[_Edge]] = {}
    for edge in edges:
        if edge.kind == kind.first and (edge.source, edge.target) not in told:
            firsts.setdefault(edge.target, []).append(edge)
    ways = _Ways.of([edge for edge in edges if edge.kind in kind.others], kind.again)
    for target, into in firsts.items():
        paths = ways.paths_from(target)
        for first in into:
            if way := paths.get(first.source):
                yield [first, *_without_moments(way, operations)]


@dataclass(frozen=True)
class _Ways:
    """Ways through some edges, as rustworkx walks them.

    One that has to take a kind of edge ``again`` goes from a copy of the graph to another, where only that kind leads.
    """

    graph: rustworkx.PyDiGraph[tuple[int, int], _Edge]
    numbers: Mapping[tuple[int, int], int]
    """Of a node in each of the copies."""
    edges: Mapping[tuple[int, int], _Edge]
    last: int
    """The copy in which a way has to end."""

    @classmethod
    def of(cls, edges: list[_Edge], again: str) -> _Ways:
        copies = ((0, 0), (1, 1)) if again else ((0, 0),)
        doubled = [((e.source, here), (e.target, there), e) for e in edges for here, there in copies]
        doubled += [((e.source, 0), (e.target, 1), e) for e in edges if e.kind == again]
        nodes = sorted({node for source, target, _ in doubled for node in (source, target)})
        graph: rustworkx.PyDiGraph[tuple[int, int], _Edge] = rustworkx.PyDiGraph()
        numbers = dict(zip(nodes, graph.add_nodes_from(nodes), strict=True))
        numbered = [(numbers[source], numbers[target], edge) for source, target, edge in doubled]
        graph.add_edges_from(numbered)
        best = {(s, t): edge for s, t, edge in sorted(numbered, key=lambda each: each[2].length, reverse=True)}
        return cls(graph, numbers, best, 1 if again else 0)

    def paths_from(self, node: int) -> dict[int, list[_Edge]]:
        """The shortest way to every node that can be reached, by that node."""
        number = self.numbers.get((node, 0))
        if number is None:
            return {}
        found = rustworkx.dijkstra_shortest_paths(self.graph, number, weight_fn=lambda edge: edge.length)
        paths = {}
        for end, path in found.items():
            reached, copy = self.graph[end]
            if copy == self.last:
                paths[reached] = [self.edges[step] for step in pairwise(path)]
        return paths


def _without_moments(way: list[_Edge], operations: list[Operation]) -> Iterator[_Edge]:
    """The edges between operations: what leads through moments is one edge, with its sentence."""
    source = None
    for edge in way:
        if edge.kind != "rt":
            yield edge
        elif edge.source < len(operations):
            source = edge.source
        if edge.kind == "rt" and edge.target < len(operations) and source is not None:
            one, other = operations[source], operations[edge.target]
            why = f"{named(one)} had ended at {one.end}, before {named(other)} began at {other.begin}"
            yield _Edge(source, edge.target, "rt", why)
