"""What was seen is judged by libraries of others: orders by porcupine, cycles by rustworkx.

``python -m backfill_assets_tests.simulator.judges FILE`` judges a history that was written to a file.
"""

from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges import cycles, linearizable
from backfill_assets_tests.simulator.judges.verdict import Anomaly, Verdict

__all__ = ["Anomaly", "Verdict", "judged"]


def judged(history: History, *, seconds: float = 30.0) -> tuple[Verdict, ...]:
    """What each judge says; porcupine gives up on a table after ``seconds``."""
    return cycles.verdict(history), linearizable.verdict(history, seconds=seconds)
