"""Sample data for the landing zone: real groceries and ECB rates, or synthetic."""
