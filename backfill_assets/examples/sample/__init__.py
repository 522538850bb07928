"""Sample data for the landing zone. Equal requests land equal bytes.

- ``real``: groceries of 2017, a buoy. ``references``: rates and catalogues.
- ``synthetic``, ``sales_line``: generated lines.
- ``defects``: what is wrong with some, and what becomes of them.
- ``live``: endless sales, second by second.
- ``landing_writer``: files that appear whole.
"""
