"""`check_mechanism`: what is wrong with a mechanism of your own, in plain words."""

from collections.abc import Callable, Iterator
from itertools import product, zip_longest
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bacadi.data.contexts import ContextData, Scaling
from bacadi.errors import BacadiError
from bacadi.model.mechanism import AbstractMechanism
from bacadi.relaxed.mechanisms import log_likelihood, prepare, raw_rows

TOLERANCE = 1e-8
"""Largest relative change, in float64, that still counts as no change."""


class MechanismError(BacadiError):
    """A mechanism breaks the contract of `AbstractMechanism`."""


class Case(NamedTuple):
    """One point at which a mechanism is examined. `graphs`: empty, full DAG, relaxed; `graph[i, j]` is i -> j."""

    theta: PyTree
    graphs: dict[str, Float[Array, "d d"]]
    x: Float[Array, " d"]
    seed: int

    @property
    def in_numpy(self) -> tuple[PyTree, np.ndarray]:
        """Θ and the full DAG as a posterior holds them: NumPy arrays, the graph of whole numbers."""
        return jax.tree.map(np.asarray, self.theta), np.asarray(self.graphs["full"]).astype(np.int8)


def check_mechanism(mechanism: AbstractMechanism, n_variables: int = 4, seed: int = 0) -> None:
    """Raise `MechanismError` with one sentence for the first thing that is wrong with a mechanism, else do nothing.

    Examined are the parameters that `init` gives, shapes and types of `log_prior` and `log_prob`, that entry j
    depends on x_j, the parents of j and column j of the graph alone, that gradients are finite and reach the graph,
    that exp(log_prob_j) integrates to 1 over x_j, that `log_likelihood` (`bacadi.relaxed.mechanisms`) is the sum of
    `log_prob` over the rows, that `theta_of` undoes `labelled`, that `log_density` is `log_prob` row by row, that
    `rescaled` parameters give the same density in other units, and that `sample` draws one number per row.

    >>> from bacadi.model.linear import LinearGaussian
    >>> check_mechanism(LinearGaussian())
    """
    if not isinstance(mechanism, AbstractMechanism):
        raise MechanismError(
            f"{type(mechanism).__name__} is no AbstractMechanism; derive it from bacadi.model.mechanism."
            "AbstractMechanism and give it init, log_prior and log_prob."
        )
    if n_variables < 3:
        raise MechanismError(
            f"A mechanism of {n_variables} variables cannot show the use of a non-parent; check it with 3 or more."
        )
    # The numbers are compared in float64, so that a small dependence is told from rounding.
    for dtype, checks in ((jnp.float32, (_shapes,)), (jnp.float64, _CHECKS)):
        with jax.enable_x64(dtype is jnp.float64):
            case = _case(mechanism, n_variables, seed, jnp.dtype(dtype))
            for check in checks:
                if fault := next(check(mechanism, case), None):
                    raise MechanismError(fault)


def _case(mechanism: AbstractMechanism, d: int, seed: int, dtype: jnp.dtype) -> Case:
    theta, again = (_attempt("init", mechanism.init, jax.random.key(seed), d, dtype) for _ in range(2))
    if fault := next(_parameters(_leaves(theta), _leaves(again), dtype), None):
        raise MechanismError(fault)
    rng, full = np.random.default_rng(seed), np.zeros((d, d))
    order = rng.permutation(d)
    full[np.ix_(order, order)] = np.triu(np.ones((d, d)), 1)
    relaxed = rng.uniform(0.2, 0.8, (d, d)) * (1 - np.eye(d))
    graphs = {"empty": np.zeros((d, d)), "full": full, "relaxed": relaxed}
    # Parameters that start at 0 would hide what depends on them.
    moved = jax.tree.map(lambda leaf: leaf + jnp.asarray(0.1 * rng.normal(size=leaf.shape), dtype), theta)
    x = jnp.asarray(rng.normal(size=d), dtype)
    return Case(moved, {name: jnp.asarray(g, dtype) for name, g in graphs.items()}, x, seed)


