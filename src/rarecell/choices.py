"""Which words may an option take? Defined once, for the command line, the configuration, the library and the app."""

MATCHES_ANYTHING = "matches-anything"
"""A missing key value matches every value."""

READ_MISSING = ("level", "drop", "refuse")
"""What to do with a missing key value when data are read: make it a level of its own, drop its record, or raise an error."""

MISSING = ("level", MATCHES_ANYTHING, "drop", "refuse")
"""What a missing key value means to a run; one that matches anything is read as a level."""

SEARCHES = ("auto", "exact", "local", "greedy")
"""How the best single model is searched for."""

MODELS = ("average", "single", "bayes", "hierarchical", "regularised", "stacked", "independence", "saturated")
"""Where the risk comes from."""

RESOLUTIONS = ("multi", "full")
"""Whether models may also use keys at coarser resolutions."""

FORMS = ("multinomial", "poisson", "poisson-gamma")
"""Distribution of the population count of a cell."""

YES_NO = ("yes", "no")
"""Whether an intruder knows who lives with whom."""

ZEROS = ("swaps", "detect", "off")
"""What to do about structural zeros, unless a file lists them."""

CHECK_FORMATS = ("text", "json", "junit", "sarif")
"""How a check is printed for a pipeline."""
