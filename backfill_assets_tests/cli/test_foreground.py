from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from py4j import java_gateway
from py4j.clientserver import ClientServerConnection

from backfill_assets.cli.foreground import interrupt, silence_py4j

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Collected:
    """What PySpark has of an object in the JVM."""


@pytest.fixture(autouse=True)
def _handled() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, interrupt)
    yield
    signal.signal(signal.SIGINT, before)


def _pressing_ctrl_c_while_it_is_collected(found: _Collected) -> weakref.ref[_Collected]:
    """As py4j is notified of an object that is not needed: by a function without a name in this file of its."""
    told = compile("lambda _: press(signal)", java_gateway.__file__, "eval")
    names = {"press": signal.raise_signal, "signal": signal.SIGINT}
    return weakref.ref(found, eval(told, names))  # noqa: S307


@contextmanager
def _pressing_ctrl_c_after(seconds: float) -> Iterator[None]:
    """Within the block alone: what fails in it is not to end all tests."""
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_ctrl_c_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_not_lost_while_an_object_of_pyspark_is_collected() -> None:
    """Python ignores what is raised there."""
    found = _Collected()
    told = _pressing_ctrl_c_while_it_is_collected(found)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        del found
        assert told() is None
        time.sleep(10)


def test_ctrl_c_in_a_call_to_the_jvm_comes_through_what_pyspark_asks_meanwhile(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark forgets the place of a call as it leaves it: by a call of its own, while other threads have theirs.

    What py4j would shut down for it is now and then the connection of that call, so it is to shut down none.
    """
    shut_down: list[object] = []
    monkeypatch.setattr(ClientServerConnection, "shutdown_socket", lambda *ports: shut_down.append(ports))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: spark.range(1).count(), range(8)))
        for seconds in (0.2, 0.3, 0.4):
            with _pressing_ctrl_c_after(seconds), pytest.raises(KeyboardInterrupt):
                spark.sql("SELECT java_method('java.lang.Thread', 'sleep', CAST(1000 AS BIGINT))").collect()
            assert list(threads.map(lambda _: spark.range(3).count(), range(8))) == [3] * 8
    assert shut_down == []


def test_py4j_still_collects_by_a_function_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that ``interrupt`` looks for is py4j's own: another version may choose another."""
    seen: list[tuple[str, str]] = []

    def collected(*_: object) -> None:
        code = sys._getframe(1).f_code
        seen.append((code.co_name, code.co_filename))

    monkeypatch.setattr(java_gateway, "_garbage_collect_object", collected)
    memory = SimpleNamespace(auto_field=False, enable_memory_management=True)
    found = java_gateway.JavaObject("o1", SimpleNamespace(gateway_property=memory, address="test", port=1))
    del found
    assert seen == [("<lambda>", java_gateway.__file__)]


@pytest.fixture
def py4j_silenced() -> Iterator[None]:
    root, filters, handlers = logging.getLogger(), list(logging.getLogger().filters), list(logging.getLogger().handlers)
    silence_py4j()
    yield
    root.filters, root.handlers = filters, handlers
    logging.getLogger("py4j").propagate = True


@pytest.mark.usefixtures("py4j_silenced")
def test_py4j_is_silent_and_everything_else_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    """A notice is a warning in a log: what silences py4j's stack traces must leave it alone."""
    logging.getLogger().addHandler(logging.StreamHandler())
    told = compile("log.exception('interrupted')", java_gateway.__file__, "exec")
    exec(told, {"log": logging})  # noqa: S102
    logging.getLogger("py4j.clientserver").error("a broken connection")
    logging.getLogger("backfill_assets.notices").warning("March is rebuilt")
    assert capsys.readouterr().err == "March is rebuilt\n"


@pytest.mark.usefixtures("py4j_silenced")
def test_py4j_silenced_leaves_python_its_last_resort(capsys: pytest.CaptureFixture[str]) -> None:
    """A handler on the root logger, even one that does nothing, would take it away."""
    logging.getLogger().handlers.clear()
    logging.getLogger("backfill_assets.notices").warning("March is rebuilt")
    assert "March is rebuilt" in capsys.readouterr().err
