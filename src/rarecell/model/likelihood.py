"""How well does a model fitted by maximum likelihood explain the table?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rarecell._kernels.gamma import log_gammas

if TYPE_CHECKING:
    from rarecell.table.contingency import ContingencyTable
    from rarecell.table.marginals import Marginals


class LikelihoodMeasures:
    """Log-likelihood, information criteria and deviance, from the kernel and the degrees of freedom."""

    table: ContingencyTable
    marginals: Marginals

    if TYPE_CHECKING:

        @property
        def degrees_of_freedom(self) -> int: ...

        @property
        def log_likelihood_kernel(self) -> float: ...

    @property
    def log_likelihood(self) -> float:
        """The kernel plus log n!/Π n(i)!: what the paper calls the log-likelihood."""
        counts = self.table.counts
        return self.log_likelihood_kernel + math.lgamma(self.table.n_records + 1) - float(log_gammas(counts + 1.0).sum())

    @property
    def aic(self) -> float:
        """2 df − 2 log-likelihood, including the multinomial coefficient as in the paper."""
        return 2.0 * self.degrees_of_freedom - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """log n · df − 2 log-likelihood."""
        return math.log(self.table.n_records) * self.degrees_of_freedom - 2.0 * self.log_likelihood

    @property
    def deviance(self) -> float:
        """G² against the saturated model."""
        everything = self.table.all_keys
        return 2.0 * (self.marginals.entropy_term(everything) - self.log_likelihood_kernel)
