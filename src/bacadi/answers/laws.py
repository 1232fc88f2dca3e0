"""log p(new rows of a variable | its parents, parameters of a draw) of many data sets under many draws at once.

The laws of linear mechanisms read n rows as their matrix of products, so that any number of rows costs the same:
Σ_n (x_nj - w'x_n - b)² = v'Mv with M = Σ_n (x_n, 1)(x_n, 1)' and v = (e_j - w, -b). All others go row by row.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from bacadi.answers.effects import reference
from bacadi.data.contexts import Scaling
from bacadi.model.kernels import FUNCTION_PARAMETERS, FunctionMechanism
from bacadi.model.linear import LinearTheta
from bacadi.model.network import Effects
from bacadi.model.noise import LOG_2PI, log_normal
from bacadi.posterior.networks import DrawnNetworks

DataSets = Float[np.ndarray, "B n d"]
LogLikelihood = Float[np.ndarray, "s B"]
Wanted = Mapping[int, Int[np.ndarray, " s"]]
"""Of which draws each node is wanted."""


def log_likelihoods(
    networks: DrawnNetworks, x: DataSets, wanted: Wanted, effects: Sequence[Effects] | None = None
) -> dict[int, LogLikelihood]:
    """Of each node: log p(x_bj of all n rows | parents, Θ_l) of the draws l that are wanted and every data set b.

    `x` is in the units of the networks. `effects[l]` is what draw l says of the context that the rows are of, None
    where no mechanism of the nodes is touched.
    """
    if networks.is_linear:
        return _linear(networks, x, wanted, effects)
    if isinstance(networks.mechanism, FunctionMechanism):
        return _functions(networks, networks.mechanism, x, wanted, effects)
    return _by_row(networks, x, wanted, effects)


def _linear(
    networks: DrawnNetworks, x: DataSets, wanted: Wanted, effects: Sequence[Effects] | None
) -> dict[int, LogLikelihood]:
    # In standard deviations from the control: sums of squares of numbers far from 0 lose their digits.
    mean, std = reference(networks.posterior)
    units, mechanism = Scaling(mean, std), networks.mechanism
    theta: LinearTheta = mechanism.rescaled(networks.linear, networks.graphs, units.inverse())  # type: ignore
    (n_sets, n_rows, d), u = x.shape, units.apply(x)
    rows = np.concatenate([u, np.ones((n_sets, n_rows, 1))], axis=2)
    products = rows.transpose(0, 2, 1) @ rows
    weight, intercept, noise = theta.weight.copy(), np.array(theta.intercept), np.exp(np.array(theta.log_noise_std))
    if effects is not None:
        for draw, effect in enumerate(effects):
            scaled, hit = effect.scaled(units), effect.targets[0] != 0
            own = (
                None
                if effect.theta[0] is None
                else mechanism.rescaled(  # type: ignore[union-attr]
                    effect.theta[0], networks.graphs[draw], units.inverse()
                )
            )
            used = theta_at(theta, draw) if own is None else own
            keeps = scaled.keeps_parents[0]
            weight[draw][:, hit] = (used.weight * keeps)[:, hit]
            intercept[draw, hit] = (used.intercept * keeps + scaled.shift[0])[hit]
            noise[draw, hit] = scaled.std[0, hit]
    found, log_scale = {}, n_rows * np.log(std)
    for node, draws in wanted.items():
        groups, total = networks.parent_groups[node], np.empty((len(draws), n_sets))
        for group, parents in enumerate(groups.parents):
            place = np.flatnonzero(groups.of_draw[draws] == group)
            at, columns = draws[place], [*np.flatnonzero(parents), d, node]
            v = np.column_stack([-weight[at][:, parents, node], -intercept[at, node], np.ones(len(at))])
            squares = ((v @ products[:, columns][:, :, columns]) * v).sum(axis=2).T
            sigma = noise[at, node, None]
            total[place] = -n_rows * (np.log(sigma) + 0.5 * LOG_2PI) - 0.5 * np.maximum(squares, 0.0) / sigma**2
        found[node] = total - log_scale[node]
    return found


def theta_at(theta: LinearTheta, draw: int) -> LinearTheta:
    """Θ of one draw of many."""
    return LinearTheta(*(None if part is None else part[draw] for part in theta))


def _functions(
    networks: DrawnNetworks,
    mechanism: FunctionMechanism,
    x: DataSets,
    wanted: Wanted,
    effects: Sequence[Effects] | None,
) -> dict[int, LogLikelihood]:
    n_sets, n_rows, d = x.shape
    flat, found = x.reshape(-1, d), {}
    for node, draws in wanted.items():
        drawn = {name: value[draws] for name, value in networks.parameters.items() if name in FUNCTION_PARAMETERS}
        (mean,) = mechanism.columns(drawn, networks.graphs[draws], flat, [node])
        std = networks.parameters["noise_std"][draws, node]
        if effects is not None:
            of_draws = [effects[draw] for draw in draws.tolist()]
            hit = np.array([effect.targets[0, node] for effect in of_draws]) != 0
            keeps = np.array([effect.keeps_parents[0, node] for effect in of_draws])
            shift = np.array([effect.shift[0, node] for effect in of_draws])
            own = np.array([effect.std[0, node] for effect in of_draws])
            mean = np.where(hit[:, None], np.where(keeps[:, None], mean, 0.0) + shift[:, None], mean)
            std = np.where(hit, own, std)
        log_p = log_normal(flat[:, node], mean, std[:, None])
        found[node] = log_p.reshape(-1, n_sets, n_rows).sum(axis=2)
    return found


def _by_row(
    networks: DrawnNetworks, x: DataSets, wanted: Wanted, effects: Sequence[Effects] | None
) -> dict[int, LogLikelihood]:
    (n_sets, n_rows, d), found = x.shape, {node: np.empty((len(draws), len(x))) for node, draws in wanted.items()}
    flat = x.reshape(-1, d)
    none = np.zeros((0, d))
    untouched = Effects(none.astype(np.int8), none == 0, none, none, ())
    for draw in np.unique(np.concatenate([*wanted.values(), np.zeros(0, int)])).tolist():
        effect, context = (untouched, 0) if effects is None else (effects[draw], 1)
        log_p = networks.network(draw).log_density(flat, np.full(len(flat), context), effect)
        by_set = log_p.reshape(n_sets, n_rows, d).sum(axis=1)
        for node, draws in wanted.items():
            found[node][draws == draw] = by_set[:, node]
    return found
