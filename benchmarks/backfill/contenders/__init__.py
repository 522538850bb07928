"""Programs that rebuild the same days of the same four tables from the same raw tables, each in its own process."""
