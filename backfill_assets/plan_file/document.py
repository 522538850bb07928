"""YAML with the line of each key and each value, in the small part of YAML that a plan file needs. Pure.

Every value is text: no word becomes a date, a number or a truth value by itself, as YAML makes ``no`` of Norway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import yaml

Value = str | list["Value"] | dict[str, "Value"]
Place = tuple[str | int, ...]
"""Keys, and numbers of items, from the top of the file down."""
_DEEPEST = 3
_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}


@dataclass(frozen=True)
class FileProblem:
    """What is wrong with a file, on which line if that is known, and what to do."""

    message: str
    next_step: str = ""
    line: int | None = None

    def shown(self, path: str) -> str:
        where = f"{path}:{self.line}" if self.line else path
        return f"{where}: {self.message}" + (f"\n  -> {self.next_step}" if self.next_step else "")


@dataclass
class Document:
    """The values of a file, and the line on which each begins."""

    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)

    def line_of(self, place: Place) -> int | None:
        """The line of the key or item, or of the nearest one above it that is there."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


def read_document(text: str) -> Document:
    """What ``text`` holds. Its ``problems`` are what a plan file cannot have, also where YAML allows it."""
    found = Document()
    try:
        events = list(yaml.parse(text, yaml.BaseLoader))
        refused = list(_refused_shapes(events))
        node = None if refused else yaml.compose(text, yaml.BaseLoader)
    except yaml.YAMLError as error:
        found.problems.append(_broken(error))
        return found
    if refused:
        found.problems.append(refused[0])
    elif not isinstance(node, yaml.MappingNode):
        hint = "Begin with `target: TABLE` and `days: A..B`."
        found.problems.append(FileProblem("The file is no list of `key: value` lines.", hint, 1))
    else:
        found.values = _mapping(node, (), found)
    return found


def _refused_shapes(events: Iterable[yaml.Event]) -> Iterator[FileProblem]:
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            yield FileProblem("Values are not reused in a plan file.", "Write the value out.", line)
        elif depth > _DEEPEST:
            yield FileProblem("A plan file has no lists in lists of lists.", "", line)


def _broken(error: yaml.YAMLError) -> FileProblem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    return FileProblem(f"It is not YAML: {what}.", "Quote a text with : or #.", mark.line + 1 if mark else None)


def _mapping(node: yaml.MappingNode, place: Place, found: Document) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            found.problems.append(FileProblem("A key is one word.", "", line))
            continue
        if key.value in values:
            before = found.lines[(*place, key.value)]
            found.problems.append(FileProblem(f"{key.value!r} is there twice.", f"It is on line {before} too.", line))
        found.lines[(*place, key.value)] = line
        values[key.value] = _value(value, (*place, key.value), found)
    return values


def _value(node: yaml.Node, place: Place, found: Document) -> Value:
    found.problems += _refused(node)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, found)
    if isinstance(node, yaml.SequenceNode):
        return list(_items(node, place, found))
    return str(node.value)


def _items(node: yaml.SequenceNode, place: Place, found: Document) -> Iterator[Value]:
    for number, item in enumerate(node.value):
        found.lines[(*place, number)] = item.start_mark.line + 1
        yield _value(item, (*place, number), found)


def _refused(node: yaml.Node) -> Iterator[FileProblem]:
    line = node.start_mark.line + 1
    if node.tag not in _PLAIN_TAGS:
        yield FileProblem(f"Tags such as {node.tag} are not read.", "Write the value out.", line)
    if node.value in ("", []):
        yield FileProblem("A key has no value.", "Leave the key out, or write its value.", line)
