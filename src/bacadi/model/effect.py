"""What an intervention does to its target: p(x_j | parents, Θ_I) in place of the mechanism."""

from abc import abstractmethod
from typing import NamedTuple, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree
from scipy.special import gammaln

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import EffectKind, States
from bacadi.model.mechanism import AbstractMechanism, AnyMechanism, graph_prior_of_theta
from bacadi.model.noise import LOG_2PI, AbstractNoise, FixedNoise, InferredNoise, gaussian_log_likelihood, log_normal
from bacadi.relaxed.rows import ContextMoments, NumpyMoments, Rows, numpy_moments, split_rows


class EffectData(eqx.Module):
    """What effects read of the data: moments per context and, for soft effects, the rows of each context."""

    moments: ContextMoments
    blocks: Rows | None


class AbstractEffect(eqx.Module):
    """Density of a targeted variable in its context, as sums over the rows of context k = 1..M.

    `log_untargeted` is the density of the effect parameters of a variable that is no target. The paper leaves it
    undefined (0 here: density 1); any proper density leaves p(G, Θ, I | D) as it is.
    """

    @abstractmethod
    def init(self, key: Key[Array, ""], mechanism: AnyMechanism, moments: ContextMoments) -> PyTree: ...

    @abstractmethod
    def prepare(self, moments: ContextMoments, rows: PyTree) -> EffectData: ...

    @abstractmethod
    def log_targeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M #S d"]:
        """log p(Θ_I | targeted) + log p(rows of context k of variable j | Θ_I)."""

    @abstractmethod
    def log_untargeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M #S d"]: ...

    @abstractmethod
    def named(self, theta_int: PyTree, mechanism: AnyMechanism) -> dict[str, Labelled]: ...

    def states(self, data: ContextData) -> States:
        """What the collapsed reading needs: the kinds of effect and the evidence of the hard one."""
        raise ConfigError(f"{type(self).__name__} has no closed-form evidence; use method svgd with it.")

    def draw_parameters(self, rng: np.random.Generator, data: ContextData, n: int) -> dict[str, Labelled]:
        """Parameters of the effects from p(Θ_I | D, targeted) that do not depend on the mechanism, n sets."""
        return {}


class State(NamedTuple):
    """One state of the collapsed reading: see `States`."""

    name: str
    kind: EffectKind
    value: float = 0.0
    share: float = 1.0


def _states(hard_log_evidence: Float[np.ndarray, "M d"], *effects: State) -> States:
    chosen = (State("none", EffectKind.NONE), *effects)
    return States(
        tuple(state.name for state in chosen),
        np.array([state.kind for state in chosen], np.int8),
        np.array([state.value for state in chosen], float),
        np.log([state.share for state in chosen]),
        np.asarray(hard_log_evidence, float),
    )


class HardTheta(NamedTuple):
    mean: Float[Array, "M d"]
    log_noise_std: Float[Array, "M d"] | None


