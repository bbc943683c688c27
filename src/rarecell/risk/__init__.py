"""Identification risk: of every record, of the file, why it is there, and how far it can be believed.

``records`` is the way in; it takes a table and a model. ``formulas`` has the mathematics of one cell, ``design`` what is known
of the sampling, ``posterior`` cells whose probability is itself uncertain. ``interval`` and ``diagnostics`` say how far to trust
the numbers, ``explain`` where they come from. ``population_uniques`` and ``unsafe`` hold the measures that other programs use.
"""
