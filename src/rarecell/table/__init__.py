"""The sparse contingency table of the keys, its marginals, and what can be derived from its counts."""
