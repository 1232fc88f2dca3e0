"""The differentiable reading of a model on data: densities of effects, log Ψ of Proposition 1 and what follows from it.

Eq. (5), the generative process, is p(Z) p(G|Z) p(Θ|G) Π_k p(Γ_k) p(I_k|Γ_k) p(Θ_I|I_k) p(D_k|G,Θ,I_k,Θ_I). The paper
does not define the density of the effect parameters of a variable that is not a target (the second of `log_terms`;
0 here: density 1); any proper density leaves p(G, Θ, I | D) as it is.
"""

from abc import abstractmethod
from functools import singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.model.effects import AutoEffect, Effect, HardGaussian, Moments, SoftGaussian, hard_log_evidence
from bacadi.model.knowledge import KnownEffects
from bacadi.model.mechanism import AbstractMechanism, Mechanism
from bacadi.model.model import Model
from bacadi.model.noise import gaussian_log_likelihood, log_mean_exp, log_normal
from bacadi.model.priors import SmoothPrior
from bacadi.relaxed import mechanisms
from bacadi.relaxed.latent import Graphs, Particle, RandomKey, Structures, Targets
from bacadi.relaxed.mechanisms import ContextMoments, Rows, kept_log_likelihood, log_likelihood, log_prior_of_theta

EffectTerms = tuple[Float[Array, "M #S d"], Float[Array, "M #S #d"]]


class RelaxedEffect(eqx.Module):
    """An effect with the data that it reads."""

    @abstractmethod
    def init(self, key: RandomKey) -> PyTree:
        """Θ_I of a fresh particle."""

    @abstractmethod
    def log_terms(self, theta_int: PyTree, graphs: Graphs) -> EffectTerms:
        """log p(Θ_I | targeted) + log p(rows of context k of variable j | Θ_I), and log p(Θ_I | not targeted)."""

    @abstractmethod
    def labelled(self, theta_int: PyTree) -> dict[str, Labelled]:
        """Θ_I under the names it has in the output."""

    @abstractmethod
    def rescaled(self, theta_int: PyTree, graph: np.ndarray, scaling: Scaling) -> PyTree:
        """Θ_I for the variables in original units; see `AbstractMechanism.rescaled`."""


@singledispatch
def relaxed_effect(effect: Effect, mechanism: Mechanism, moments: ContextMoments, rows: PyTree) -> RelaxedEffect:
    """The differentiable reading of an effect, or a refusal where it has none."""
    raise ConfigError(
        f"{type(effect).__name__} is integrated out and has no parameters for SVGD; use method mcmc or exact, "
        "or HardGaussian or SoftGaussian with SVGD."
    )


class HardTheta(NamedTuple):
    """Means of all variables in all contexts, and log σ_I where it is inferred."""

    mean: Targets
    log_noise_std: Targets | None


class RelaxedHard(RelaxedEffect):
    """`HardGaussian`: x_j ~ N(μ_kj, σ_I²), parents cut off.

    Where an effect is known, its density stands in place of that of the particle, whose own μ then speaks of nothing:
    it has the density of an untargeted one.
    """

    effect: HardGaussian = eqx.field(static=True)
    moments: ContextMoments
    log_evidence: Targets
    known: HardTheta | None = None

    @classmethod
    def of(cls, effect: HardGaussian, moments: ContextMoments) -> "RelaxedHard":
        """The effect with the evidence of every target, computed once in double precision."""
        sums = Moments(*(np.asarray(leaf, float) for leaf in (moments.count, moments.mean, moments.squares)))
        return cls(effect, moments, jnp.asarray(hard_log_evidence(effect, sums), moments.mean.dtype))

    def init(self, key: RandomKey) -> HardTheta:
        shape, dtype, noise = self.moments.mean.shape, self.moments.mean.dtype, self.effect.noise
        draw = jax.random.normal(key, shape, dtype)
        if not self.effect.pseudo_prior:
            start = None if noise.initial is None else jnp.full(shape, noise.initial, dtype)
            return HardTheta(self.effect.init_std * draw, start)
        # p(μ, σ_I | x_k, targeted) under the widest unit: the mode of σ_I² and μ given it.
        known, count, offset = noise.conjugate(), self.moments.count, self.moments.mean - self.effect.mean_prior_mean
        ratio = (known.widths[-1] * self.effect.mean_prior_std) ** 2 / (known.variance or 1.0)
        precision = count + 1 / ratio
        squares = self.moments.squares + count * offset**2 / (1 + count * ratio)
        variance = known.variance or (known.scale + 0.5 * squares) / (known.shape + 0.5 * count + 1)
        mean = self.effect.mean_prior_mean + offset * count / precision + (variance / precision) ** 0.5 * draw
        return HardTheta(mean, None if known.variance else 0.5 * jnp.log(variance))

    def log_terms(self, theta_int: HardTheta, graphs: Graphs) -> EffectTerms:
        (mean, log_std), noise, count = theta_int, self.effect.noise, self.moments.count
        squares = self.moments.squares + count * (self.moments.mean - mean) ** 2
        fitted = gaussian_log_likelihood(count, squares, noise.log_std(log_std))
        around, std = self.effect.mean_prior_mean, self.effect.mean_prior_std
        of_mean = [log_normal(mean, around, std * unit) for unit in noise.prior_units(log_std)]
        log_prior = log_mean_exp(of_mean) + noise.log_prior(log_std)
        targeted, untargeted = fitted + log_prior, jnp.zeros((len(mean), 1), mean.dtype)
        if self.effect.pseudo_prior:
            untargeted = targeted - self.log_evidence
        if self.known is not None:
            told = self.moments.squares + count * (self.moments.mean - self.known.mean) ** 2
            fitted = gaussian_log_likelihood(count, told, self.known.log_noise_std)
            targeted = jnp.where(jnp.isnan(self.known.mean), targeted, fitted + untargeted)
        return targeted[:, None, :], untargeted[:, None, :]

    def labelled(self, theta_int: HardTheta) -> dict[str, Labelled]:
        parts = {"effect_mean": Labelled(theta_int.mean, ("context", "node"))}
        if theta_int.log_noise_std is not None:
            parts["effect_noise_std"] = Labelled(jnp.exp(theta_int.log_noise_std), ("context", "node"))
        return parts

    def rescaled(self, theta_int: HardTheta, graph: np.ndarray, scaling: Scaling) -> HardTheta:
        if self.known is not None:
            log_std = self.effect.noise.log_std(theta_int.log_noise_std)
            pairs = zip(self.known, (theta_int.mean, log_std), strict=True)
            theta_int = HardTheta(*(np.where(np.isnan(told), own, told) for told, own in pairs))  # type: ignore[arg-type]
        mean = theta_int.mean * scaling.scale + scaling.shift
        noise: Any = self.effect.noise.rescaled(theta_int.log_noise_std, scaling.scale)
        return HardTheta(mean, noise if noise is None else noise + np.zeros(mean.shape, mean.dtype))


