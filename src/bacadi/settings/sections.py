"""The sections of a configuration: every key with its default and what it may be.

The defaults are those of the classes that `build` makes of them, read off where that costs nothing. Strings that stand
for choices live here alone; the words "auto" and "none" stand for None, which TOML does not have.
"""

from dataclasses import dataclass

from bacadi.inference.mcmc.method import MCMC, MoveWeights
from bacadi.settings.rules import Choice, Flag, Number, Numbers, Whole, Widths, setting

MECHANISMS = ("linear", "nonlinear", "bge")
EFFECTS = ("hard", "soft", "shift", "scale", "any")
MIXED = ("hard", "shift", "scale", "soft")
"""The kinds that effect = "any" mixes, in the order of `shares`."""

_Only = dict[str, tuple[str, ...]]
_LINEAR, _NONLINEAR, _BGE = (_Only(mechanism=(name,)) for name in MECHANISMS)
_NETWORK = _NONLINEAR | {"kernel": ("network",)}
_SMOOTH = _NONLINEAR | {"kernel": ("rbf", "additive")}
_NOISY: _Only = {"mechanism": ("linear", "nonlinear")}
_PARAMETRIC = _NOISY | {"kernel": ("network",)}
_SVGD: _Only = {"method": ("svgd",)}
_HARD: _Only = {"effect": ("hard", "any")}
_RELAXING = {"estimator": ("relaxed", "blockwise")}
_SAMPLING = {"estimator": ("relaxed", "blockwise", "marginal")}
_GIBBS = {"estimator": ("gibbs",)}
_SAMPLED = {"acyclicity": ("sampled",)}
_FINITE = {"reading": ("finite",)}


@dataclass(frozen=True)
class ModelSettings:
    """`[model]`: mechanism, effect of interventions, priors of graph and targets.

    `units` says what the priors are stated in: the columns as they are, or each column's own unit.
    """

    mechanism: str = setting("linear", Choice(MECHANISMS))
    units: str = setting("raw", Choice(("raw", "own")))
    noise_std: float | str = setting(0.1**0.5, Number(above=0, word="inferred"), _NOISY)
    noise_shape: float = setting(2.0, Number(above=0), _NOISY | {"noise_std": ("inferred",)})
    noise_scale: float = setting(0.2, Number(above=0), _NOISY | {"noise_std": ("inferred",)})
    weight_std: float = setting(1.0, Number(above=0), _PARAMETRIC)
    absent_ratio: float | str = setting("none", Number(above=0, word="none"), _PARAMETRIC | _SVGD)
    intercept: bool = setting(False, Flag(), _NOISY)
    intercept_std: float = setting(10.0, Number(above=0), _LINEAR)
    kernel: str = setting("network", Choice(("network", "rbf", "additive")), _NONLINEAR)
    hidden: tuple[int, ...] = setting((5,), Widths(), _NETWORK)
    activation: str = setting("sigmoid", Choice(("sigmoid", "tanh", "relu", "gelu", "softplus")), _NETWORK)
    lengthscales: tuple[float, ...] = setting((1.0, 2.0, 4.0), Numbers(), _SMOOTH)
    alpha_mu: float = setting(1.0, Number(above=0), _BGE)
    alpha_omega_excess: float = setting(2.0, Number(above=1), _BGE)
    effect: str = setting("hard", Choice(EFFECTS))
    effect_noise_std: float | str = setting(0.5**0.5, Number(above=0, word="inferred"), _HARD)
    effect_noise_shape: float = setting(2.0, Number(above=0), _HARD | {"effect_noise_std": ("inferred",)})
    effect_noise_scale: float = setting(0.2, Number(above=0), _HARD | {"effect_noise_std": ("inferred",)})
    effect_mean: float = setting(0.0, Number(), _HARD)
    effect_mean_std: float = setting(10.0, Number(above=0), _HARD)
    shift_std: float = setting(5.0, Number(above=0), {"effect": ("shift", "any")})
    scale_ratios: tuple[float, ...] = setting((1 / 16, 1 / 4, 4.0, 16.0), Numbers(), {"effect": ("scale", "any")})
    shares: tuple[float, ...] = setting((0.25, 0.25, 0.25, 0.25), Numbers(shares=len(MIXED)), {"effect": ("any",)})
    pseudo_prior: bool = setting(True, Flag(), {"effect": ("hard",)} | _SVGD)
    graph_prior: str = setting("er", Choice(("er", "ordered", "sf", "attachment", "uniform")))
    edges_per_node: float = setting(2.0, Number(above=0), {"graph_prior": ("er", "ordered", "attachment")})
    exponent: float = setting(3.0, Number(least=0), {"graph_prior": ("sf",)})
    sparsity: float = setting(1.0, Number(least=0))
    gamma_std: float = setting(0.1**0.5, Number(above=0), _SVGD)
    change_of_variables: bool = setting(False, Flag(), _SVGD)
    z_std: float | str = setting("auto", Number(above=0, word="auto"), _SVGD)


