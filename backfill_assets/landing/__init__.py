"""How rows come in: landed files, tokens, supersessions, quarantine."""
