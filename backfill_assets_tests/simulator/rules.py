"""Each rule of the protocol is taken out, one after the other, and the simulator names what is wrong then.

``python -m backfill_assets_tests.simulator.rules [PATCH ...]`` plays what is kept here again; with ``--seeds 500`` it
searches anew: the first seed that shows something, and the shortest history of it. Both print a table; ``--page``
writes that of what is kept into ``docs/reference``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from backfill_assets_tests.mutants.run import HERE, TREE, read
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.taken_out import Found, play_again, search, shortened

_AGAIN = "python -m backfill_assets_tests.simulator.rules"
PAGE = TREE / "docs" / "reference" / "rules-taken-out.md"
_ABOVE = f"""# Each rule of the protocol, taken out

Each rule of [the protocol](../architecture.md#the-protocol) is taken out of a copy of the package, which is played on
the simulator. *At once* is what the judges of each step say; *afterwards* is what porcupine and the cycles say of the
history, where nobody stops at the first fault. `backfill_assets_tests/simulator/rules.py` has the schedules, each as
short as it could be made; its tests play them with the rule and without it. Where none is kept, the test that is named
shows the rule.

```console
.venv/bin/{_AGAIN}
.venv/bin/{_AGAIN} --seeds 500
```

"""


@dataclass(frozen=True)
class Rule:
    """A line of the table in ``docs/architecture.md``, and what is found where a patch of ``mutants`` takes it out.

    One that says two things may be there twice, with a patch for each.

    ``carries`` are the invariants that fall with it. ``cast`` are those among whom it is searched, where it takes too
    many seeds among all, and ``written`` is a schedule (seed and turns) for what takes too many even so. ``found`` is
    what the judges of each step say, and what is seen afterwards in the history alone; what leaves every history in
    order shows in the first only. Where none is kept, the test that kills the patch shows the rule.
    """

    text: str
    without: str
    patch: str
    carries: tuple[int, ...]
    cast: str = ""
    written: tuple[int, str] | None = None
    found: tuple[Found, ...] = ()


RULES = (
    Rule(
        "no commit is retried by the library",
        "a decision is carried out on a state it was not made for",
        "table-commit-retries",
        (2, 6),
        found=(Found("lost update", 3, "publisher-1:78 foreign-1:10", 149),),
    ),
    Rule(
        "no commit is retried by the library",
        "a decision is carried out on a state it was not made for",
        "log-append-retries",
        (2, 6),
        found=(Found("readers see another state than was published", 3, "publisher-2:195 publisher-1:1", 399),),
    ),
    Rule(
        "the transaction id is looked up before a commit",
        "a recovered publication is applied twice",
        "no-transaction-check",
        (2, 6),
        found=(
            Found("applied twice", 1, "publisher-1:21! repeater-1:28 publisher-1:1", 207),
            Found("a value that nobody wrote", 1, "publisher-1:21! repeater-1:28 publisher-1:1", 217, afterwards=True),
        ),
    ),
    Rule(
        "tables that an abort did not reach are fenced",
        "a slow publisher commits after the abort",
        "abort-without-fences",
        (2, 3),
        cast="publisher publisher person",
        found=(
            Found("readers see another state than was published", 2, "publisher-1:69 person-1:1", 122),
            Found("G1a, aborted read", 1, "publisher-1:62 person-1:1", 224, afterwards=True),
        ),
    ),
    Rule(
        "expected state holds the last publication too",
        "equal files that were away and came back hide a rollback",
        "expected-without-publication",
        (11,),
        cast="publisher publisher undo",
        found=(Found("G-single, read skew", 50, "publisher-1:137 undo-1:237", 612, afterwards=True),),
    ),
    Rule(
        "expected state is captured before inputs are read",
        "a change in between is overwritten unseen",
        "pin-expected-after-inputs",
        (11,),
        written=(81, "appender-1:180 publisher-1:12 appender-1:180 publisher-2:260 publisher-1:260"),
        found=(
            Found(
                "newer result overwritten unseen",
                81,
                "appender-1:133 publisher-1:9 appender-1:180 publisher-2:225",
                802,
            ),
        ),
    ),
    Rule(
        "withdrawn input rows refuse, gained rows do not",
        "wrong results are published, or a steady stream starves everyone",
        "inputs-withdrawn-accepted",
        (11,),
        written=(11, "appender-1:90 publisher-1:60 undo-1:150 publisher-1:150"),
        found=(Found("made of withdrawn rows", 11, "appender-1:78 publisher-1:1 undo-1:69", 299),),
    ),
    Rule(
        "withdrawn input rows refuse, gained rows do not",
        "wrong results are published, or a steady stream starves everyone",
        "inputs-gained-refused",
        (),
    ),
    Rule(
        "an open entry locks its tables",
        "two publishers interleave on one day",
        "open-entry-locks-nothing",
        (2, 11),
        found=(
            Found("prepared past a lock", 1, "publisher-1:1! publisher-1:47! publisher-1:1", 175),
            Found(
                "G-single in real time, stale read",
                1,
                "publisher-1:1! publisher-1:188! publisher-1:1",
                340,
                afterwards=True,
            ),
        ),
    ),
    Rule(
        "an abort leaves days alone that others changed",
        "a foreign write is undone silently",
        "abort-over-others-days",
        (6,),
        cast="publisher foreign foreign person",
        found=(
            Found("foreign write undone", 87, "publisher-1:68 foreign-1:1 person-1:1", 126),
            Found("not linearizable: fact", 87, "publisher-1:68 foreign-1:1 person-1:1", 245, afterwards=True),
        ),
    ),
    Rule(
        "done is only written on a log without an abort, when each table has its commit",
        "readers disagree about what was published",
        "done-against-an-abort",
        (2, 4),
        found=(
            Found(
                "readers see another state than was published", 1, "publisher-1:21! publisher-1:1 repeater-1:28", 174
            ),
            Found(
                "G-single in real time, stale read",
                4,
                "publisher-1:3! publisher-2:47 publisher-1:1",
                270,
                afterwards=True,
            ),
        ),
    ),
    Rule(
        "done is only written on a log without an abort, when each table has its commit",
        "readers disagree about what was published",
        "close-without-commits",
        (2, 4),
    ),
    Rule(
        "no add may name an active path",
        "Spark loses the day that delta-rs keeps",
        "active-path-added",
        (1, 6),
        found=(Found("a day that Spark loses", 2, "source-1:1", 101),),
    ),
    Rule(
        "a notice becomes due by the append that closes",
        "it says what never happened",
        "notice-due-before-its-publication",
        (),
        found=(Found("said what never happened", 2, "publisher-1:69 deliverer-1:1", 98),),
    ),
    Rule(
        "no closed day changes, asked on the version of the log that is appended to",
        "what was reported is not what is there",
        "closed-days-published",
        (),
        cast="publisher bookkeeper",
        found=(Found("a closed day changed", 1, "bookkeeper-1:20 publisher-1:1", 111),),
    ),
    Rule(
        "no closed day changes, asked on the version of the log that is appended to",
        "what was reported is not what is there",
        "closed-days-of-another-version-of-the-log",
        (),
    ),
    Rule(
        "every added file exists, and no reclaim intent names it",
        "main names a file that is being deleted",
        "reclaimed-files-published",
        (9,),
        cast="publisher publisher reclaimer time",
        found=(Found("a file that is gone", 5, "publisher-1:25 reclaimer-1:36", 187),),
    ),
    Rule(
        "every added file exists, and no reclaim intent names it",
        "main names a file that is being deleted",
        "reclaim-without-intent",
        (9,),
    ),
    Rule(
        "positions are compared and committed with the rows",
        "a landed file counts twice, or never",
        "positions-not-compared",
        (6, 8),
        found=(Found("rows that count twice", 1, "appender-1:44! appender-1:79", 303),),
    ),
    Rule(
        "positions are compared and committed with the rows",
        "a landed file counts twice, or never",
        "positions-not-committed",
        (6, 8),
        found=(Found("rows that count twice", 1, "appender-2:1", 126),),
    ),
)
BY_PATCH = {rule.patch: rule for rule in RULES}


def table(rules: Iterable[Rule]) -> Iterator[str]:
    """As markdown: a line for each rule and way of looking."""
    yield "| rule | invariants | taken out by | seen | anomaly | seed | shortest history |"
    yield "|---|---|---|---|---|---:|---|"
    for rule in rules:
        carries = ", ".join(map(str, rule.carries))
        for each in rule.found:
            when = "afterwards" if each.afterwards else "at once"
            seen = f"{when} | {each.anomaly} | {each.seed} | {_size(each)}"
            yield f"| {rule.text} | {carries} | `{rule.patch}` | {seen} |"
        if not rule.found:
            shown_by = read(HERE / f"{rule.patch}.patch").tests[0].partition("[")[0].partition("/")[2]
            yield f"| {rule.text} | {carries} | `{rule.patch}` | | none is kept: `{shown_by}` | | |"


def page() -> str:
    """What is kept, for people."""
    return "\n".join([_ABOVE.rstrip("\n"), "", *table(RULES), ""])


def _size(found: Found) -> str:
    turns = list(map(Turn.parse, found.turns.split()))
    ends = sum(turn.ends != "waits" for turn in turns)
    died = f", {ends} of them broken off" if ends else ""
    who, how_often = (f"{n} {what}{'s' * (n > 1)}" for n, what in ((len(found.actors), "actor"), (len(turns), "turn")))
    return f"{who}, {how_often}{died}, {found.steps:,} steps"


def again(rule: Rule, kept: Iterable[Found]) -> list[Found]:
    """What ``kept`` of ``rule`` shows now, with the sentences of the judges."""
    shown = []
    for _, of_one_kind in groupby(kept, key=lambda each: each.afterwards):
        alike = list(of_one_kind)
        for each, names in zip(alike, play_again(rule.patch, alike), strict=True):
            anomaly = each.anomaly if each.anomaly in names else next(iter(names), "nothing")
            shown.append(replace(each, anomaly=anomaly, said=names.get(anomaly, "")))
    return shown


def played_again(rule: Rule) -> Rule:
    return replace(rule, found=tuple(again(rule, rule.found)))


def searched(rule: Rule, seeds: range) -> Rule:
    found = (_searched(rule, seeds, afterwards=afterwards) for afterwards in (False, True))
    return replace(rule, found=tuple(each for each in found if each is not None))


def _searched(rule: Rule, seeds: range, *, afterwards: bool) -> Found | None:
    found = search(rule.patch, seeds, rule.cast.split(), afterwards=afterwards)
    if found is None and rule.written is not None:
        return shortened(rule.patch, *rule.written, afterwards=afterwards)
    return found


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when each rule shows something, by one of its patches."""
    parser = argparse.ArgumentParser(prog=_AGAIN, description=__doc__)
    parser.add_argument("patches", nargs="*", metavar="PATCH", help=f"of {', '.join(BY_PATCH)}; without, all")
    parser.add_argument("--seeds", type=int, default=0, help="search anew, from seed 1 on")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(TREE)}, and play nothing")
    asked = parser.parse_args(arguments)
    if asked.page:
        PAGE.write_text(page())
        return 0
    if unknown := sorted(set(asked.patches) - set(BY_PATCH)):
        parser.error(f"There is no rule {unknown[0]}.")
    chosen = [rule for rule in RULES if rule.patch in asked.patches or not asked.patches]
    play = partial(searched, seeds=range(1, asked.seeds + 1)) if asked.seeds else played_again
    played = []
    with ThreadPoolExecutor(asked.processes) as pool:
        for rule in pool.map(play, chosen):
            played.append(rule)
            print("\n".join(_told(rule)), flush=True)
    print("", *table(played), sep="\n")
    return 0 if {rule.text for rule in played if rule.found} == {rule.text for rule in played} else 1


def _told(rule: Rule) -> Iterator[str]:
    yield f"{rule.patch}: {rule.text}"
    for each in rule.found:
        yield f"  {each.anomaly}: {each.said}"
        yield f"    seed {each.seed}, {_size(each)}: {each.turns}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
