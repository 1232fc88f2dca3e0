"""The differentiable reading of a model on data: log Ψ of Proposition 1 and what follows from it.

Eq. (5), the generative process, is p(Z) p(G|Z) p(Θ|G) Π_k p(Γ_k) p(I_k|Γ_k) p(Θ_I|I_k) p(D_k|G,Θ,I_k,Θ_I).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.model import Model
from bacadi.model.priors import SmoothPrior
from bacadi.relaxed.effects import RelaxedEffect, relaxed_effect
from bacadi.relaxed.latent import Particle, Structures
from bacadi.relaxed.mechanisms import context_moments, log_evidence, log_likelihood, log_prior_of_theta, prepare

FLOAT32 = jnp.dtype("float32")


class Density(eqx.Module):
    """A model and its data on the device; `Density.of` makes one.

    `known_targets` is 1 or 0 where a target is known and NaN where it is not.
    """

    model: Model = eqx.field(static=True)
    rows: PyTree
    effect: RelaxedEffect
    known_targets: Float[Array, "M d"]

    @classmethod
    def of(
        cls,
        model: Model,
        data: ContextData,
        known_targets: Float[np.ndarray, "M d"] | None = None,
        dtype: jnp.dtype = FLOAT32,
    ) -> "Density":
        """Bring the data to the device; refuse a model without a differentiable reading."""
        if not isinstance(model.graph_prior, SmoothPrior):
            raise ConfigError(
                f"The number of causal orders is not smooth in a graph, so {type(model.graph_prior).__name__} is not "
                "for SVGD; use ErdosRenyi or ScaleFree with it, or method mcmc."
            )
        if known_targets is None:
            known_targets = np.full((data.n_contexts, data.n_variables), np.nan)
        rows = prepare(model.mechanism, data, dtype)
        effect = relaxed_effect(model.effect, model.mechanism, context_moments(data, dtype), rows)
        return cls(model, rows, effect, jnp.asarray(known_targets, dtype))

    @property
    def n_variables(self) -> int:
        return self.known_targets.shape[1]

    @property
    def n_contexts(self) -> int:
        return self.known_targets.shape[0]

    @property
    def dtype(self) -> jnp.dtype:
        return self.known_targets.dtype

    @property
    def has_parameters(self) -> bool:
        """Whether Θ is explicit, so that p(D | G, Θ, I) is a product over rows."""
        return isinstance(self.model.mechanism, AbstractMechanism)

    def init(self, key: Key[Array, ""], latent_dim: int | None = None) -> Particle:
        """A fresh particle: Z, Γ from their Gaussians, Θ and Θ_I close to 0."""
        model, d = self.model, self.n_variables
        r = latent_dim or d
        key_z, key_gamma, key_theta, key_effect = jax.random.split(key, 4)
        z = model.latent_prior.std(r) * jax.random.normal(key_z, (2, d, r), self.dtype)
        gamma = model.target_prior.gamma_std * jax.random.normal(key_gamma, (self.n_contexts, d), self.dtype)
        mechanism = model.mechanism
        theta = mechanism.init(key_theta, d, self.dtype) if isinstance(mechanism, AbstractMechanism) else ()
        return Particle(z, gamma, theta, self.effect.init(key_effect))

    def log_psi(self, theta: PyTree, theta_int: PyTree, structures: Structures) -> Float[Array, "S d"]:
        """log Ψ of Proposition 1, Eq. (6), by column: Ψ = p(Θ|G) p(Θ_I|I) p(D|G,I,Θ) is a product over the variables.

        Smooth in relaxed graphs and targets: (1 - I_kj) log p(x_j | parents) + I_kj log p(x_j | Θ_I), Eq. (11), the
        likelihood.
        """
        graphs, targets = structures
        mechanism = self.model.mechanism
        targeted, untargeted = (
            self.effect.log_targeted(theta_int, graphs),
            self.effect.log_untargeted(theta_int, graphs),
        )
        effects = jnp.sum(targets * targeted + (1 - targets) * untargeted, axis=0)
        keep = jnp.concatenate([jnp.ones((1, *targets.shape[1:]), targets.dtype), 1 - targets])
        if not isinstance(mechanism, AbstractMechanism):
            return log_evidence(mechanism, graphs, keep, self.rows) + effects  # type: ignore[arg-type]
        likelihood = log_likelihood(mechanism, theta, graphs, self.rows)
        return jnp.sum(keep * likelihood, axis=0) + effects + log_prior_of_theta(mechanism, theta, graphs)

    def log_psi_over_targets(
        self, theta: PyTree, theta_int: PyTree, graphs: Float[Array, "d S d"], target_logits: Float[Array, "M d"]
    ) -> Float[Array, "S d"]:
        """log Σ_I p(I | Γ) Ψ by column, the targets summed out exactly; only with explicit parameters.

        Given G the contexts are independent, so the sum is Π_k [(1 - π_kj) p(x_kj | parents) + π_kj p(x_kj | Θ_I)].
        """
        targeted, untargeted = (
            self.effect.log_targeted(theta_int, graphs),
            self.effect.log_untargeted(theta_int, graphs),
        )
        likelihood = log_likelihood(self._parametric, theta, graphs, self.rows)
        log_on, log_off = jax.nn.log_sigmoid(target_logits), jax.nn.log_sigmoid(-target_logits)
        mixture = jnp.logaddexp(log_off[:, None, :] + likelihood[1:] + untargeted, log_on[:, None, :] + targeted)
        prior = log_prior_of_theta(self._parametric, theta, graphs)
        return likelihood[0] + jnp.sum(mixture, axis=0) + prior

    def target_odds(self, theta: PyTree, theta_int: PyTree, graphs: Float[Array, "d S d"]) -> Float[Array, "M S d"]:
        """log p(x_kj | Θ_I) - log p(x_kj | parents): what the data of a context say for a target, given G and Θ."""
        targeted, untargeted = (
            self.effect.log_targeted(theta_int, graphs),
            self.effect.log_untargeted(theta_int, graphs),
        )
        return targeted - untargeted - log_likelihood(self._parametric, theta, graphs, self.rows)[1:]

    def log_joint(
        self, particle: Particle, graph: Float[Array, "d d"], targets: Float[Array, "M d"]
    ) -> Float[Array, ""]:
        """log p(G) p(I) Ψ of discrete structures, the posterior of Eq. (4), unknown interventions, up to a constant."""
        structures = Structures(graph[:, None, :], targets[:, None, :])
        log_psi = jnp.sum(self.log_psi(particle.theta, particle.theta_int, structures))
        log_graph = self.model.graph_prior.log_prob(graph)  # type: ignore[attr-defined]
        return log_psi + log_graph + self.model.target_prior.log_prob_targets(targets)

    @property
    def _parametric(self) -> AbstractMechanism:
        assert isinstance(self.model.mechanism, AbstractMechanism), "without Θ the contexts are not independent"
        return self.model.mechanism

    def _effect_terms(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"]
    ) -> tuple[Float[Array, "M #S d"], Float[Array, "M #S #d"]]:
        return self.effect.log_targeted(theta_int, graphs), self.effect.log_untargeted(theta_int, graphs)