@relaxed_effect.register
def _(effect: AutoEffect, mechanism: Mechanism, moments: ContextMoments, rows: PyTree) -> RelaxedEffect:
    return relaxed_effect(effect.candidates[0], mechanism, moments, rows)


@relaxed_effect.register
def _(effect: HardGaussian, mechanism: Mechanism, moments: ContextMoments, rows: PyTree) -> RelaxedEffect:
    return RelaxedHard.of(effect, moments)


class RelaxedSoft(RelaxedEffect):
    """`SoftGaussian`: a target follows the same kind of mechanism with its own Θ."""

    mechanism: AbstractMechanism = eqx.field(static=True)
    blocks: Rows
    n_variables: int = eqx.field(static=True)

    def init(self, key: RandomKey) -> PyTree:
        m, dtype = len(self.blocks.x), self.blocks.x.dtype
        return jax.vmap(lambda k: self.mechanism.init(k, self.n_variables, dtype))(jax.random.split(key, m))

    def log_terms(self, theta_int: PyTree, graphs: Graphs) -> EffectTerms:
        def one_context(theta: PyTree, rows: Rows) -> tuple[Float[Array, "S d"], Float[Array, "S d"]]:
            log_prior = log_prior_of_theta(self.mechanism, theta, graphs)
            return log_likelihood(self.mechanism, theta, graphs, rows)[0] + log_prior, log_prior

        return jax.vmap(one_context)(theta_int, self.blocks)

    def labelled(self, theta_int: PyTree) -> dict[str, Labelled]:
        """The mechanism's own names behind `effect_`, with the context as the first axis."""
        values = jax.vmap(lambda theta: [part.values for part in self.mechanism.labelled(theta).values()])(theta_int)
        one: Any = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), theta_int)
        return {
            f"effect_{name}": Labelled(array, ("context", *part.dims))
            for (name, part), array in zip(self.mechanism.labelled(one).items(), values, strict=True)
        }

    def rescaled(self, theta_int: PyTree, graph: np.ndarray, scaling: Scaling) -> PyTree:
        contexts = [jax.tree.map(lambda leaf, k=k: leaf[k], theta_int) for k in range(len(self.blocks.x))]
        changed = [self.mechanism.rescaled(theta, graph, scaling) for theta in contexts]
        if not changed or changed[0] is None:
            return theta_int
        return jax.tree.map(lambda *leaves: np.stack(leaves), *changed)


@relaxed_effect.register
def _(effect: SoftGaussian, mechanism: Mechanism, moments: ContextMoments, rows: PyTree) -> RelaxedEffect:
    if not isinstance(mechanism, AbstractMechanism):
        raise ConfigError(
            f"A soft effect needs a mechanism with parameters and {type(mechanism).__name__} has none; "
            "use HardGaussian with it."
        )
    return RelaxedSoft(mechanism, mechanisms.split_rows(rows), moments.mean.shape[1])


FLOAT32 = jnp.dtype("float32")


