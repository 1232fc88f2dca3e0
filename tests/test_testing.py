"""`check_mechanism`: every built-in mechanism keeps the contract, and each way to break it has its own sentence."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.data.labelled import Labelled
from bacadi.errors import BacadiError
from bacadi.model.integrated import BGe
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.relaxed.mechanisms import log_likelihood
from bacadi.testing import MechanismError, check_mechanism

FIXED = FixedNoise(0.1**0.5)
PAPER = LinearGaussian(FIXED, 1.0, None)
BUILT_IN = {
    "linear": PAPER,
    "linear, default": LinearGaussian(),
    "linear, intercept": PAPER.replace(intercept_prior_std=2.0),
    "linear, noise inferred": PAPER.replace(noise=InferredNoise()),
    "linear, intercept, noise inferred, prior not masked": LinearGaussian(
        InferredNoise(), 1.0, intercept_prior_std=1.0, absent_ratio=1.0
    ),
    "linear, prior not masked": PAPER.replace(absent_ratio=1.0),
    "neural": NeuralGaussian(noise=FIXED),
    "neural, default": NeuralGaussian(),
    "neural, two layers": NeuralGaussian(hidden=(3, 2), noise=FIXED),
    "neural, no hidden layer": NeuralGaussian(hidden=(), noise=FIXED),
    "neural, tanh, noise inferred, prior not masked": NeuralGaussian(
        hidden=(4,), activation="tanh", noise=InferredNoise(), absent_ratio=1.0
    ),
}


@pytest.mark.parametrize("mechanism", BUILT_IN.values(), ids=BUILT_IN.keys())
def test_built_in_mechanisms_keep_the_contract(mechanism: AbstractMechanism) -> None:
    check_mechanism(mechanism)


class Weights(NamedTuple):
    weight: Any


class Good(AbstractMechanism):
    """The shortest mechanism of a user: linear with noise of variance 1."""

    def init(self, key, n_variables, dtype):
        return Weights(jax.random.normal(key, (n_variables, n_variables), dtype))

    def log_prior(self, theta, graph):
        return -0.5 * jnp.sum(graph * theta.weight**2, axis=0)

    def log_prob(self, theta, graph, x):
        return -0.5 * (x - x @ (graph * theta.weight)) ** 2 - 0.5 * jnp.log(2 * jnp.pi)


class NoParameters(Good):
    def init(self, key, n_variables, dtype):
        return ()


class FloatLeaf(Good):
    def init(self, key, n_variables, dtype):
        return Weights(0.5)


class IntegerLeaf(Good):
    def init(self, key, n_variables, dtype):
        return Weights(jnp.ones((n_variables, n_variables), int))


class InfiniteStart(Good):
    def init(self, key, n_variables, dtype):
        return Weights(jnp.full((n_variables, n_variables), jnp.inf, dtype))


class GlobalState(Good):
    def init(self, key, n_variables, dtype):
        return Weights(jnp.asarray(np.random.default_rng().normal(size=(n_variables, n_variables)), dtype))


class SummedPrior(Good):
    def log_prior(self, theta, graph):
        return -0.5 * jnp.sum(graph * theta.weight**2)


class MatrixProb(Good):
    def log_prob(self, theta, graph, x):
        return graph * theta.weight


class TupleProb(Good):
    def log_prob(self, theta, graph, x):
        return tuple(x)


class IntegerPrior(Good):
    def log_prior(self, theta, graph):
        return jnp.zeros(len(graph), jnp.int32)


class PythonIf(Good):
    def log_prob(self, theta, graph, x):
        return super().log_prob(theta, graph, x) if x[0] > 0 else -x


class Stops(Good):
    def log_prob(self, theta, graph, x):
        return x @ jnp.ones((7, 7))


class Unmasked(Good):
    def log_prob(self, theta, graph, x):
        return -0.5 * (x - x @ (graph * theta.weight) - 0.1 * x[0]) ** 2 - 0.5 * jnp.log(2 * jnp.pi)


class Transposed(Good):
    def log_prob(self, theta, graph, x):
        return -0.5 * (x - (graph * theta.weight) @ x) ** 2 - 0.5 * jnp.log(2 * jnp.pi)


class GlobalPrior(Good):
    def log_prior(self, theta, graph):
        return super().log_prior(theta, graph) - jnp.sum(graph)


class Rounded(Good):
    def log_prob(self, theta, graph, x):
        return super().log_prob(theta, jnp.where(graph > 0.5, 1.0, 0.0).astype(x.dtype), x)


class RootOfGraph(Good):
    def log_prior(self, theta, graph):
        return -jnp.sqrt(jnp.sum(graph, axis=0)) - jnp.sum(theta.weight**2, axis=0)


class LogOfParents(Good):
    def log_prob(self, theta, graph, x):
        return super().log_prob(theta, graph, x) + jnp.log(jnp.sum(graph, axis=0))


class Unnormalised(Good):
    def log_prob(self, theta, graph, x):
        return -0.5 * (x - x @ (graph * theta.weight)) ** 2


class WrongFastPath(Good):
    pass


class WrongFastShape(Good):
    pass


@log_likelihood.register
def _(mechanism: WrongFastPath, theta, graphs, rows):
    return 2 * log_likelihood.dispatch(Good)(mechanism, theta, graphs, rows)


@log_likelihood.register
def _(mechanism: WrongFastShape, theta, graphs, rows):
    return log_likelihood.dispatch(Good)(mechanism, theta, graphs, rows).sum(axis=1)


class UnnamedAxes(Good):
    def labelled(self, theta):
        return {"weight": Labelled(theta.weight, ("source",))}


class OtherStructure(Good):
    def theta_of(self, values, n_variables):
        return (values["theta_weight"],)


class HalfInverse(Good):
    def labelled(self, theta):
        return {"weight": Labelled(2 * theta.weight, ("source", "target"))}

    def theta_of(self, values, n_variables):
        return Weights(values["weight"])


class FlatDensity(Good):
    def log_density(self, theta, graph, x):
        return super().log_density(theta, graph, x).sum(axis=1)


class OtherDensity(Good):
    def log_density(self, theta, graph, x):
        return super().log_density(theta, graph, x) - 0.1


class WrongRescaled(LinearGaussian):
    def rescaled(self, theta, graph, scaling):
        return super().rescaled(theta, graph, scaling)._replace(weight=theta.weight)


class WrongSample(LinearGaussian):
    def sample(self, rng, theta, graph, x, node):
        return rng.normal(size=x.shape)


BROKEN = {
    NoParameters: r"init gives no parameters",
    FloatLeaf: r"init gives theta\.weight as float and no array",
    IntegerLeaf: r"init gives theta\.weight the type int32 where float32",
    InfiniteStart: r"init gives theta\.weight a value that is not finite",
    GlobalState: r"called again with the same key",
    SummedPrior: r"log_prior gives the shape \(\) where \(4,\)",
    MatrixProb: r"log_prob gives the shape \(4, 4\) where \(4,\)",
    TupleProb: r"log_prob gives tuple and no array",
    IntegerPrior: r"log_prior gives the type int32",
    PythonIf: r"log_prob cannot be compiled",
    Stops: r"log_prob stops with TypeError",
    Unmasked: r"log_prob of variable 1 depends on x\[0\], which is no parent",
    Transposed: r"log_prob of variable \d depends on column \d of the graph",
    GlobalPrior: r"log_prior of variable 1 depends on column 0",
    Rounded: r"No gradient reaches the graph.*mask parents by multiplication",
    RootOfGraph: r"gradient of log_prior with respect to graph is not finite for the empty graph",
    LogOfParents: r"log_prob of variable 0 is not finite for the empty graph",
    Unnormalised: r"integrates to 2\.507 over x\[0\]",
    WrongFastPath: r"log_likelihood of variable 0 in context 0 is",
    WrongFastShape: r"log_likelihood gives the shape \(3, 4\) where \(3, 2, 4\)",
    UnnamedAxes: r"labelled gives weight 1 names of axes where it has 2",
    OtherStructure: r"theta_of gives parameters of another structure",
    HalfInverse: r"theta_of gives back another theta\.weight",
    FlatDensity: r"log_density gives the shape \(5,\) for 5 rows where \(5, 4\)",
    OtherDensity: r"log_density of variable 0 is .* where log_prob of the row gives",
    WrongRescaled: r"another one in other units of the data; mend rescaled",
    WrongSample: r"sample gives the shape \(5, 4\) for 5 rows where \(5,\)",
}


def test_a_mechanism_of_three_short_methods_passes() -> None:
    check_mechanism(Good())
    check_mechanism(Good(), n_variables=3, seed=5)


@pytest.mark.parametrize(("mechanism", "sentence"), BROKEN.items(), ids=[cls.__name__ for cls in BROKEN])
def test_each_fault_has_its_sentence(mechanism: type[AbstractMechanism], sentence: str) -> None:
    with pytest.raises(MechanismError, match=sentence) as caught:
        check_mechanism(mechanism())
    assert isinstance(caught.value, BacadiError)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize("thing", [BGe(), eqx.Module(), "linear"])
def test_what_is_no_mechanism_is_refused(thing: object) -> None:
    with pytest.raises(MechanismError, match="is no AbstractMechanism"):
        check_mechanism(thing)  # type: ignore[arg-type]


def test_too_few_variables_are_refused() -> None:
    with pytest.raises(MechanismError, match="3 or more"):
        check_mechanism(Good(), n_variables=2)


def test_the_precision_of_the_caller_is_left_alone() -> None:
    check_mechanism(Good())
    assert jnp.zeros(1).dtype == jnp.float32
