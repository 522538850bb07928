"""Sales: from landed receipts to daily revenue in euros, and the reports on it."""