class HardGaussian(AbstractEffect):
    """x_j ~ N(μ_kj, σ_I²), parents cut off, with μ_kj ~ N(mean_prior_mean, mean_prior_std²) (Appendix D.1).

    The paper does not say which density the mean of an untargeted variable has. With `pseudo_prior` it follows
    p(μ | x_k, targeted), its posterior had it been a target: then targeted and untargeted differ by the evidence
    ∫ p(x_k | μ) p(μ) dμ alone, as if μ had been integrated out, and means start from that posterior. Without, the
    density is 1, as in the authors' code, and means start close to 0.
    """

    noise: AbstractNoise = FixedNoise(0.5**0.5)
    mean_prior_mean: float = 0.0
    mean_prior_std: float = 10.0
    pseudo_prior: bool = True
    init_std: float = 0.1**0.5

    def init(self, key: Key[Array, ""], mechanism: AnyMechanism, moments: ContextMoments) -> HardTheta:
        shape, dtype = moments.mean.shape, moments.mean.dtype
        noise, draw = self.noise.init(shape, dtype), jax.random.normal(key, shape, dtype)
        if not self.pseudo_prior:
            return HardTheta(self.init_std * draw, noise)
        mean, std = self._mean_given_data(noise, moments)
        return HardTheta(mean + std * draw, noise)

    def prepare(self, moments: ContextMoments, rows: PyTree) -> EffectData:
        return EffectData(moments, None)

    def log_likelihood(self, theta_int: HardTheta, moments: ContextMoments) -> Float[Array, "M d"]:
        count = moments.count[:, None]
        squares = moments.squares + count * (moments.mean - theta_int.mean) ** 2
        return gaussian_log_likelihood(count, squares, self.noise.log_std(theta_int.log_noise_std))

    def log_prior(self, theta_int: HardTheta) -> Float[Array, "M d"]:
        unit = self.noise.prior_unit(theta_int.log_noise_std)
        log_p = log_normal(theta_int.mean, self.mean_prior_mean, self.mean_prior_std * unit)
        return log_p + self.noise.log_prior(theta_int.log_noise_std)

    def log_targeted(
        self, theta_int: HardTheta, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M 1 d"]:
        return (self.log_likelihood(theta_int, data.moments) + self.log_prior(theta_int))[:, None, :]

    def log_untargeted(
        self, theta_int: HardTheta, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M 1 #d"]:
        if not self.pseudo_prior:
            return jnp.zeros((len(data.moments.count), 1, 1), data.moments.mean.dtype)
        # With σ inferred its prior stands beside p(μ | x_k, σ), which is a proper density still.
        mean, std = self._mean_given_data(theta_int.log_noise_std, data.moments)
        log_p = log_normal(theta_int.mean, mean, std)
        return (log_p + self.noise.log_prior(theta_int.log_noise_std))[:, None, :]

    def _mean_given_data(
        self, log_noise_std: Float[Array, "M d"] | None, moments: ContextMoments
    ) -> tuple[Float[Array, "M d"], Float[Array, "M #d"]]:
        """Mean and standard deviation of p(μ | x_k, targeted, σ_I)."""
        rows = moments.count[:, None] * jnp.exp(-2 * self.noise.log_std(log_noise_std))
        prior = (self.mean_prior_std * self.noise.prior_unit(log_noise_std)) ** -2
        precision = rows + prior
        mean = (rows * moments.mean + self.mean_prior_mean * prior) / precision
        return mean, precision**-0.5

    def log_evidence(self, moments: NumpyMoments) -> Float[np.ndarray, "M d"]:
        """log ∫ N(x_k | μ, σ_I²) p(μ, σ_I) dμ dσ_I, with σ_I fixed or inferred."""
        count, prior = moments.n_rows[:, None], self.mean_prior_std**2
        squares, offset = moments.squares, moments.mean - self.mean_prior_mean
        squares = squares + count * offset**2 / (1 + count * prior * self._prior_scale())
        occam = -0.5 * np.log1p(count * prior * self._prior_scale()) - 0.5 * count * LOG_2PI
        if isinstance(self.noise, FixedNoise):
            return occam - count * np.log(self.noise.std) - 0.5 * squares / self.noise.std**2
        assert isinstance(self.noise, InferredNoise), "no other noise has a closed form"
        shape, scale = self.noise.shape, self.noise.scale
        log_p = shape * np.log(scale) - gammaln(shape) + gammaln(shape + 0.5 * count)
        return occam + log_p - (shape + 0.5 * count) * np.log(scale + 0.5 * squares)

    def _prior_scale(self) -> float:
        """Turns the prior variance of the mean into units of σ_I²."""
        return self.noise.std**-2 if isinstance(self.noise, FixedNoise) else 1.0

    def draw_parameters(self, rng: np.random.Generator, data: ContextData, n: int) -> dict[str, Labelled]:
        moments = numpy_moments(data)
        count, prior = moments.n_rows[:, None], self.mean_prior_std**-2 / self._prior_scale()
        offset = moments.mean - self.mean_prior_mean
        dims, shape = ("context", "node"), (n, *offset.shape)
        drawn, std = {}, np.full(shape, 1.0)
        if isinstance(self.noise, InferredNoise):
            squares = moments.squares + count * offset**2 / (1 + count / prior)
            std = np.sqrt((self.noise.scale + 0.5 * squares) / rng.gamma(self.noise.shape + 0.5 * count, size=shape))
            drawn["effect_noise_std"] = Labelled(std.astype(np.float32), dims)
        elif isinstance(self.noise, FixedNoise):
            std *= self.noise.std
        mean = self.mean_prior_mean + offset * count / (count + prior)
        mean = mean + std / np.sqrt(count + prior) * rng.standard_normal(shape)
        return drawn | {"effect_mean": Labelled(mean.astype(np.float32), dims)}

    def states(self, data: ContextData) -> States:
        return _states(self.log_evidence(numpy_moments(data)), State("hard", EffectKind.HARD))

    def named(self, theta_int: HardTheta, mechanism: AnyMechanism) -> dict[str, Labelled]:
        named = {"effect_mean": Labelled(theta_int.mean, ("context", "node"))}
        if theta_int.log_noise_std is not None:
            named["effect_noise_std"] = Labelled(jnp.exp(theta_int.log_noise_std), ("context", "node"))
        return named


class SoftGaussian(AbstractEffect):
    """The parents stay and the mechanism changes: a target follows the same kind of mechanism with its own Θ.

    Works with every mechanism that has parameters; Θ_I is one Θ per context, with the mechanism's prior.
    """

    def init(self, key: Key[Array, ""], mechanism: AnyMechanism, moments: ContextMoments) -> PyTree:
        (m, d), dtype = moments.mean.shape, moments.mean.dtype
        with_parameters = _with_parameters(mechanism)
        return jax.vmap(lambda k: with_parameters.init(k, d, dtype))(jax.random.split(key, m))

    def prepare(self, moments: ContextMoments, rows: PyTree) -> EffectData:
        return EffectData(moments, split_rows(rows) if isinstance(rows, Rows) else None)

    def log_targeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M S d"]:
        own = _with_parameters(mechanism)

        def one_context(theta: PyTree, rows: Rows) -> Float[Array, "S d"]:
            return own.log_likelihood(theta, graphs, rows)[0] + graph_prior_of_theta(own, theta, graphs)

        assert data.blocks is not None
        return jax.vmap(one_context)(theta_int, data.blocks)

    def log_untargeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M S d"]:
        own = _with_parameters(mechanism)
        return jax.vmap(lambda theta: graph_prior_of_theta(own, theta, graphs))(theta_int)

    def states(self, data: ContextData) -> States:
        return _states(np.zeros((data.n_contexts, data.n_variables)), State("soft", EffectKind.SOFT))

    def named(self, theta_int: PyTree, mechanism: AnyMechanism) -> dict[str, Labelled]:
        """The mechanism's own names behind `effect_`, with the context as the first axis."""
        own = _with_parameters(mechanism)
        named = jax.vmap(lambda theta: [item.values for item in own.named(theta).values()])(theta_int)
        one = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), theta_int)
        return {
            f"effect_{name}": Labelled(values, ("context", *item.dims))
            for (name, item), values in zip(own.named(one).items(), named, strict=True)
        }


