"""Figures as Prometheus reads them, with the extra ``metrics``: printed, served, or written to a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.answers.metrics import ClosedCount, Family, figures
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

INSTALL_METRICS = "pip install 'backfill-assets[metrics]'"


def require_extra() -> None:
    if find_spec("prometheus_client") is None:
        raise InvalidRequest("The package prometheus-client is not installed.", hint=INSTALL_METRICS)


def current_text(ended: ClosedCount | None = None) -> bytes:
    """Prometheus's text format. ``ended`` is that of the scrape before."""
    from prometheus_client import generate_latest

    return generate_latest(_registry(_current_figures(ended)))


def write_text(file: Path) -> None:
    """One rename: node_exporter reads the whole file."""
    from prometheus_client import write_to_textfile

    try:
        write_to_textfile(str(file), _registry(_current_figures()))
    except OSError as error:
        raise InvalidRequest(
            f"{file} cannot be written: {error.strerror}.", hint="Name a file in a folder that is there."
        ) from error


def _current_figures(ended: ClosedCount | None = None) -> list[Family]:
    return figures(open_storage(), current_catalog().steps, current_settings().core_hour_price, ended)


def _registry(found: Iterable[Family]) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Found(list(found)))
    return registry


class _Found:
    def __init__(self, found: list[Family]) -> None:
        self.found = found

    def collect(self) -> Iterator[Metric]:
        from prometheus_client import Metric

        for family in self.found:
            metric = Metric(family.name, family.words, family.kind)
            for labels, value in family.samples:
                metric.add_sample(family.shown_as, dict(labels), value)
            yield metric
