"""The code location as a component of ``dg``: one YAML file in the ``defs`` folder of a project.

>>> BackfillAssets.resolve_from_yaml("datasets: shop.datasets").datasets
'shop.datasets'
"""

from __future__ import annotations

import dagster as dg

from backfill_assets.defs.location import backfill_definitions
from backfill_assets.errors import InvalidRequest
from backfill_assets.model import catalog
from backfill_assets.settings import of_project


class BackfillAssets(dg.Component, dg.Model, dg.Resolvable):
    """Daily tables of declared datasets whose history is rebuilt safely.

    ``datasets`` is the package that declares them, by default the one that ``[tool.backfill]`` of the project names.
    Settings come from the environment, as for commands. Raises :class:`InvalidRequest` if no package is named, and for
    one that is not there.
    """

    datasets: str = ""

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            description="Tables from landed files to reports, with checks and backfills that publish all or nothing.",
            produces=["asset", "asset_check", "job", "schedule", "sensor", "resource"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        name = self.datasets or of_project(context.project_root, "backfill", "datasets")
        if not name:
            raise InvalidRequest(
                f"{context.path} names no datasets.",
                hint="Write the package that declares them: datasets: shop.datasets, below attributes.",
            )
        return backfill_definitions(catalog.load(name))
