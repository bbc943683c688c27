"""Models of cell probabilities: what can be asked of one is in :mod:`rarecell.model.protocol`."""
