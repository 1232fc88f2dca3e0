"""The draws of a posterior as causal networks: which mechanism they are of, in which units, and their effects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8, UInt64

from bacadi.config.codec import Place, decode
from bacadi.data.contexts import Scaling
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import EffectKind
from bacadi.evidence.effects import hard_part, states_of
from bacadi.graph.dag import transitive_closure
from bacadi.model.effects import Effect
from bacadi.model.kernels import FunctionMechanism
from bacadi.model.linear import LinearGaussian, LinearTheta
from bacadi.model.mechanism import AbstractMechanism, GaussianMechanism, Mechanism, Theta
from bacadi.model.network import CausalNetwork, Effects
from bacadi.model.neural import LEAKY_RELU, NeuralGaussian
from bacadi.posterior.posterior import Posterior

_SLOT = ("effect_context", "effect_node", "effect_weight", "effect_intercept", "effect_own_noise_std")


def recorded_mechanism(posterior: Posterior, modules: Sequence[str] = ()) -> Mechanism | None:
    """Decode the mechanism of the configuration stored with a posterior, None where there is none.

    Args:
        modules: modules of the user's own that the record may name a mechanism of; no other is imported.
    """
    return _recorded(posterior, Mechanism, "mechanism", modules)


def recorded_effect(posterior: Posterior) -> Effect | None:
    """The effect of the configuration stored with a posterior, None where there is none."""
    return _recorded(posterior, Effect, "effect", ())


def _recorded(posterior: Posterior, kind: Any, name: str, modules: Sequence[str]) -> Any:
    table: Any = posterior.attrs
    for key in ("configuration", "model", name):
        table = table.get(key) if isinstance(table, Mapping) else None
    if table is None:
        return None
    place = Place("the configuration of the posterior", ("model",), tuple(modules))
    return decode(kind, table, place, name)


def mechanism_by_names(posterior: Posterior) -> AbstractMechanism | None:
    """The mechanism of a method that brings its own model, by the names of its parameters."""
    if "weight" in posterior.parameters:
        return LinearGaussian()
    n_layers = sum(name.startswith("layer_") and name.endswith("_bias") for name in posterior.parameters)
    if not n_layers:
        return None
    network = NeuralGaussian(hidden=(1,) * (n_layers - 1))  # the widths are those of the parameters
    if "negative_slope" not in posterior.parameters:
        return network
    slope = float(posterior.parameters["negative_slope"].values.flat[0])
    return network.replace(activation=LEAKY_RELU, negative_slope=slope)


def has_parameters(mechanism: AbstractMechanism, posterior: Posterior) -> bool:
    """Networks that were integrated out and not drawn leave no weights behind."""
    values = {name: item.values[0, 0] for name, item in posterior.parameters.items()}
    try:
        mechanism.theta_of(values, posterior.n_variables)
    except KeyError:
        return False
    return True


def in_prior_units(mechanism: AbstractMechanism) -> bool:
    """Whether its parameters are in the units of the priors, because it does not know how to convert them."""
    return type(mechanism).rescaled is AbstractMechanism.rescaled


def drawn_functions(posterior: Posterior) -> FunctionMechanism | None:
    """The mechanism of functions drawn from Gaussian processes, None where the draws hold none."""
    if "output_weight" not in posterior.parameters:
        return None
    hidden = {name: item.values for name, item in posterior.constant_data.items() if name.startswith("hidden_")}
    return FunctionMechanism(hidden, units_of(posterior))


def units_of(posterior: Posterior) -> Scaling:
    """The units of the priors, x = shift + scale · (x in these units), as stored; without them those of the data."""
    stored = posterior.constant_data
    if "unit_shift" not in stored:
        return Scaling.identity(posterior.n_variables)
    return Scaling(stored["unit_shift"].values, stored["unit_scale"].values)


class ParentGroups(NamedTuple):
    """The sets of parents that a variable has in n draws, and which of them each draw has."""

    parents: Bool[np.ndarray, "g d"]
    of_draw: Int[np.ndarray, " n"]

    @classmethod
    def of(cls, columns: Int8[np.ndarray, "n d"]) -> "ParentGroups":
        """From the columns of the variable in the graphs.

        >>> ParentGroups.of(np.array([[0, 1], [0, 0], [0, 1]], np.int8)).of_draw.tolist()
        [1, 0, 1]
        """
        packed, of_draw = np.unique(np.packbits(columns != 0, axis=1), axis=0, return_inverse=True)
        return cls(np.unpackbits(packed, axis=1, count=columns.shape[1]) != 0, of_draw.ravel())


@dataclass(frozen=True, eq=False)
class DrawnNetworks:
    """The causal networks of draws with their weights, which add to 1; `DrawnNetworks.of` takes them from a posterior.

    `at` are the places of the draws among all of the posterior. Networks are in the units of the fit, or for a
    mechanism that does not know how to convert its parameters in those of the priors: `units` leads from the networks'
    to the fit's.
    """

    posterior: Posterior
    at: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    mechanism: AbstractMechanism | FunctionMechanism
    units: Scaling
    _made: dict[int, CausalNetwork] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, posterior: Posterior, limit: int | None = None, modules: Sequence[str] = ()) -> "DrawnNetworks":
        """All acyclic draws that have weight, or about `limit` of them, taken by weight (systematic resampling)."""
        mechanism = _mechanism_of_draws(posterior, modules)
        prior_units = isinstance(mechanism, AbstractMechanism) and in_prior_units(mechanism)
        units = units_of(posterior) if prior_units else Scaling.identity(posterior.n_variables)
        weights = (posterior.weights * posterior.acyclic).ravel()
        at = np.flatnonzero(weights)
        share = weights[at] / weights[at].sum()
        if limit is not None and len(at) > limit:
            places = np.searchsorted(np.cumsum(share), (np.arange(limit) + 0.5) / limit)
            chosen, counts = np.unique(np.minimum(places, len(at) - 1), return_counts=True)
            at, share = at[chosen], counts / limit
        return cls(posterior, at, share, mechanism, units)

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def graphs(self) -> Int8[np.ndarray, "n d d"]:
        """`graphs[l, i, j] = 1` where i -> j in draw l."""
        return self._flat(self.posterior.graph)

    @cached_property
    def targets(self) -> Int8[np.ndarray, "n M d"]:
        """1 where a context intervenes on a variable."""
        return self._flat(self.posterior.intervention_target)

    @cached_property
    def ancestors(self) -> Bool[np.ndarray, "n d d"]:
        """Whether a directed path leads from i to j."""
        return transitive_closure(self.graphs)

    @cached_property
    def parent_codes(self) -> UInt64[np.ndarray, "n d"]:
        """A random number for each variable with each of its sets of parents: sums tell parts of graphs apart."""
        rng = np.random.default_rng(0)
        columns = [
            rng.integers(2**63, size=len(group.parents), dtype=np.uint64)[group.of_draw] for group in self.parent_groups
        ]
        return np.stack(columns, axis=1)

    @property
    def is_linear(self) -> bool:
        """Whether mechanisms are linear with Gaussian noise."""
        return isinstance(self.mechanism, LinearGaussian)

    @cached_property
    def linear(self) -> LinearTheta:
        """Weights [n, d, d] (0 without an edge), intercepts and log σ [n, d] of all draws, of linear networks."""
        shape, values = self.graphs.shape[:2], self.parameters
        mechanism: Any = self.mechanism
        intercept = values["intercept"] if "intercept" in values else np.zeros(shape)
        log_std = np.log(values["noise_std"]) if "noise_std" in values else None
        log_std = np.broadcast_to(mechanism.noise.log_std(log_std), shape)
        return LinearTheta(self.graphs * values["weight"], intercept, log_std)

    def network(self, draw: int) -> CausalNetwork:
        """The network of a draw, made once."""
        if draw not in self._made:
            self._made[draw] = CausalNetwork(self.graphs[draw], self.mechanism, self._theta(draw))
        return self._made[draw]

    @cached_property
    def parent_groups(self) -> list[ParentGroups]:
        """Of every variable which draws share its parents."""
        return [ParentGroups.of(self.graphs[:, :, node]) for node in range(self.graphs.shape[1])]

    def effects(self, draw: int) -> Effects:
        """What the draw says of its contexts: targets and effects, in the units of the networks.

        Refuses effects whose parameters the draws do not hold.
        """
        values, targets = {name: array[draw] for name, array in self.parameters.items()}, self.targets[draw]
        kind = np.where(targets != 0, self._kinds[draw], EffectKind.NONE)
        std = np.broadcast_to(self._noise_std(self._theta(draw)), targets.shape) * self.units.scale
        hard = kind == EffectKind.HARD
        shift = np.where(hard, values.get("effect_mean", 0.0), 0.0)
        shift = np.where(kind == EffectKind.SHIFT, values.get("effect_shift", 0.0), shift)
        std = np.where(hard, values.get("effect_noise_std", self._fixed_hard_std), std)
        std = np.where(kind == EffectKind.SCALE, std * np.sqrt(values.get("effect_noise_ratio", 1.0)), std)
        own: list[Theta | None] = [None] * len(targets)
        for k in np.flatnonzero((kind == EffectKind.SOFT).any(axis=1)):
            own[k] = self._soft(draw, int(k))
            std[k] = np.where(kind[k] == EffectKind.SOFT, self._noise_std(own[k]) * self.units.scale, std[k])
        return Effects(targets, ~hard, shift, std, tuple(own)).scaled(self.units)

    @cached_property
    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters of the draws by name, the draw as the first axis."""
        return {name: self._flat(item.values) for name, item in self.posterior.parameters.items()}

    def _flat(self, array: np.ndarray) -> np.ndarray:
        flat = array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])[self.at]
        return flat.astype(float) if flat.dtype == np.float32 else flat

    def _theta(self, draw: int) -> Theta:
        values = {name: array[draw] for name, array in self.parameters.items()}
        if isinstance(self.mechanism, FunctionMechanism):
            return values
        return self.mechanism.theta_of(values, self.posterior.n_variables)

    def _noise_std(self, theta: Theta) -> Float[np.ndarray, " d"]:
        """σ where there is Gaussian noise, 0 where a mechanism has its own way to draw."""
        d = self.posterior.n_variables
        if not isinstance(self.mechanism, GaussianMechanism | FunctionMechanism):
            return np.zeros(d)
        return np.broadcast_to(np.exp(self.mechanism.log_noise_std(theta)), d)

    @cached_property
    def _kinds(self) -> Int8[np.ndarray, "n M d"]:
        """The kind of effect of every context and variable, had there been one."""
        effect = recorded_effect(self.posterior)
        if effect is None:  # a baseline, whose effects are hard
            return np.full(self.targets.shape, EffectKind.HARD, np.int8)
        kinds = np.array([EffectKind.NONE, *(state.kind for state in states_of(effect))], np.int8)
        states = self.parameters.get("effect_state", self.targets)
        return kinds[np.minimum(states, len(kinds) - 1).astype(int)]

    @cached_property
    def _fixed_hard_std(self) -> Any:
        """σ_I of hard effects where it is known beforehand."""
        effect = recorded_effect(self.posterior)
        hard = None if effect is None else hard_part(effect)
        variance = None if hard is None else hard.noise.conjugate().variance
        return 1.0 if variance is None else variance**0.5 * units_of(self.posterior).scale

    def _soft(self, draw: int, context: int) -> Theta:
        """Θ of a context whose soft effects have put other mechanisms in place of those of their targets."""
        values, d = {name: array[draw] for name, array in self.parameters.items()}, self.posterior.n_variables
        if "effect_node" in values:  # drawn for the targets alone, a slot for each
            of_context, node, weight, intercept, std = (values[name] for name in _SLOT)
            theta = self._theta(draw)
            weights, own_std = np.array(theta.weight), np.exp(np.broadcast_to(theta.log_noise_std, d))
            intercepts = np.zeros(d) if theta.intercept is None else np.array(theta.intercept)
            for slot in np.flatnonzero(of_context == context):
                j = int(node[slot])
                weights[:, j], intercepts[j], own_std[j] = weight[slot], intercept[slot], std[slot]
            return LinearTheta(weights, intercepts, np.log(own_std))
        own = {name: values[f"effect_{name}"][context] for name in values if f"effect_{name}" in values}
        if isinstance(self.mechanism, FunctionMechanism) or not own:
            raise ConfigError(
                f"The draws hold no parameters of the soft effects of context '{self.posterior.contexts[context]}', so "
                "that what it does cannot be simulated; fit with --effect hard or shift, or with --model linear."
            )
        return self.mechanism.theta_of(values | own, d)


def _mechanism_of_draws(posterior: Posterior, modules: Sequence[str]) -> AbstractMechanism | FunctionMechanism:
    """The mechanism whose parameters the draws hold; a sentence where they hold none."""
    if (functions := drawn_functions(posterior)) is not None:
        return functions
    recorded = recorded_mechanism(posterior, modules)
    for mechanism in (recorded, mechanism_by_names(posterior)):
        if isinstance(mechanism, AbstractMechanism) and has_parameters(mechanism, posterior):
            return mechanism
    method = posterior.attrs.get("method", "this method")
    raise ConfigError(
        f"The draws of {method} hold no parameters of mechanisms, so that effects and interventions cannot be computed "
        "from them; fit with --method mcmc."
    )
