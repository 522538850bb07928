"""How rows come in: landed files, tokens, quarantine."""
