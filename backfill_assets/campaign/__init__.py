"""A plan carried out: waves, approval, cut-over, undo."""
