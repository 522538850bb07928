"""What can be declared of a dataset: tables, contracts, rules, and the step from landed text to typed rows."""
