"""Commands of the examples; ``backfill`` finds them by entry points."""
