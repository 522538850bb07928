"""The dataset ``sales``, from landed receipts to revenue in euros: read ``landed``, ``transactions``, ``reports``."""
