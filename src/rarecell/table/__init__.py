"""The sparse contingency table of the keys, its marginals, and what follows from its counts."""
