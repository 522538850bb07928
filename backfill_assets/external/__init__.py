"""Tables that others write: what their days are made of, when that moved, and their rows at a pinned version."""