class CollapsedEffect(AbstractEffect):
    """An effect with closed-form evidence and no parameters of its own: for the methods mcmc and exact alone."""

    def init(self, key: Key[Array, ""], mechanism: AnyMechanism, moments: ContextMoments) -> PyTree:
        self._refuse()

    def prepare(self, moments: ContextMoments, rows: PyTree) -> EffectData:
        self._refuse()

    def log_targeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M #S d"]:
        self._refuse()

    def log_untargeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M #S d"]:
        self._refuse()

    def named(self, theta_int: PyTree, mechanism: AnyMechanism) -> dict[str, Labelled]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            f"{type(self).__name__} is integrated out and has no parameters for SVGD; use method mcmc or exact, "
            "or HardGaussian or SoftGaussian with SVGD."
        )


class ShiftGaussian(CollapsedEffect):
    """The mechanism stays and a constant is added: δ_kj ~ N(0, (prior_std σ_j)²), integrated out."""

    prior_std: float = 5.0

    def states(self, data: ContextData) -> States:
        shift = State("shift", EffectKind.SHIFT, self.prior_std)
        return _states(np.zeros((data.n_contexts, data.n_variables)), shift)


class ScaleGaussian(CollapsedEffect):
    """The mechanism stays and its noise variance is multiplied by one of `ratios`, each with the same probability."""

    ratios: tuple[float, ...] = (1 / 16, 1 / 4, 4.0, 16.0)

    def states(self, data: ContextData) -> States:
        share = 1 / len(self.ratios)
        scales = [State(f"scale {ratio:g}", EffectKind.SCALE, ratio, share) for ratio in self.ratios]
        return _states(np.zeros((data.n_contexts, data.n_variables)), *scales)


class EffectMixture(CollapsedEffect):
    """The kind of effect is unknown for every context and variable: one of `effects`, with probabilities `shares`.

    >>> EffectMixture((HardGaussian(), ShiftGaussian(), SoftGaussian())).shares is None
    True
    """

    effects: tuple[AbstractEffect, ...]
    shares: tuple[float, ...] | None = None

    def states(self, data: ContextData) -> States:
        n = len(self.effects)
        shares = np.full(n, 1 / n) if self.shares is None else np.asarray(self.shares, float)
        if len(shares) != n or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
            raise ConfigError(
                f"The shares of a mixture of {n} effects are {shares.tolist()}; give {n} numbers above 0 that add to 1."
            )
        parts = [effect.states(data) for effect in self.effects]
        names = [name for part in parts for name in part.names[1:]]
        if len(set(names)) < len(names):
            raise ConfigError(f"A mixture of effects names one kind twice ({', '.join(names)}); name each kind once.")
        effects = [
            State(name, EffectKind(kind), value, share * np.exp(log_share))
            for part, share in zip(parts, shares, strict=True)
            for name, kind, value, log_share in part.effects()
        ]
        return _states(np.sum([part.hard_log_evidence for part in parts], axis=0), *effects)

    def draw_parameters(self, rng: np.random.Generator, data: ContextData, n: int) -> dict[str, Labelled]:
        drawn: dict[str, Labelled] = {}
        for effect in self.effects:
            drawn |= effect.draw_parameters(rng, data, n)
        return drawn


def _with_parameters(mechanism: AnyMechanism) -> AbstractMechanism:
    if not isinstance(mechanism, AbstractMechanism):
        raise ConfigError(
            f"A soft effect needs a mechanism with parameters and {type(mechanism).__name__} has none; "
            "use HardGaussian with it."
        )
    return mechanism
