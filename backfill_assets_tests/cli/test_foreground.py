from __future__ import annotations

import signal
import sys
import time
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from py4j import java_gateway

from backfill_assets.cli.foreground import interrupt


class _Collected:
    """What PySpark has of an object in the JVM."""


@pytest.fixture(autouse=True)
def _handled() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, interrupt)
    yield
    signal.signal(signal.SIGINT, before)


def _pressing_ctrl_c_while_it_is_collected(found: _Collected) -> weakref.ref[_Collected]:
    """As py4j is told of an object that nobody needs: by a function without a name in this file of its."""
    told = compile("lambda _: press(signal)", java_gateway.__file__, "eval")
    names = {"press": signal.raise_signal, "signal": signal.SIGINT}
    return weakref.ref(found, eval(told, names))  # noqa: S307


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
