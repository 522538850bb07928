"""When a day is good. The rules are in ``model/rules.py``; here they are measured and judged."""
