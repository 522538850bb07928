"""Which process gets which file of tests, and in what order the files are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from xdist.workermanage import WorkerController

from backfill_assets_tests import from_both_ends
from backfill_assets_tests.conftest import place_of_file
from backfill_assets_tests.from_both_ends import FromBothEnds, server_of

FILES = [f"test_{name}.py" for name in "abcdefgh"]


@dataclass(eq=False)
class Process:
    """Notes the numbers of the tests that it is given, two for each file."""

    given: list[int] = field(default_factory=list)
    shutting_down: bool = False
    gateway: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(id="a process"))

    def send_runtest_some(self, numbers: Sequence[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True

    def files(self) -> str:
        """The letters of its files, in the order in which they came."""
        return "".join(FILES[number // 2][5] for number in self.given[::2])


def dealt(pytestconfig: pytest.Config, count: int) -> tuple[FromBothEnds, list[Process]]:
    """The first files are dealt out to ``count`` processes."""
    pytestconfig.option.tx = ["popen"] * count
    pytestconfig.option.loadscopereorder = False
    scheduling, processes = FromBothEnds(pytestconfig), [Process() for _ in range(count)]
    nodes = [cast("WorkerController", process) for process in processes]
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, [f"{file}::test_{number}" for file in FILES for number in (1, 2)])
    scheduling.schedule()
    return scheduling, processes


def work(scheduling: FromBothEnds, processes: Sequence[Process]) -> None:
    """Each process does one test after the other, in turns, until nothing is left."""
    done = [0] * len(processes)
    while any(len(process.given) > count for process, count in zip(processes, done, strict=True)):
        for number, process in enumerate(processes):
            if done[number] < len(process.given):
                test = process.given[done[number]]
                done[number] += 1
                scheduling.mark_test_complete(cast("WorkerController", process), test)


@pytest.fixture
def config(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> pytest.Config:
    for name in ("tx", "loadscopereorder", "markexpr"):
        monkeypatch.setattr(pytestconfig.option, name, getattr(pytestconfig.option, name, None), raising=False)
    return pytestconfig


def test_the_last_of_three_begins_at_the_other_end(config: pytest.Config) -> None:
    _, processes = dealt(config, 3)
    assert [process.files() for process in processes] == ["ac", "bd", "hg"]


def test_every_file_is_done_once_and_whole(config: pytest.Config) -> None:
    """Each process has its share, though one came from the other end."""
    scheduling, processes = dealt(config, 3)
    work(scheduling, processes)
    assert scheduling.tests_finished and all(process.shutting_down for process in processes)
    assert sorted("".join(process.files() for process in processes)) == list("abcdefgh")
    assert sorted(number for process in processes for number in process.given) == list(range(2 * len(FILES)))
    assert all(len(process.files()) >= 2 for process in processes)


def test_one_process_alone_begins_at_the_front(config: pytest.Config) -> None:
    scheduling, (process,) = dealt(config, 1)
    work(scheduling, [process])
    assert process.files() == "abcdefgh"


@pytest.mark.parametrize(("asked", "front"), [("not long", ["aceg", "bd", "hf"]), ("long", ["ac", "bd", "hg"])])
def test_files_that_ask_one_server_are_dealt_out_together_unless_they_are_in_full_size(
    config: pytest.Config, monkeypatch: pytest.MonkeyPatch, asked: str, front: list[str]
) -> None:
    config.option.markexpr = asked
    monkeypatch.setattr(from_both_ends, "server_of", lambda file: "a server" if file.name[5] in "ceg" else "")
    scheduling, processes = dealt(config, 3)
    assert [process.files() for process in processes] == front
    work(scheduling, processes)
    assert sorted("".join(process.files() for process in processes)) == list("abcdefgh")


def test_a_server_is_known_by_the_fixtures_that_a_file_asks_for(pytestconfig: pytest.Config) -> None:
    tests = Path(__file__).parent
    files = ("spark/test_lookups.py", "stream/test_topic_stream.py", "stories/test_refresh.py", "not_there.py")
    assert [server_of(tests / file) for file in files] == ["the Connect server", "the Kafka broker", "", ""]


def test_files_on_spark_are_at_one_end_and_those_that_wait_for_processes_at_the_other() -> None:
    """What is small is in between; a file belongs where its largest test does."""
    files = [
        place_of_file({"story"}, on_spark=True),
        place_of_file({"fast", "data"}, on_spark=False),
        place_of_file({"fast", "spark", "protocol"}, on_spark=True),
        place_of_file({"fast", "protocol"}, on_spark=False),
        place_of_file({"fast", "story"}, on_spark=False),
    ]
    assert files == sorted(set(files))
