"""The figures as Prometheus reads them: printed, in a file, and on a port; read with its own parser."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backfill_assets.answers.metrics import ReadForMetrics, families
from backfill_assets.cli.dev.metrics_server import metrics_server
from backfill_assets.errors import LakehouseUnusable
from backfill_assets_tests.cli.command import Backfill

DAY = date(2017, 3, 1)


def _read(text: str) -> dict[str, dict[Mapping[str, str] | str, float]]:
    found: dict[str, dict[Mapping[str, str] | str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


@pytest.fixture
def published(backfill: Backfill) -> Backfill:
    backfill.lakehouse.publish("one", {"raw_sales": {DAY: [1, 2]}}, mode="append")
    backfill.lakehouse.publish("two", {"bronze_sales": {DAY: [1, 2, 3]}})
    return backfill


def test_figures_are_printed_as_prometheus_reads_them(published: Backfill) -> None:
    printed = published("metrics").stdout
    found = _read(printed)
    assert found["backfill_publications_total"] == {"kind=append,outcome=done": 1, "kind=replace,outcome=done": 1}
    assert found["backfill_rows"] == {"table=raw_sales": 2, "table=bronze_sales": 3}
    assert found["backfill_days"]["status=missing,table=fact_daily_revenue"] == 1
    for family in families(ReadForMetrics(), published.lakehouse.now()):
        assert f"# TYPE {family.shown_as} {family.kind}\n" in printed


def test_a_file_is_written_whole_for_node_exporter(published: Backfill, tmp_path: Path) -> None:
    file = tmp_path / "backfill.prom"
    file.write_text("of before")
    assert f"Written to {file}" in published("metrics", str(file)).stdout.replace("\n", "")
    assert _read(file.read_text())["backfill_rows"]["table=bronze_sales"] == 3
    assert [each.name for each in tmp_path.glob("backfill.prom*")] == ["backfill.prom"], "nothing unfinished is left"
    refused = published("metrics", str(tmp_path / "none" / "backfill.prom"), exit_code=1)
    assert "cannot be written: No such file or directory" in refused.stderr


def test_an_empty_lakehouse_and_a_missing_package(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _read(backfill("metrics").stdout)["backfill_publications_under_way"] == {"": 0}
    monkeypatch.setattr("backfill_assets.cli.prometheus_text.find_spec", lambda _: None)
    assert "pip install 'backfill-assets[metrics]'" in backfill("metrics", exit_code=1).stderr


@contextmanager
def _serving(*more: Any) -> Iterator[HTTPConnection]:
    with metrics_server(*more) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
        server.shutdown()
        thread.join()


def _get(connection: HTTPConnection, path: str) -> tuple[int, str, str]:
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read().decode()


def test_a_scrape_gets_what_is_now(published: Backfill) -> None:
    with _serving() as connection:
        status, kind, body = _get(connection, "/metrics")
        assert (status, kind.partition(";")[0]) == (200, "text/plain")
        assert _read(body)["backfill_rows"]["table=bronze_sales"] == 3
        published.lakehouse.publish("three", {"bronze_sales": {DAY: [1]}})
        again = _read(_get(connection, "/metrics?x=1")[2])
        assert again["backfill_rows"]["table=bronze_sales"] == 1
        assert again["backfill_publications_total"] == {"kind=append,outcome=done": 1, "kind=replace,outcome=done": 2}
        assert _get(connection, "/etc/passwd")[0] == 404


def test_a_lakehouse_that_cannot_be_read_shows_the_target_as_down(capsys: pytest.CaptureFixture[str]) -> None:
    def damaged() -> bytes:
        raise LakehouseUnusable("The log is damaged.", hint="Mend it.")

    with _serving(damaged) as connection:
        status, _, body = _get(connection, "/metrics")
        assert (status, body) == (503, "The log is damaged.\n  -> Mend it.\n")
        assert _get(connection, "/metrics")[0] == 503, "it goes on serving"
    assert "Mend it." in capsys.readouterr().err


def test_what_is_off_is_not_imported(backfill: Backfill) -> None:
    """A look at the lakehouse imports neither extra."""
    backfill("status")
    assert not {"openlineage", "prometheus_client"} & {name.partition(".")[0] for name in _imported_by_status()}


def _imported_by_status() -> set[str]:
    import subprocess

    program = (
        "import sys\nfrom backfill_assets.cli import main\nmain(['status'], standalone_mode=False)\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())
