"""BGe: linear Gaussian mechanisms with all parameters integrated out (Appendix C; Kuipers, Moffa, Heckerman 2014)."""

from bacadi.config.choices import option
from bacadi.model.mechanism import Mechanism


class BGe(Mechanism):
    """Normal-Wishart marginal likelihood; Markov equivalent graphs score the same on observational data.

    With parents P of size l, N rows, R = T + Σ x x' - s s'/(N + α_μ), s = Σ x, T = t I (prior mean 0):

        log p(x_j | x_P) = -N/2 log π + ½ log(α_μ / (N + α_μ)) + log Γ((N + α_ω - d + l + 1)/2)
                           - log Γ((α_ω - d + l + 1)/2) + (α_ω - d + 2l + 1)/2 · log t
                           - (N + α_ω - d + l + 1)/2 · log |R_{P∪j}| + (N + α_ω - d + l)/2 · log |R_P|.

    Defaults: α_μ = 1, α_ω = d + 2. It has no parameters of its own, so it offers evidence in both readings
    (`relaxed.mechanisms`, `evidence.gram`) and no density.

    >>> BGe().prior_scale
    0.5
    """

    alpha_mu: float = option(1.0, above=0)
    alpha_omega_excess: float = option(2.0, above=1)

    @property
    def prior_scale(self) -> float:
        """t of T = t I."""
        return self.alpha_mu * (self.alpha_omega_excess - 1) / (self.alpha_mu + 1)
