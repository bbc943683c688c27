"""Which words may an option take? Said once, for the command, the configuration, the library and the app."""

MATCHES_ANYTHING = "matches-anything"
"""A missing key value is compatible with every value."""

READ_MISSING = ("level", "drop", "refuse")
"""What is done with a missing key value when data are read: it is a level of its own, drops its record, or is an error."""

MISSING = ("level", MATCHES_ANYTHING, "drop", "refuse")
"""What a missing key value means to a run: to one that matches anything it is read as a level."""

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
