"""``python -m backfill_assets_tests.simulator.judges FILE``: what the judges say of a history that was kept.

Without a file, what they need is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges import judged, linearizable


def main() -> int:
    if len(sys.argv) == 1:
        return _build()
    verdicts = judged(History.from_json(Path(sys.argv[1]).read_text()))
    print(*verdicts, sep="\n")
    return 1 if any(verdict.anomalies for verdict in verdicts) else 0


def _build() -> int:
    try:
        linearizable.program()
    except linearizable.NotBuilt as error:
        print(f"{error}.", file=sys.stderr)
        return 1 if linearizable.has_to_be_there() else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
