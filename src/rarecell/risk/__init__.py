"""Identification risk: of each record and of the file, where it comes from, and how far the estimate can be trusted.

``records`` is the way in; it takes a table and a model. ``formulas`` has the mathematics of one cell, ``design`` what is known
about the sampling, ``posterior`` the risk of cells whose probability is itself uncertain. ``interval`` and ``diagnostics`` say
how far to trust the numbers, ``explain`` where they come from. ``population_uniques`` and ``unsafe`` hold the measures that
other programs use.
"""