@dataclass(frozen=True)
class SVGDSettings:
    """`[svgd]`: particles, steps, estimator of the score, annealing, kernel, how particles are read and weighted.

    `alpha` and `beta` are the slopes of the annealing schedules: α_t = alpha · t, β_t = beta · t.
    """

    particles: int = setting(20, Whole())
    steps: int = setting(2000, Whole())
    estimator: str = setting("relaxed", Choice(("relaxed", "blockwise", "marginal", "gibbs")))
    samples: int = setting(32, Whole(), _SAMPLING)
    temperature: float = setting(1.0, Number(above=0), _RELAXING)
    by_column: bool = setting(True, Flag(), _RELAXING)
    chains: int = setting(4, Whole(), _GIBBS)
    sweeps: int = setting(1, Whole(), _GIBBS)
    acyclic_chains: bool = setting(True, Flag(), _GIBBS)
    cold_alpha: float | str = setting("none", Number(above=0, word="none"), _GIBBS)
    optimizer: str = setting("rmsprop", Choice(("rmsprop", "adam", "sgd")))
    learning_rate: float = setting(0.01, Number(above=0))
    alpha: float = setting(0.01, Number(above=0))
    beta: float = setting(2.0, Number(least=0))
    kernel: str = setting("additive", Choice(("additive", "product")))
    kernel_terms: int = setting(4, Choice((3, 4)))
    bandwidth_z: float | str = setting(0.276, Number(above=0, word="median"))
    bandwidth_gamma: float | str = setting(1.64, Number(above=0, word="median"))
    bandwidth_theta: float | str = setting(226.0, Number(above=0, word="median"))
    bandwidth_theta_int: float | str = setting(226.0, Number(above=0, word="median"))
    acyclicity: str = setting("probs", Choice(("probs", "sampled")))
    acyclicity_samples: int = setting(32, Whole(), _SAMPLED)
    acyclicity_temperature: float = setting(1.0, Number(above=0), _SAMPLED)
    latent_dim: int | str = setting("auto", Whole(word="auto"))
    weights: str = setting("tempered", Choice(("posterior", "tempered", "uniform")))
    weight_share: float = setting(0.5, Number(above=0), {"weights": ("tempered",)})
    collapsed: bool = setting(True, Flag())
    target_sweeps: int = setting(3, Whole(least=0), {"collapsed": (True,)})
    reading: str = setting("finite", Choice(("limit", "finite", "chains")))
    reading_draws: int = setting(16, Whole(), _FINITE)
    reading_candidates: int = setting(128, Whole(), _FINITE)
    double: bool = setting(False, Flag())


_MCMC, _MOVES = MCMC(), MoveWeights()


@dataclass(frozen=True)
class MCMCSettings:
    """`[mcmc]`: draws, length and temperatures of the run, and how often each move is proposed.

    Toggling an edge and changing a target reach every state between them, so they cannot be switched off.
    """

    draws: int = setting(_MCMC.n_draws, Whole())
    replicas: int = setting(_MCMC.n_replicas, Whole(least=2))
    sweeps: int | str = setting(_MCMC.n_sweeps or "auto", Whole(word="auto"))
    time_budget: float | str = setting(_MCMC.time_budget or "none", Number(above=0, word="none"))
    burn_in: float = setting(_MCMC.burn_in, Number(above=0, below=1))
    levels: int | str = setting(_MCMC.n_levels or "auto", Whole(least=2, word="auto"))
    max_temperature: float | str = setting(_MCMC.max_temperature or "auto", Number(above=1, word="auto"))
    moves_per_sweep: int | str = setting(_MCMC.moves_per_sweep or "auto", Whole(word="auto"))
    max_parents: int | str = setting(_MCMC.max_parents or "none", Whole(word="none"))
    move_toggle: float = setting(_MOVES.toggle, Number(above=0))
    move_reverse: float = setting(_MOVES.reverse, Number(least=0))
    move_swap_parent: float = setting(_MOVES.swap_parent, Number(least=0))
    move_change_target: float = setting(_MOVES.change_target, Number(above=0))
    move_swap_target: float = setting(_MOVES.swap_target, Number(least=0))
    move_edge_and_target: float = setting(_MOVES.edge_and_target, Number(least=0))
    move_toggle_and_column: float = setting(_MOVES.toggle_and_column, Number(least=0))
    move_reverse_and_columns: float = setting(_MOVES.reverse_and_columns, Number(least=0))


@dataclass(frozen=True)
class ExactSettings:
    """`[exact]`: draws where there are more than `max_pairs` pairs of graph and targets to list."""

    draws: int = setting(10_000, Whole())
    max_pairs: int = setting(20_000, Whole(least=0))
