"""What is declared: a module is a dataset, found by being here. ``model/landed_dataset`` is what it is made with.

- ``sales``: grocery lines in many currencies, and reports; it reads the next two.
- ``fx_rates``: reference rates of the European Central Bank.
- ``products``: the catalogue.
- ``sea_temperatures``: readings at a buoy.
"""
