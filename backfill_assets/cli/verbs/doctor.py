from __future__ import annotations

from dataclasses import replace

import click

from backfill_assets.cli.foreground import report_step
from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import awaited, say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.report.answer import Answer


@click.command()
@click.option("--fix", is_flag=True, help="First fetch or make what is missing: JARs of Spark, the class archive.")
@as_json
@click.pass_context
def doctor(ctx: click.Context, fix: bool) -> None:
    """Check Java, JARs, memory, disk, ports, landing zone, token key and lakehouse; say what to do.

    \b
    Examples:
      backfill doctor
      backfill doctor --fix
      backfill doctor --json

    Changes nothing without --fix. The exit code is 1 if something would stop a run.

    \b
    Settings come from the environment:
      BACKFILL_HOME             where everything is kept    [default: .data]
      BACKFILL_DATASETS         the package that declares the datasets
      BACKFILL_LAKEHOUSE        the lakehouse               [default: <home>/lakehouse]
      BACKFILL_LANDING          the landing zone            [default: <home>/landing]
      BACKFILL_CORE_HOUR_PRICE  price of a core for an hour, for plans
      BACKFILL_TIMELINE_DAYS    days until abandoned staged days are closed    [14]
      BACKFILL_APPROVAL_BY      anyone, another-person or listed may approve   [anyone]
      BACKFILL_DIRTY_TREE       refuse: publish only with committed code       [allow]
      BACKFILL_NOTICES          routes: log; file:PATH; webhook:URL; slack:URL;
                                alertmanager:URL; apprise:URL;
                                mail:smtp://HOST:PORT/?from=ADDRESS&to=ADDRESS;
                                each with, if need be,
                                for DATASET from warning quiet 22:00-07:00     [log]
      BACKFILL_SMTP_USER        with BACKFILL_SMTP_PASSWORD, for mail
      BACKFILL_HEARTBEAT        an address called while every sensor runs well
      BACKFILL_METRICS_PORT     where `backfill dev` serves figures to Prometheus
      OPENLINEAGE_URL           takes an event of each publication; needs
                                backfill-assets[lineage]
      BACKFILL_BREAKER          stops a backfill: errors=20%,slower=10,core_seconds=none
      BACKFILL_SHARED_SPARK     never: not the Spark of a running `backfill dev`   [use]
      BACKFILL_UI               Dagster's UI, if `backfill dev` did not start it
      SPARK_REMOTE              a Spark Connect server      [default: Spark inside]
      NO_COLOR                  no colours
    """
    from backfill_assets.answers.machine import examine, machine_answer
    from backfill_assets.answers.mended_machine import mend, mended_answer

    mended = mended_answer([*mend(current_settings(), report_step)]) if fix else Answer()
    with awaited("Examining this machine"):
        findings = examine(current_settings(), current_catalog)
    found = machine_answer(findings)
    say_answer(replace(found, parts=(*mended.parts, *found.parts)))
    if any(finding.verdict == "fail" for finding in findings.values()):
        ctx.exit(1)