def _leaves(tree: PyTree) -> list[tuple[str, Any]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [("theta" + jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _parameters(first: list[tuple[str, Any]], second: list[tuple[str, Any]], dtype: jnp.dtype) -> Iterator[str]:
    """What is wrong with the parameters that two calls of `init` gave."""
    if not first:
        yield "init gives no parameters; return at least one array (or nest several of them)."
    for name, leaf in first:
        if not isinstance(leaf, jax.Array):
            yield f"init gives {name} as {type(leaf).__name__} and no array; make it with jnp.asarray(..., dtype)."
        if leaf.dtype != dtype:
            yield f"init gives {name} the type {leaf.dtype} where {dtype} was asked for; make it with the one passed."
        if not jnp.isfinite(leaf).all():
            yield f"init gives {name} a value that is not finite; start from finite numbers."
    pairs = zip_longest(first, second, fillvalue=("", np.nan))
    if not all(name == other and np.array_equal(a, b) for (name, a), (other, b) in pairs):
        yield (
            "init gives other parameters when called again with the same key; draw from the key alone, "
            "by jax.random, and from no global state."
        )


def _attempt(method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what the user wrote; an exception of theirs becomes one sentence with the likely cause."""
    try:
        return function(*arguments)
    except BacadiError:
        raise
    except jax.errors.ConcretizationTypeError as error:
        raise MechanismError(
            f"{method} cannot be compiled ({type(error).__name__}); use jnp functions and jnp.where "
            "in place of Python's if, float() and numpy."
        ) from error
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise MechanismError(
            f"{method} stops with {type(error).__name__}: {reason}; mend it for d variables and a relaxed graph [d, d]."
        ) from error


def _shapes(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    d, graph = len(case.x), case.graphs["relaxed"]
    calls = {"log_prior": (case.theta, graph), "log_prob": (case.theta, graph, case.x)}
    for method, arguments in calls.items():
        out = _attempt(method, eqx.filter_eval_shape, getattr(mechanism, method), *arguments)
        shape = getattr(out, "shape", None)
        if shape is None:
            yield f"{method} gives {type(out).__name__} and no array; return an array of shape ({d},)."
        if shape != (d,):
            yield f"{method} gives the shape {shape} where ({d},) is expected; return one number a variable."
        if out.dtype != graph.dtype:
            yield f"{method} gives the type {out.dtype} for arguments of {graph.dtype}; keep their type."


@eqx.filter_jit
def _compiled(function: Callable[..., Array], *arguments: PyTree) -> Array:
    return function(*arguments)


@eqx.filter_jit
def _gradient(function: Callable[..., Array], arguments: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
    return jax.grad(lambda given: jnp.sum(function(*given)))(arguments)


def _evaluate(mechanism: AbstractMechanism, method: str, case: Case, graph: Array, x: Array) -> np.ndarray:
    arguments = (case.theta, graph) if method == "log_prior" else (case.theta, graph, x)
    # A writable copy, so that entries that may change can be struck out.
    return np.array(_compiled(getattr(mechanism, method), *arguments))


def _changed(new: np.ndarray, old: np.ndarray, tolerance: float = TOLERANCE) -> np.ndarray:
    return ~(np.abs(new - old) <= tolerance * (1 + np.abs(old)))


def _values(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    for method, (name, graph) in product(("log_prior", "log_prob"), case.graphs.items()):
        values = _evaluate(mechanism, method, case, graph, case.x)
        if not np.isfinite(values).all():
            yield (
                f"{method} of variable {int(np.argmin(np.isfinite(values)))} is not finite for the {name} graph; "
                "look for log(0), a division by 0 or exp of a large number."
            )


def _columns(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    d, graph = len(case.x), case.graphs["relaxed"]
    for method in ("log_prior", "log_prob"):
        before = _evaluate(mechanism, method, case, graph, case.x)
        for column in range(d):
            other = graph.at[:, column].set(0.9 * (1 - graph[:, column]) * (jnp.arange(d) != column))
            changed = _changed(_evaluate(mechanism, method, case, other, case.x), before)
            changed[column] = False
            if changed.any():
                yield (
                    f"{method} of variable {int(np.argmax(changed))} depends on column {column} of the graph; "
                    "entry j may use graph[:, j] alone (graph[i, j] = 1 means i -> j)."
                )


def _parents(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    d = len(case.x)
    for name in ("empty", "full"):
        graph = case.graphs[name]
        before = _evaluate(mechanism, "log_prob", case, graph, case.x)
        for i in range(d):
            changed = _changed(_evaluate(mechanism, "log_prob", case, graph, case.x.at[i].add(1.7)), before)
            changed &= (np.asarray(graph)[i] == 0) & (np.arange(d) != i)
            if changed.any():
                yield (
                    f"log_prob of variable {int(np.argmax(changed))} depends on x[{i}], which is no parent of it; "
                    "multiply x[i] by graph[i, j] before it is used for entry j."
                )


def _gradients(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    for graph_name, graph in case.graphs.items():
        for method, arguments in (("log_prior", (case.theta, graph)), ("log_prob", (case.theta, graph, case.x))):
            function = getattr(mechanism, method)
            theta, *others = _attempt(f"The gradient of {method}", _gradient, function, arguments)
            for name, leaf in [*_leaves(theta), *zip(("graph", "x"), others, strict=False)]:
                if not np.isfinite(leaf).all():
                    yield (
                        f"The gradient of {method} with respect to {name} is not finite for the {graph_name} graph; "
                        "look for a root, a logarithm or a division at 0, also in the branch jnp.where does not take."
                    )
        off_diagonal = np.asarray(others[0])[~np.eye(len(case.x), dtype=bool)]
        if graph_name == "relaxed" and not off_diagonal.any():
            yield (
                "No gradient reaches the graph from log_prob: mask parents by multiplication with the graph, "
                "not by comparing or rounding its entries."
            )


@eqx.filter_jit
def _integrals(mechanism: AbstractMechanism, case: Case) -> Float[Array, " d"]:
    """∫ exp(log_prob_j) dx_j by the trapezoid rule in u, x_j = sinh u: fine near 0 and out to ± 10⁴."""
    u = jnp.linspace(-10.0, 10.0, 20_001)
    grid, step = jnp.sinh(u), (u[1] - u[0]) * jnp.cosh(u)

    def density(j: Array, value: Array) -> Array:
        return jnp.exp(mechanism.log_prob(case.theta, case.graphs["full"], case.x.at[j].set(value))[j])

    values = jax.vmap(jax.vmap(density, in_axes=(None, 0)), in_axes=(0, None))(jnp.arange(len(case.x)), grid)
    return values @ step


def _normalised(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    for j, total in enumerate(np.asarray(_integrals(mechanism, case)).tolist()):
        if not abs(total - 1) < 1e-2:
            yield (
                f"exp(log_prob) of variable {j} integrates to {total:.4g} over x[{j}] where 1 is expected; "
                "add the constant that makes it a density (a Gaussian has -log(std) - log(2 pi) / 2)."
            )


def _likelihood(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    d, dtype, rng = len(case.x), case.x.dtype, np.random.default_rng(case.seed)
    counts = (d + 3, 2, 1)  # one context with more rows than columns, which sufficient statistics treat apart
    names = tuple(f"x{j}" for j in range(d))
    data = ContextData(rng.normal(size=(sum(counts), d)), np.repeat(np.arange(3), counts), names, ("a", "b"), "obs")
    graphs = jnp.stack([case.graphs["full"], case.graphs["relaxed"]], axis=1)
    # The path of every mechanism, whatever is registered in its place for this one.
    plain_likelihood = log_likelihood.dispatch(object)
    plain = np.asarray(_compiled(plain_likelihood, mechanism, case.theta, graphs, raw_rows(data, dtype)))
    rows = _attempt("prepare", prepare, mechanism, data, dtype)
    fast = np.asarray(_attempt("log_likelihood", _compiled, log_likelihood, mechanism, case.theta, graphs, rows))
    if fast.shape != plain.shape:
        yield (
            f"log_likelihood gives the shape {fast.shape} where {plain.shape} is expected: contexts, graphs, variables."
        )
    if (wrong := _changed(fast, plain, 1e-6)).any():
        k, s, j = np.argwhere(wrong)[0].tolist()
        yield (
            f"log_likelihood of variable {j} in context {k} is {fast[k, s, j]:.6g} where log_prob over the rows adds "
            f"to {plain[k, s, j]:.6g}; mend log_likelihood or prepare, or leave both out."
        )


def _labels(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    theta, _ = case.in_numpy
    labelled = _attempt("labelled", mechanism.labelled, theta)
    for name, (values, dims) in labelled.items():
        if (n := np.ndim(values)) != len(dims):
            yield f"labelled gives {name} {len(dims)} names of axes where it has {n} axes; name each axis."
    values = {name: np.asarray(part.values) for name, part in labelled.items()}
    again = _attempt("theta_of", mechanism.theta_of, values, len(case.x))
    if jax.tree.structure(again) != jax.tree.structure(theta):  # type: ignore[operator]
        yield (
            "theta_of gives parameters of another structure than init; build the same nest of arrays from the names "
            "that labelled gives."
        )
    for (name, old), (_, new) in zip(_leaves(theta), _leaves(again), strict=True):
        if np.shape(new) != old.shape or _changed(np.asarray(new), old).any():
            yield f"theta_of gives back another {name} than labelled was given; undo in theta_of what labelled does."


def _density(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    x, (theta, graph) = np.random.default_rng(case.seed).normal(size=(5, len(case.x))), case.in_numpy
    found = np.asarray(_attempt("log_density", mechanism.log_density, theta, graph, x))
    if found.shape != x.shape:
        yield f"log_density gives the shape {found.shape} for 5 rows where {x.shape} is expected: rows, variables."
    rows = np.stack([_evaluate(mechanism, "log_prob", case, case.graphs["full"], jnp.asarray(row)) for row in x])
    if (wrong := _changed(found, rows)).any():
        n, j = np.argwhere(wrong)[0].tolist()
        yield (
            f"log_density of variable {j} is {found[n, j]:.6g} where log_prob of the row gives {rows[n, j]:.6g}; "
            "mend log_density or leave it out."
        )


def _units(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    """With x = shift + scale · u, p(u) = p(x) · scale for every variable given its parents."""
    rng, d, (theta, graph) = np.random.default_rng(case.seed), len(case.x), case.in_numpy
    scaling = Scaling(rng.normal(size=d), np.exp(rng.normal(size=d)))
    other = _attempt("rescaled", mechanism.rescaled, theta, graph, scaling)
    if other is None:
        return
    u = rng.normal(size=(5, d))
    before = np.asarray(mechanism.log_density(theta, graph, u))
    after = np.asarray(_attempt("log_density", mechanism.log_density, other, graph, scaling.invert(u)))
    if (wrong := _changed(after + np.log(scaling.scale), before, 1e-6)).any():
        yield (
            f"The density of variable {np.argwhere(wrong)[0, 1]} is another one in other units of the data; "
            "mend rescaled (x = shift + scale * u, with u in the units of theta) or return None."
        )


def _sample(mechanism: AbstractMechanism, case: Case) -> Iterator[str]:
    (theta, graph), x = case.in_numpy, np.zeros((5, len(case.x)))
    for node in range(len(case.x)):
        drawn = _attempt("sample", mechanism.sample, np.random.default_rng(case.seed), theta, graph, x, node)
        if (shape := np.shape(drawn)) != (5,):
            yield f"sample gives the shape {shape} for 5 rows where (5,) is expected; draw one number per row."


_CHECKS = _shapes, _values, _columns, _parents, _gradients, _normalised, _likelihood, _labels, _density, _units, _sample
