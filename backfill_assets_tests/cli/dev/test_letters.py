"""Letters are served to a browser on this machine, and nothing else of the lakehouse is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from backfill_assets.cli.dev.dev import letters_port
from backfill_assets.cli.dev.letters import letter_server
from backfill_assets.lakehouse.plans import keep_page
from backfill_assets.lakehouse.storage import Storage

PLAN = "plan-0123456789abcdef"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    storage = Storage(str(tmp_path))
    keep_page(storage, PLAN, "<h1>Nothing changes ✓</h1>")
    storage.write_bytes(f"_plans/{PLAN}.difference.json", b"{}")
    with letter_server(storage) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield "127.0.0.1", server.server_address[1]
        server.shutdown()
        thread.join()


def get(address: tuple[str, int], path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection(*address, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())


def test_a_letter_is_served_under_the_id_of_its_plan(address: tuple[str, int]) -> None:
    """It may load nothing and run nothing, and is asked for again each time: a newer one takes its place."""
    status, page, headers = get(address, f"/{PLAN}")
    assert (status, page) == (200, "<h1>Nothing changes ✓</h1>")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Content-Type"] == "text/html; charset=utf-8" and headers["Cache-Control"] == "no-store"


def test_nothing_else_is_served_and_nothing_can_be_changed(address: tuple[str, int]) -> None:
    others = ("", "plan-ffffffffffffffff", f"{PLAN}.difference.json", f"../{PLAN}", f"{PLAN}/", f"%2e%2e/{PLAN}", "etc")
    for path in others:
        status, page, _ = get(address, f"/{path}")
        assert status == 404 and "backfill diff PLAN --html writes one." in page, path
    assert get(address, f"/{PLAN}", "POST")[0] == get(address, f"/{PLAN}", "DELETE")[0] == 501


def test_letters_have_the_port_after_that_of_the_ui(address: tuple[str, int]) -> None:
    """So that a link in the UI is good after a restart; a port that is taken is left to who has it."""
    assert letters_port(39170) == 39171
    assert letters_port(address[1] - 1) != address[1]
    assert 0 < letters_port(65535) <= 65535, "there is no port after the last one"
