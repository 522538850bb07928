"""The head of the log from entry to entry: what is promised, asked for, due, current and given back. No lakehouse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.lakehouse.records import CurrentVersion, Kind, Outcome, Publication
from backfill_assets.publish.head import TURN, HeadState, OpenEntry, named_files

NOW = datetime(2017, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def entry(**changes: object) -> OpenEntry:
    made = OpenEntry(publication="p", file="p.parquet", writes=frozenset({"t"}), reads=frozenset({"raw"}))
    return made.model_copy(update=changes)


def closed(state: HeadState, outcome: Outcome, versions: dict[str, int] | None = None) -> HeadState:
    return state.closing("p", outcome, versions or {"t": 2, "u": 1}, "index", ["before"], "end.parquet")


def test_a_longer_window_that_was_promised_counts_to_its_last_moment() -> None:
    state = HeadState(promised={"90": NOW, "7": NOW + SECOND})
    assert [state.window_days(30, at) for at in (NOW - SECOND, NOW, NOW + SECOND)] == [90, 90, 30]
    assert state.window_days(120, NOW) == 120 and HeadState().window_days(30, NOW) == 30
    opened = state.opening(Publication(id="p", kind="replace", tables=()), 30, NOW + SECOND, "p.parquet")
    assert opened.promised == {"7": NOW + SECOND, "30": NOW + SECOND + timedelta(days=30)}


def test_a_turn_lasts_as_long_as_a_turn_and_the_oldest_is_first() -> None:
    """Whoever asked by a clock that is ahead is not waited for: nobody would know how long."""
    state = HeadState().asking("b", NOW).asking("a", NOW + SECOND)
    assert list(state.waiting(NOW + SECOND)) == ["b", "a"]
    assert list(state.waiting(NOW + TURN)) == ["a"] and not state.waiting(NOW + SECOND + TURN)
    assert list(state.waiting(NOW)) == ["b"]
    opened = state.opening(Publication(id="b", kind="replace", tables=()), 30, NOW + SECOND, "b.parquet")
    assert list(opened.turns) == ["a"], "it has had its turn"


def test_news_of_a_table_are_publications_to_it_and_their_aborts() -> None:
    state = HeadState(versions={"t": 1, "u": 1}, open={"p": entry()})
    assert state.is_written("t") and not state.is_written("raw")
    news = {table: state.news_of({table}) for table in ("t", "u", "raw")}
    for other in (state.aborting("p"), closed(state, "done")):
        assert other.news_of({"t"}) != news["t"]
        assert (other.news_of({"u"}), other.news_of({"raw"})) == (news["u"], news["raw"])


@pytest.mark.parametrize("outcome", ["done", "aborted"])
def test_only_what_is_done_has_days_a_notice_and_a_switch(outcome: Outcome) -> None:
    switches = {"fact": "v2", "gone": "", "new": "v1"}
    current = {step: CurrentVersion(version="v1", publication="o") for step in ("fact", "gone", "other")}
    before = HeadState(
        open={"p": entry(has_notice=True, switches=switches), "q": entry(publication="q")},
        current=current,
        due={"o": "o.parquet"},
    )
    after, done = closed(before, outcome), outcome == "done"
    assert list(after.open) == ["q"] and after.versions == {"t": 2, "u": 1}
    assert after.outcomes == {"p": outcome} and after.index == "index"
    assert after.since == (("before", "end.parquet") if done else ("before",))
    assert after.due == {"o": "o.parquet", **({"p": "p.parquet"} if done else {})}
    assert after.switches == ({"fact": "v2", "new": "v1", "other": "v1"} if done else dict.fromkeys(current, "v1"))
    assert after.delivering("o").due.keys() == after.due.keys() - {"o"}


def test_a_table_that_is_given_back_leaves_the_map() -> None:
    """But not by what was aborted."""
    giving = HeadState(open={"p": entry(hands_over="release")})
    released, kept = closed(giving, "done"), closed(giving, "aborted")
    assert released.released == {"t": "p"} and released.versions == {"u": 1}
    assert not kept.released and kept.versions == {"t": 2, "u": 1}


@pytest.mark.parametrize(
    ("hands_over", "outcome", "back"), [("adopt", "done", True), ("adopt", "aborted", False), ("", "done", False)]
)
def test_a_table_that_was_given_back_is_ours_again_once_it_is_adopted(
    hands_over: str, outcome: Outcome, back: bool
) -> None:
    after = closed(HeadState(released={"t": "before"}, open={"p": entry(hands_over=hands_over)}), outcome, {"t": 3})
    assert after.released == ({} if back else {"t": "before"}) and after.versions == {"t": 3}


@pytest.mark.parametrize(("kind", "hands_over"), [("adopt", "adopt"), ("release", "release"), ("replace", "")])
def test_an_entry_says_whether_it_hands_tables_over(kind: Kind, hands_over: str) -> None:
    opened = HeadState().opening(Publication(id="p", kind=kind, tables=()), 30, NOW, "p.parquet")
    assert opened.open["p"].hands_over == hands_over


def test_the_newest_outcomes_are_remembered() -> None:
    state = HeadState(outcomes={f"o{n}": "done" for n in range(64)}, open={"p": entry()})
    assert list(closed(state, "done").outcomes) == [*(f"o{n}" for n in range(1, 64)), "p"]


def test_every_file_that_the_head_names_is_kept() -> None:
    state = HeadState(index="i", since=("s",), reclaiming={"r": "intent"}, due={"d": "due"}, open={"p": entry()})
    assert set(named_files(state)) == {"i", "s", "intent", "due", "p.parquet"}
    intended = state.intending("r2", "intent 2")
    assert intended.reclaimed == "r2" and intended.reclaiming == {"r": "intent", "r2": "intent 2"}
    assert intended.reclaiming_done("r").reclaiming == {"r2": "intent 2"}
