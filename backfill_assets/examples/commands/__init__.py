"""Commands of the examples: `backfill` finds them by the entry points of this distribution."""
