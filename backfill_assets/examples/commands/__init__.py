"""Commands of the examples; the command line finds them by entry points.

- ``sample``, ``demo``, ``lab``: a module each.
"""
