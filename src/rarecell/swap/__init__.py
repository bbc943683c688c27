"""Exchange values between records so that every marginal of the model stays exactly as it was.

``swappable`` says which records can be exchanged at all, ``partners`` finds near partners, ``plan`` chooses who exchanges
what with whom, and ``apply`` makes the exchange and compares the marginals.
"""
