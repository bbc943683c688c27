"""Which words may an option take? Defined once, for the command line, the configuration, the library and the app.

Each word stands with what the app shows for it.
"""

MATCHES_ANYTHING = "matches-anything"
"""A missing key value matches every value."""

REGISTER_COMPLETE = "register-complete"
"""A missing key value says nothing: the intruder's register has the true value of everybody."""

READ_MISSING = ("level", "drop", "refuse")
"""What to do with a missing key value when data are read: make it a level of its own, drop its record, or raise an error."""

MISSING = {
    "level": "a value of its own",
    MATCHES_ANYTHING: "compatible with every value",
    REGISTER_COMPLETE: "known to a complete register",
    "drop": "leave the record out",
    "refuse": "stop",
}
"""What a missing key value means to a run; for the two that concern the intruder's knowledge it is read as a level."""

EVERY_KEY = "*"
"""Stands for all keys that are not named."""

SKINNER_SHLOMO = "skinner-shlomo"
"""The penalty at which the test of Skinner and Shlomo finds the least over- or understatement of risk."""

CRITERIA = {"aic": "AIC", "bic": "BIC", "bayes": "Bayes factor", SKINNER_SHLOMO: "the test of Skinner and Shlomo"}
"""How models are compared, unless by a penalty for each degree of freedom."""

SEARCHES = {"auto": "automatic", "exact": "exact", "local": "local, from random starts", "greedy": "greedy"}
"""How the best single model is searched for."""

MODELS = {
    "average": "average over models (most accurate)",
    "single": "the best single model",
    "bayes": "models drawn from their posterior",
    "hierarchical": "the best hierarchical model",
    "regularised": "all pairs of keys, regularised",
    "stacked": "a mixture weighted by held-out likelihood",
    "independence": "independent keys",
    "saturated": "saturated",
}
"""Where the risk comes from."""

RESOLUTIONS = {"multi": "also in coarser groups", "full": "in full detail only"}
"""Whether models may also use keys at coarser resolutions."""

FORMS = {"multinomial": "multinomial", "poisson": "Poisson", "poisson-gamma": "Poisson–gamma"}
"""Distribution of the population count of a cell."""

YES_NO = {"yes": "yes", "no": "no"}
"""Whether an intruder knows who lives with whom."""

ZEROS = ("swaps", "detect", "off")
"""What to do about structural zeros, unless a file lists them."""

CHECK_FORMATS = ("text", "json", "junit", "sarif")
"""How a check is printed for a pipeline."""
