"""Which words may an option take? Said once, for the command, the configuration, the library and the app."""

MISSING = ("level", "drop", "refuse")
"""What a missing key value means: a level of its own, a record to drop, or an error."""

SEARCHES = ("auto", "exact", "local", "greedy")
"""How the best single model is searched for."""

MODELS = ("average", "single", "bayes", "hierarchical", "regularised", "stacked", "independence", "saturated")
"""Where the risk comes from."""

RESOLUTIONS = ("multi", "full")
"""Whether models may use keys at coarser resolutions, too."""

FORMS = ("multinomial", "poisson", "poisson-gamma")
"""Distribution of the population count of a cell."""

ZEROS = ("swaps", "detect", "off")
"""What is done about structural zeros, unless a file lists them."""
