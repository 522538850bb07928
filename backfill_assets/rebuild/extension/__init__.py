"""Days that grow: what was published is extended by what new raw rows change, and equals a whole rebuild."""
