"""Plan files: what they may say, and what comes of them."""
