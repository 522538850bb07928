"""Tables that others write: what their days are made of, when a day moved, and rows at a pinned version."""
