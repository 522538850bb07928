"""When a day is good: measurements and verdicts of the rules in ``model/rules.py``."""