class Density(eqx.Module):
    """A model and its data on the device; `Density.of` makes one.

    `known_targets` is 1 or 0 where a target is known and NaN where it is not.
    """

    model: Model = eqx.field(static=True)
    rows: PyTree
    effect: RelaxedEffect
    known_targets: Targets

    @classmethod
    def of(
        cls,
        model: Model,
        data: ContextData,
        known_targets: np.ndarray | None = None,
        dtype: jnp.dtype = FLOAT32,
        known_effects: KnownEffects | None = None,
    ) -> "Density":
        """Bring the data to the device; refuse a model without a differentiable reading."""
        if not isinstance(model.graph_prior, SmoothPrior):
            raise ConfigError(
                f"The number of causal orders is not smooth in a graph, so {type(model.graph_prior).__name__} is not "
                "for SVGD; use ErdosRenyi or ScaleFree with it, or method mcmc."
            )
        if known_targets is None:
            known_targets = np.full((data.n_contexts, data.n_variables), np.nan)
        rows, moments = mechanisms.prepare(model.mechanism, data, dtype), mechanisms.context_moments(data, dtype)
        effect = relaxed_effect(model.effect, model.mechanism, moments, rows)
        if known_effects is not None and isinstance(effect, RelaxedHard):
            told = HardTheta(jnp.asarray(known_effects.mean, dtype), jnp.asarray(np.log(known_effects.std), dtype))
            effect = eqx.tree_at(lambda own: own.known, effect, told, is_leaf=lambda leaf: leaf is None)
        return cls(model, rows, effect, jnp.asarray(known_targets, dtype))

    @property
    def n_variables(self) -> int:
        """d, the number of variables."""
        return self.known_targets.shape[1]

    @property
    def n_contexts(self) -> int:
        """M, the number of contexts beside the observational one."""
        return self.known_targets.shape[0]

    @property
    def dtype(self) -> jnp.dtype:
        """The precision of all arrays."""
        return self.known_targets.dtype

    @property
    def has_parameters(self) -> bool:
        """Whether Θ is explicit, so that p(D | G, Θ, I) is a product over rows."""
        return isinstance(self.model.mechanism, AbstractMechanism)

    def init(self, key: RandomKey, latent_dim: int | None = None) -> Particle:
        """A fresh particle: Z, Γ from their Gaussians, Θ and Θ_I close to 0."""
        model, d, r = self.model, self.n_variables, latent_dim or self.n_variables
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
        (graphs, targets), mechanism = structures, self.model.mechanism
        targeted, untargeted = self.effect.log_terms(theta_int, graphs)
        effects = jnp.sum(targets * targeted + (1 - targets) * untargeted, axis=0)
        keep = jnp.concatenate([jnp.ones((1, *targets.shape[1:]), targets.dtype), 1 - targets])
        if not isinstance(mechanism, AbstractMechanism):
            return mechanisms.log_evidence(mechanism, graphs, keep, self.rows) + effects  # type: ignore[arg-type]
        likelihood = kept_log_likelihood(mechanism, theta, graphs, keep, self.rows)
        return likelihood + effects + log_prior_of_theta(mechanism, theta, graphs)

    def log_psi_over_targets(
        self, theta: PyTree, theta_int: PyTree, graphs: Graphs, logits: Targets
    ) -> Float[Array, "S d"]:
        """log Σ_I p(I | Γ) Ψ by column, the targets summed out exactly; only with explicit parameters.

        Given G the contexts are independent, so the sum is Π_k [(1 - π_kj) p(x_kj | parents) + π_kj p(x_kj | Θ_I)].
        """
        targeted, untargeted = self.effect.log_terms(theta_int, graphs)
        likelihood = log_likelihood(self._parametric, theta, graphs, self.rows)
        log_on, log_off = jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)
        mixture = jnp.logaddexp(log_off[:, None, :] + likelihood[1:] + untargeted, log_on[:, None, :] + targeted)
        prior = log_prior_of_theta(self._parametric, theta, graphs)
        return likelihood[0] + jnp.sum(mixture, axis=0) + prior

    def target_odds(self, theta: PyTree, theta_int: PyTree, graphs: Graphs) -> Float[Array, "M S d"]:
        """log p(x_kj | Θ_I) - log p(x_kj | parents): what the data of a context say for a target, given G and Θ."""
        targeted, untargeted = self.effect.log_terms(theta_int, graphs)
        return targeted - untargeted - log_likelihood(self._parametric, theta, graphs, self.rows)[1:]

    def log_joint(self, particle: Particle, graph: Float[Array, "d d"], targets: Targets) -> Float[Array, ""]:
        """log p(G) p(I) Ψ of discrete structures, the posterior of Eq. (4), unknown interventions, up to a constant."""
        structures = Structures(graph[:, None, :], targets[:, None, :])
        log_psi = jnp.sum(self.log_psi(particle.theta, particle.theta_int, structures))
        log_graph = self.model.graph_prior.log_prob(graph)  # type: ignore[attr-defined]
        return log_psi + log_graph + self.model.target_prior.log_prob_targets(targets)

    @property
    def _parametric(self) -> AbstractMechanism:
        assert isinstance(self.model.mechanism, AbstractMechanism), "without Θ the contexts are not independent"
        return self.model.mechanism
