"""What is declared: a module is a dataset, found by being here. ``model/landed_dataset.py`` is what it is made with."""
