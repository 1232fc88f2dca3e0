"""log Ψ and the joint: Eq. (11), the likelihood, written out, sufficient statistics, relabelling, and refusals."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.model.effects import Effect, EffectMixture, HardGaussian, ScaleGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.integrated import GaussianProcess
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import weights_log_prior
from bacadi.model.model import Model
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.model.priors import AbstractGraphPrior, OrderedErdosRenyi, PreferentialAttachment, ScaleFree
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle, Structures
from bacadi.relaxed.mechanisms import gram_rows, log_likelihood, prepare, raw_rows

from ..small import PAPER, PAPER_BGE, PAPER_NETWORKS, small_data

D, M = 4, 2
GRAPH = np.array([[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]], float)
TARGETS = np.array([[0, 1, 0, 0], [1, 0, 0, 1]], float)
DATA = small_data((7, 6, 2), D)

MODELS = {
    "linear": PAPER,
    "linear, everything inferred": Model(
        mechanism=LinearGaussian(InferredNoise(), 1.0, intercept_prior_std=1.0, absent_ratio=1.0),
        effect=HardGaussian(noise=InferredNoise(), pseudo_prior=True),
        graph_prior=ScaleFree(),
    ),
    "linear, soft": PAPER.replace(mechanism=PAPER.mechanism.replace(intercept_prior_std=1.0), effect=SoftGaussian()),
    "neural": PAPER_NETWORKS.replace(mechanism=PAPER_NETWORKS.mechanism.replace(hidden=(3, 2))),
    "neural, soft": PAPER_NETWORKS.replace(
        mechanism=PAPER_NETWORKS.mechanism.replace(hidden=(2,)), effect=SoftGaussian()
    ),
    "BGe": PAPER_BGE,
}


def particle_of(density: Density) -> Particle:
    """A particle whose every number is away from 0."""
    particle = eqx.filter_jit(density.init)(jax.random.key(3))
    leaves, structure = jax.tree.flatten(particle)
    rng = np.random.default_rng(1)
    return structure.unflatten([leaf + jnp.asarray(0.2 * rng.normal(size=leaf.shape), leaf.dtype) for leaf in leaves])


def test_log_psi_of_the_linear_model_by_hand() -> None:
    """Eq. (11), the likelihood, with scipy densities, row by row: σ² = .1, σ_I² = .5, weights N(0, 1), means N(0, 10²)
    or density 1."""
    density = Density.of(PAPER.replace(effect=PAPER.effect.replace(pseudo_prior=False)), DATA)
    particle = particle_of(density)
    weight, mean = np.asarray(particle.theta.weight, float), np.asarray(particle.theta_int.mean, float)
    expected = (GRAPH * stats.norm.logpdf(weight)).sum(axis=0)
    expected = expected + (TARGETS * stats.norm.logpdf(mean, scale=10)).sum(axis=0)
    for x, k in zip(DATA.x, DATA.context, strict=True):
        for j in range(D):
            if k and TARGETS[k - 1, j]:
                expected[j] += stats.norm.logpdf(x[j], mean[k - 1, j], 0.5**0.5)
            else:
                expected[j] += stats.norm.logpdf(x[j], x @ (GRAPH * weight)[:, j], 0.1**0.5)
    structures = Structures(jnp.asarray(GRAPH, jnp.float32)[:, None], jnp.asarray(TARGETS, jnp.float32)[:, None])
    found = eqx.filter_jit(density.log_psi)(particle.theta, particle.theta_int, structures)
    np.testing.assert_allclose(found[0], expected, rtol=2e-5)


def test_weights_without_an_edge_have_the_pseudo_prior_or_no_density() -> None:
    """Binary graphs by scipy densities; the diagonal has none. A proper density integrates to 1 for every graph."""
    weight = np.random.default_rng(0).normal(size=(D, D, 3))
    edge = stats.norm.logpdf(weight, scale=2.0).sum(axis=2) * GRAPH
    absent = stats.norm.logpdf(weight, scale=0.5 * 2.0).sum(axis=2) * (1 - np.eye(D) - GRAPH)
    prior = partial(weights_log_prior, jnp.asarray(weight), jnp.asarray(GRAPH), 2.0)
    np.testing.assert_allclose(prior(None), edge.sum(axis=0), rtol=2e-5)
    np.testing.assert_allclose(prior(0.5), (edge + absent).sum(axis=0), rtol=2e-5)


@pytest.mark.parametrize("intercept", [None, 1.0], ids=["no intercept", "intercept"])
def test_sufficient_rows_give_the_likelihood_of_all_rows(intercept: float | None) -> None:
    """Contexts of 30, 6 and 2 rows at d = 4: the first two become triangular factors."""
    data = small_data((30, 6, 2), D)
    mechanism = PAPER.mechanism.replace(intercept_prior_std=intercept)
    float32 = jnp.dtype("float32")
    rows = prepare(mechanism, data, float32)
    assert np.any(np.asarray(rows.x) != 0, axis=1).sum() == 2 * (D + (intercept is not None)) + 2 < data.n_rows
    assert rows.count.tolist() == [30, 6, 2]
    theta = mechanism.init(jax.random.key(0), D, float32)
    graphs = jnp.asarray(np.stack([GRAPH, 0.5 * GRAPH], axis=1), float32)
    plain = eqx.filter_jit(log_likelihood.dispatch(object))(mechanism, theta, graphs, raw_rows(data, float32))
    np.testing.assert_allclose(log_likelihood(mechanism, theta, graphs, rows), plain, rtol=1e-4)


def test_gram_rows_keep_the_gram_matrix_of_each_context() -> None:
    data = small_data((12, 9, 1), 3)
    rows = gram_rows(data, jnp.dtype("float32"), intercept=False)
    pieces = np.asarray(rows.x).reshape(rows.one_hot.shape[1], -1, 3)
    for k, member in enumerate(np.asarray(rows.one_hot) > 0):
        block, reduced = data.x[data.context == k], pieces[member].reshape(-1, 3)
        np.testing.assert_allclose(reduced.T @ reduced, block.T @ block, rtol=1e-4, atol=1e-5)


def permuted_data(order: np.ndarray, contexts: np.ndarray) -> ContextData:
    """Variable j becomes the old `order[j]`, context k + 1 the old `contexts[k] + 1`."""
    new_number = np.concatenate([[0], np.argsort(contexts) + 1])
    names = tuple(DATA.variables[i] for i in order)
    return ContextData(
        DATA.x[:, order], new_number[DATA.context], names, tuple(DATA.contexts[k] for k in contexts), "obs"
    )


def permuted_particle(particle: Particle, order: np.ndarray, contexts: np.ndarray) -> Particle:
    """Relabel a particle; the place of the variables in a leaf is told from its name."""

    def theta(tree, lead: int = 0):
        def leaf(path, x):
            name = jax.tree_util.keystr(path)
            if "weight" in name and ("layers" not in name or "[0]" in name):
                x = jnp.take(x, order, axis=lead)
            return jnp.take(x, order, axis=lead + (1 if "weight" in name else 0))

        return jax.tree_util.tree_map_with_path(leaf, tree)

    theta_int = jax.tree.map(lambda x: x[contexts], particle.theta_int)
    soft = not hasattr(theta_int, "mean")
    theta_int = theta(theta_int, 1) if soft else jax.tree.map(lambda x: x[:, order], theta_int)
    gamma = particle.gamma[contexts][:, order]
    return Particle(particle.z[:, order], gamma, theta(particle.theta), theta_int)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize(
    ("order", "contexts"),
    [([2, 0, 3, 1], [0, 1]), ([0, 1, 2, 3], [1, 0]), ([3, 2, 0, 1], [1, 0])],
    ids=["variables", "contexts", "both"],
)
def test_relabelling_permutes_every_log_density(model: Model, order: list[int], contexts: list[int]) -> None:
    """log Ψ goes with its column; sums, priors of graph, targets, Z and Γ and the joint do not change."""
    order_, contexts_ = np.array(order), np.array(contexts)
    old = particle_of(Density.of(model, DATA))
    new = permuted_particle(old, order_, contexts_)
    relaxed = np.random.default_rng(0).uniform(0, 1, (D, D)) * (1 - np.eye(D))
    before, after = [], []
    for particle, data, out, o, c in (
        (old, DATA, before, np.arange(D), np.arange(M)),
        (new, permuted_data(order_, contexts_), after, order_, contexts_),
    ):
        density = Density.of(model, data)
        for graph, targets in ((GRAPH, TARGETS), (relaxed, 0.3 + 0.4 * TARGETS)):
            g = jnp.asarray(graph[np.ix_(o, o)], jnp.float32)
            t = jnp.asarray(targets[np.ix_(c, o)], jnp.float32)
            structures = Structures(g[:, None], t[:, None])
            columns = eqx.filter_jit(density.log_psi)(particle.theta, particle.theta_int, structures)[0]
            back = np.empty(D)
            back[o] = columns
            out += [back, model.graph_prior.log_prob(g), model.target_prior.log_prob_targets(t)]
        out += [model.latent_prior.log_prob(particle.z), model.target_prior.log_prob(particle.gamma, 0.8)]
        hard = (jnp.asarray(a, jnp.float32) for a in (GRAPH[np.ix_(o, o)], TARGETS[np.ix_(c, o)]))
        out.append(eqx.filter_jit(density.log_joint)(particle, *hard))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_log_psi_is_smooth_between_hard_structures(model: Model) -> None:
    """From one structure to another in 20 steps, in double precision.

    The slope at every step is that of finite differences (a jump or a rounded structure would have another), the ends
    are log p(G) p(I) Ψ of the hard structures less the priors, and with parameters log Ψ is linear in the targets,
    Eq. (11), the likelihood.
    """
    particle = particle_of(Density.of(model, DATA))
    with jax.enable_x64(True):
        density = Density.of(model, DATA, dtype=jnp.dtype("float64"))
        particle = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), particle)

        def log_psi(of_graph: jax.Array, of_targets: jax.Array) -> tuple[jax.Array, jax.Array]:
            graphs = of_graph[None, :, None] * jnp.asarray(GRAPH)[:, None]
            targets = of_targets[None, :, None] * jnp.asarray(TARGETS)[:, None]
            columns = density.log_psi(particle.theta, particle.theta_int, Structures(graphs, targets))
            return jnp.sum(columns), jnp.sum(columns, axis=1)

        share, step = jnp.linspace(0.0, 1.0, 21), 1e-5
        graphs = jnp.concatenate([share, share + step, share - step, jnp.full(21, 0.6)])
        targets = jnp.concatenate([share, share + step, share - step, share])
        slopes, values = jax.jit(jax.grad(log_psi, argnums=(0, 1), has_aux=True))(graphs, targets)
        total, after, before, along = np.split(np.asarray(values), 4)
        difference = (after - before) / (2 * step)
        np.testing.assert_allclose(
            (slopes[0] + slopes[1])[:21], difference, rtol=1e-5, atol=1e-5 * np.abs(difference).max()
        )
        joint = eqx.filter_jit(density.log_joint)
        for value, at in ((total[0], 0.0), (total[-1], 1.0)):
            hard = jnp.asarray(at * GRAPH), jnp.asarray(at * TARGETS)
            prior = model.graph_prior.log_prob(hard[0]) + model.target_prior.log_prob_targets(hard[1])
            np.testing.assert_allclose(value, joint(particle, *hard) - prior, rtol=1e-9)
        if density.has_parameters:
            np.testing.assert_allclose(along, along[0] + share * (along[-1] - along[0]), rtol=1e-9)
            assert abs(along[-1] - along[0]) > 0.1


def test_soft_effects_need_parameters() -> None:
    with pytest.raises(ConfigError, match="HardGaussian"):
        Density.of(PAPER_BGE.replace(effect=SoftGaussian()), DATA)


@pytest.mark.parametrize("effect", [ShiftGaussian(), ScaleGaussian(), EffectMixture((HardGaussian(),))])
def test_effects_without_parameters_refuse_svgd(effect: Effect) -> None:
    with pytest.raises(ConfigError, match="use method mcmc or exact"):
        Density.of(PAPER.replace(effect=effect), DATA)


def test_mechanisms_without_parameters_refuse_svgd() -> None:
    with pytest.raises(ConfigError, match=r"GaussianProcess is integrated out.*use method mcmc or exact"):
        Density.of(PAPER.replace(mechanism=GaussianProcess()), DATA)


@pytest.mark.parametrize("prior", [OrderedErdosRenyi(), PreferentialAttachment()])
def test_orders_have_no_relaxed_form(prior: AbstractGraphPrior) -> None:
    assert prior.over_orders
    with pytest.raises(ConfigError, match="SVGD"):
        Density.of(PAPER.replace(graph_prior=prior), DATA)


def test_names_and_axes_of_parameters() -> None:
    """The names under which parameters reach the output, with as many axes as names of axes."""
    model = PAPER.replace(
        mechanism=LinearGaussian(FixedNoise(1.0), 1.0, intercept_prior_std=1.0), effect=SoftGaussian()
    )
    density = Density.of(model, DATA)
    particle = particle_of(density)
    named = model.mechanism.labelled(particle.theta) | density.effect.labelled(particle.theta_int)
    assert set(named) == {"weight", "intercept", "effect_weight", "effect_intercept"}
    assert all(item.values.ndim == len(item.dims) for item in named.values())
