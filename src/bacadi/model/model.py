"""The generative model of Eq. (4): p(Z) p(G|Z) p(Θ|G) Π_k p(Γ_k) p(I_k|Γ_k) p(Θ_I|I_k) p(D_k|G,Θ,I_k,Θ_I)."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import Collapsed
from bacadi.model.effect import AbstractEffect, EffectData, HardGaussian
from bacadi.model.knowledge import Knowledge, structure_prior
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AbstractMechanism, AnyMechanism, graph_prior_of_theta
from bacadi.model.priors import AbstractGraphPrior, ErdosRenyi, LatentPrior, TargetPrior
from bacadi.relaxed.latent import Particle, Structures
from bacadi.relaxed.rows import context_moments

FLOAT32 = jnp.dtype("float32")


class ModelData(eqx.Module):
    """The data on the device, in the forms that mechanism and effect asked for.

    `known_targets` is 1 or 0 where a target is known and NaN where it is not.
    """

    rows: PyTree
    effect: EffectData
    known_targets: Float[Array, "M d"]

    @property
    def n_variables(self) -> int:
        return self.known_targets.shape[1]

    @property
    def n_contexts(self) -> int:
        return self.known_targets.shape[0]

    @property
    def dtype(self) -> jnp.dtype:
        return self.known_targets.dtype


class Model(eqx.Module):
    """All choices of the generative model; the defaults are the paper's linear model.

    With `own_units` all priors are stated in each column's own unit, its standard deviation within contexts, so that
    they do not depend on the scale of a column; `fit` converts the data and the parameters it reports.

    >>> from bacadi.model.neural import NeuralGaussian
    >>> Model(mechanism=NeuralGaussian(hidden=(8, 8))).mechanism.hidden
    (8, 8)
    """

    mechanism: AnyMechanism = LinearGaussian()
    effect: AbstractEffect = HardGaussian()
    graph_prior: AbstractGraphPrior = ErdosRenyi()
    target_prior: TargetPrior = TargetPrior()
    latent_prior: LatentPrior = LatentPrior()
    own_units: bool = False

    def prepare(
        self,
        data: ContextData,
        known_targets: Float[np.ndarray, "M d"] | None = None,
        dtype: jnp.dtype = FLOAT32,
    ) -> ModelData:
        """Bring the data to the device. `known_targets`: 1 target, 0 no target, NaN unknown; None: all unknown."""
        shape = (data.n_contexts, data.n_variables)
        known = np.full(shape, np.nan) if known_targets is None else np.asarray(known_targets, float)
        if known.shape != shape or not np.isin(known[~np.isnan(known)], (0, 1)).all():
            raise ConfigError(
                f"Known targets must be a {shape[0]} x {shape[1]} array (contexts x variables) of 0, 1 and NaN "
                f"for unknown, not one of shape {known.shape}."
            )
        rows = self.mechanism.prepare(data, dtype)
        effect = self.effect.prepare(context_moments(data, dtype), rows)
        return ModelData(rows, effect, jnp.asarray(known, dtype))

    def init(self, key: Key[Array, ""], data: ModelData, latent_dim: int | None = None) -> Particle:
        """A fresh particle: Z, Γ from their Gaussians, Θ and Θ_I close to 0."""
        d, r = data.n_variables, latent_dim or data.n_variables
        key_z, key_gamma, key_theta, key_effect = jax.random.split(key, 4)
        z = self.latent_prior.std(r) * jax.random.normal(key_z, (2, d, r), data.dtype)
        gamma = self.target_prior.gamma_std * jax.random.normal(key_gamma, (data.n_contexts, d), data.dtype)
        theta = self.mechanism.init(key_theta, d, data.dtype) if isinstance(self.mechanism, AbstractMechanism) else ()
        return Particle(z, gamma, theta, self.effect.init(key_effect, self.mechanism, data.effect.moments))

    @property
    def has_parameters(self) -> bool:
        """Whether Θ is explicit, so that p(D | G, Θ, I) is a product over rows."""
        return isinstance(self.mechanism, AbstractMechanism)

    def explicit(self) -> "Model":
        """The model of the Θ that particles have, for weights that integrate it out (`AbstractMechanism.explicit`)."""
        if not isinstance(self.mechanism, AbstractMechanism):
            return self
        return replace(self, mechanism=self.mechanism.explicit())

    def collapse(
        self, data: ContextData, knowledge: Knowledge | None = None, max_parents: int | None = None
    ) -> Collapsed:
        """The collapsed reading, or a ConfigError where mechanism, effect or prior have no closed form."""
        states = self.effect.states(data)
        evidence = self.mechanism.evidence(data, states)
        prior = structure_prior(self.graph_prior, self.target_prior, states, knowledge, max_parents)
        return Collapsed(evidence, prior)

    def log_psi(self, theta: PyTree, theta_int: PyTree, structures: Structures, data: ModelData) -> Float[Array, "S d"]:
        """log Ψ of Proposition 1, by column: Ψ = p(Θ|G) p(Θ_I|I) p(D|G,I,Θ) is a product over the variables.

        Smooth in relaxed graphs and targets: (1 - I_kj) log p(x_j | parents) + I_kj log p(x_j | Θ_I), Eq. (10).
        """
        graphs, targets = structures
        targeted, untargeted = self._effect_terms(theta_int, graphs, data)
        effects = jnp.sum(targets * targeted + (1 - targets) * untargeted, axis=0)
        keep = jnp.concatenate([jnp.ones((1, *targets.shape[1:]), targets.dtype), 1 - targets])
        if not isinstance(self.mechanism, AbstractMechanism):
            return self.mechanism.log_evidence(graphs, keep, data.rows) + effects
        likelihood = self.mechanism.log_likelihood(theta, graphs, data.rows)
        return jnp.sum(keep * likelihood, axis=0) + effects + graph_prior_of_theta(self.mechanism, theta, graphs)

    def log_psi_over_targets(
        self,
        theta: PyTree,
        theta_int: PyTree,
        graphs: Float[Array, "d S d"],
        target_logits: Float[Array, "M d"],
        data: ModelData,
    ) -> Float[Array, "S d"]:
        """log Σ_I p(I | Γ) Ψ by column, the targets summed out exactly.

        Given G the contexts are independent, so the sum is Π_k [(1 - π_kj) p(x_kj | parents) + π_kj p(x_kj | Θ_I)].
        """
        assert isinstance(self.mechanism, AbstractMechanism), "without parameters the contexts are not independent"
        targeted, untargeted = self._effect_terms(theta_int, graphs, data)
        likelihood = self.mechanism.log_likelihood(theta, graphs, data.rows)
        log_on, log_off = jax.nn.log_sigmoid(target_logits), jax.nn.log_sigmoid(-target_logits)
        mixture = jnp.logaddexp(log_off[:, None, :] + likelihood[1:] + untargeted, log_on[:, None, :] + targeted)
        return likelihood[0] + jnp.sum(mixture, axis=0) + graph_prior_of_theta(self.mechanism, theta, graphs)

    def target_odds(
        self, theta: PyTree, theta_int: PyTree, graphs: Float[Array, "d S d"], data: ModelData
    ) -> Float[Array, "M S d"]:
        """log p(x_kj | Θ_I) - log p(x_kj | parents): what the data of a context say for a target, given G and Θ."""
        assert isinstance(self.mechanism, AbstractMechanism), "without parameters the contexts are not independent"
        targeted, untargeted = self._effect_terms(theta_int, graphs, data)
        return targeted - untargeted - self.mechanism.log_likelihood(theta, graphs, data.rows)[1:]

    def log_joint(
        self, particle: Particle, graph: Float[Array, "d d"], targets: Float[Array, "M d"], data: ModelData
    ) -> Float[Array, ""]:
        """log p(G) p(I) Ψ of discrete structures: the unnormalised posterior of (G, Θ, I, Θ_I), Eq. (3)."""
        structures = Structures(graph[:, None, :], targets[:, None, :])
        log_psi = jnp.sum(self.log_psi(particle.theta, particle.theta_int, structures, data))
        return log_psi + self.graph_prior.log_prob(graph) + self.target_prior.log_prob_targets(targets)

    def _effect_terms(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], data: ModelData
    ) -> tuple[Float[Array, "M #S d"], Float[Array, "M #S #d"]]:
        arguments = (theta_int, graphs, self.mechanism, data.effect)
        return self.effect.log_targeted(*arguments), self.effect.log_untargeted(*arguments)
