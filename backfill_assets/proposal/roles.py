"""Day, key, version and counted groups, among the fields. Pure.

What a sample shows is proposed, what it hints at with a question; the rest is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from backfill_assets.proposal.field_types import TypedField
from backfill_assets.proposal.names import rank_as_day, rank_as_key, rank_as_version
from backfill_assets.proposal.profile import DaysSeen, SampledRows

_MOST_PARTS, _MOST_CANDIDATES = 3, 8
_FEW_ROWS = 20
_GROUPS = range(2, 51)
_NO_NAMES = ("double", "float", "boolean", "array", "struct", "map", "binary")
_GREATER = ("timestamp", "date", "bigint", "int")


@dataclass(frozen=True)
class Roles:
    day: str
    key: tuple[str, ...]
    version: str
    group: str
    questions: Mapping[str, tuple[str, ...]]
    """By field; about the whole row, by the empty name."""
    seen: Mapping[str, str]


def proposed_roles(
    dataset: str,
    fields: Sequence[TypedField],
    rows: SampledRows,
    days: Mapping[str, DaysSeen],
    *,
    landed: bool = True,
) -> Roles:
    """Without ``landed`` rows have no version: keys are unique on each day."""
    proposal = _Proposal(dataset, fields, rows, days)
    return proposal.roles() if landed else proposal.roles_of_table()


class _Proposal:
    def __init__(
        self, dataset: str, fields: Sequence[TypedField], rows: SampledRows, days: Mapping[str, DaysSeen]
    ) -> None:
        self.dataset = dataset
        self.fields = {each.name: each for each in fields}
        self.rows = rows
        self.days = days
        self.asked: dict[str, list[str]] = {}
        self.seen: dict[str, str] = {}

    def roles(self) -> Roles:
        day = self._day()
        key, newer = self._key(day)
        version = self._version(day, key, newer)
        asked = {name: tuple(questions) for name, questions in self.asked.items()}
        return Roles(day, key, version, self._group(key), asked, self.seen)

    def roles_of_table(self) -> Roles:
        day = self._day()
        ranked = self._key_candidates(day)
        singles = ((name,) for name in ranked if not self.fields[name].is_time and self._differs((name,), day))
        key = next(chain(singles, self._several(ranked, day)), ())
        if key:
            self._chosen(key, "", ranked, day)
        asked = {name: tuple(questions) for name, questions in self.asked.items()}
        return Roles(day, key, "", self._group(key), asked, self.seen)

    # ------------------------------------------------------------------ day

    def _day(self) -> str:
        found = sorted(
            (
                name
                for name, each in self.fields.items()
                if each.is_time and not each.nullable and not self._is_ahead(name)
            ),
            key=lambda name: (rank_as_day(name), self._is_one(name), self._is_late(name)),
        )
        if not found:
            self._ask(
                "",
                "which field says the day a row belongs to? None is a date, or a moment with Z or an offset, "
                "in every row, no later than it arrived.",
            )
            return ""
        best, *others = found
        days = self.days[best]
        self.seen[best] = f"the event day, {days.first}..{days.last}"
        rivals = [name for name in others if rank_as_day(name) == rank_as_day(best)]
        if rivals or rank_as_day(best) > 1:
            also = f" {_listed(others)} {'is a time' if len(others) == 1 else 'are times'} as well." if others else ""
            self._ask(best, f"does {best} say the day a row belongs to?{also}")
        return best

    def _is_ahead(self, name: str) -> bool:
        """Rows ahead would be put on their arrival day, and rejected."""
        return name not in self.days or self.days[name].ahead > 0

    def _is_one(self, name: str) -> bool:
        return self.days[name].first == self.days[name].last

    def _is_late(self, name: str) -> bool:
        return self.days[name].late * 20 > self.rows.count

    # ------------------------------------------------------------------ key

    def _key(self, day: str) -> tuple[tuple[str, ...], str]:
        """The first unique on each day, with a version if a key's rows differ in it."""
        ranked = self._key_candidates(day)
        best = [name for name in ranked if self._rank(name) < 3]
        for key, newer in chain(self._one(best, day), self._corrected(best, day), self._one(ranked, day)):
            return self._chosen(key, newer, ranked, day)
        for key in self._several(ranked, day):
            return self._chosen(key, "", ranked, day)
        self._ask(
            "",
            "what is the key? No field, nor up to three of them together, differs between all rows of a day. "
            "Mark its fields with key=True.",
        )
        return (), ""

    def _key_candidates(self, day: str) -> list[str]:
        """The likeliest first. A moment alone is no key: two things happen at once."""
        usable = [
            name
            for name, each in self.fields.items()
            if not each.nullable
            and not each.type.startswith(_NO_NAMES)
            and self._rank(name) < 4
            and not (name == day and each.type == "date")
        ]
        return sorted(usable, key=lambda name: self._rank(name) + 3 * self.fields[name].is_time)[:_MOST_CANDIDATES]

    def _rank(self, name: str) -> int:
        return rank_as_key(name, self.dataset)

    def _one(self, names: Sequence[str], day: str) -> Iterator[tuple[tuple[str, ...], str]]:
        yield from (((name,), "") for name in names if not self.fields[name].is_time and self._differs((name,), day))

    def _corrected(self, names: Sequence[str], day: str) -> Iterator[tuple[tuple[str, ...], str]]:
        for name in names:
            if self.rows.different([name], day) * 2 > self.rows.count:
                yield from (
                    ((name,), newer) for newer in self._newer(day, (name,)) if self._differs((name, newer), day)
                )

    def _several(self, names: Sequence[str], day: str) -> Iterator[tuple[str, ...]]:
        for parts in range(2, _MOST_PARTS + 1):
            yield from (each for each in combinations(names, parts) if self._differs(each, day))

    def _differs(self, names: Sequence[str], day: str) -> bool:
        return self.rows.different(names, day) == self.rows.count

    def _chosen(self, key: tuple[str, ...], newer: str, ranked: Sequence[str], day: str) -> tuple[tuple[str, ...], str]:
        worst = max(map(self._rank, key))
        rivals = (
            []
            if len(key) > 1 or newer
            else [
                name
                for name in ranked
                if name not in key
                and self._rank(name) <= worst
                and not self.fields[name].is_time
                and self._differs((name,), day)
            ]
        )
        for name in key:
            self.seen[name] = "likely the key" if len(key) == 1 else "likely of the key"
        if len(key) > 1:
            self._ask(key[0], f"are {_listed(key)} the key? No field by itself differs between all rows of a day.")
        elif rivals:
            self._ask(
                key[0], f"is {key[0]} the key? {_listed(rivals)} also differ{'s' * (len(rivals) == 1)} in each row."
            )
        elif worst > 1 or self.rows.count < _FEW_ROWS:
            self._ask(key[0], f"is {key[0]} the key? It differs in each of {self.rows.count:,} rows.")
        return key, newer

    # -------------------------------------------------------------- version

    def _version(self, day: str, key: Sequence[str], newer: str) -> str:
        candidates = self._newer(day, key) or ([day] if day else [])
        if newer:
            rivals = [name for name in candidates if name != newer and self._differs((*key, name), day)]
            why = "It is the only one that" if not rivals else f"As {_listed(rivals)}, it"
            self._ask(newer, f"is {newer} the version? {why} differs between rows of equal key.")
            return newer
        if not candidates:
            self._ask(
                "",
                "what is the version? No date, moment or whole number is there in every row. Land the time "
                "of the export, and mark it with version=True.",
            )
            return ""
        best = candidates[0]
        if rank_as_version(best) == 0:
            self._ask(best, f"is {best} the version? Its name says so; no key comes twice in the sample.")
        else:
            self._ask(
                best,
                f"which field is greater in a correction? None looks so, and {best} stands here until one "
                "does: of two rows with equal ones any wins.",
            )
        return best

    def _newer(self, day: str, key: Sequence[str]) -> list[str]:
        found = [
            name
            for name, each in self.fields.items()
            if not each.nullable
            and each.type in _GREATER
            and name not in key
            and (each.is_time or rank_as_version(name) == 0)
        ]
        return sorted(
            found, key=lambda name: (rank_as_version(name), name == day, self.fields[name].type != "timestamp")
        )

    # ---------------------------------------------------------------- group

    def _group(self, key: Sequence[str]) -> str:
        found = [
            name
            for name, each in self.fields.items()
            if each.type in ("string", "boolean")
            and not each.nullable
            and not each.personal
            and name not in key
            and each.profile.different in _GROUPS
            and each.profile.different * 2 <= each.profile.present
        ]
        return min(
            found,
            key=lambda name: (self.fields[name].type != "string", self.fields[name].profile.different),
            default="",
        )

    def _ask(self, name: str, question: str) -> None:
        self.asked.setdefault(name, []).append(question)


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
