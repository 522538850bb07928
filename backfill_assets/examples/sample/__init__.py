"""Sample data for the landing zone, as source systems would leave it: real groceries and ECB rates, or synthetic."""
