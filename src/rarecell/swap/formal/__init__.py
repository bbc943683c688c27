"""Randomised swaps with a stated ε, subject to what is kept.

``edges`` roots the junction tree, ``strata`` sorts the rows for a kernel, ``mechanism`` runs the kernels, leaves first,
``calibration`` chooses root and θ from invariants, and ``release`` puts it all together.
"""
