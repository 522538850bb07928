"""What finds and repairs stale days, and maintains the tables."""
