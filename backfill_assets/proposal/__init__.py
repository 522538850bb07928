"""Proposes declarations of datasets from samples. What a sample does not show is asked, as a comment in the text.

The way in:

- ``of_files``, ``of_tables``: a dataset from files; from a table of others.

What is seen?

- ``sample``, ``dialect``: the first records of some files.
- ``table_sample``: those of a table.
- ``measured``, ``profile``, ``forms``: values by kind and form.

What follows?

- ``field_types``: types that lose no digit.
- ``names``, ``roles``: which fields are day, key, version.

How is it written?

- ``declaration_text``, ``external_text``, ``source_text``: the module.
- ``questions``: open ones in it.

>>> from backfill_assets.proposal.names import words_of
>>> words_of("customerId")
('customer', 'id')
"""
