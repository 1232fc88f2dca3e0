"""Checkpoints: a resumed run equals an uninterrupted one, and what is not the same run is refused in words."""

from functools import partial
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bacadi.config.codec import fingerprint_text
from bacadi.errors import StoreError
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.fit import fit
from bacadi.inference.method import Monitor, Progress
from bacadi.inference.svgd.estimators import RelaxedEstimator
from bacadi.inference.svgd.method import SVGD, Ramp, RMSprop
from bacadi.model.priors import ScaleFree
from bacadi.posterior.posterior import Posterior

from ..small import PAPER, small_data

DATA = small_data((5, 2, 2))
METHOD = SVGD(n_particles=12, n_steps=20, estimator=RelaxedEstimator(4))


def stop(progress: Progress) -> None:
    raise KeyboardInterrupt


def interrupted(path: Path, method: SVGD = METHOD) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(DATA, method=method, seed=4, monitor=Monitor(stop, path))


def everything_of(posterior: Posterior) -> dict[str, np.ndarray]:
    entries = {name: p.values for name, p in (posterior.parameters | posterior.sample_stats).items()}
    return entries | {"graph": posterior.graph, "targets": posterior.intervention_target, "w": posterior.log_weight}


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    whole = everything_of(fit(DATA, method=METHOD, seed=4))
    interrupted(path)
    assert path.exists()
    heard: list[Progress] = []
    resumed = everything_of(fit(DATA, method=METHOD, seed=4, monitor=Monitor(heard.append, path, 0.0)))
    assert heard[0].step > 8  # the first chunk of 8 steps was not taken again
    assert whole.keys() == resumed.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(resumed[name], values, err_msg=name)


def test_a_run_that_ended_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    first = fit(DATA, method=METHOD, monitor=Monitor(checkpoint=path, checkpoint_seconds=0.0))
    again = fit(DATA, method=METHOD, monitor=Monitor(stop, path))
    np.testing.assert_array_equal(again.log_weight, first.log_weight)
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


OTHERS = {
    "data": {"data": small_data((5, 2, 2), seed=1)},
    "contexts": {"data": small_data((4, 3, 2))},
    "seed": {"seed": 5},
    "model": {"model": PAPER.replace(graph_prior=ScaleFree())},
    "known targets": {"known_targets": np.full((2, 3), 0.0)},
    "schedule": {"method": METHOD.replace(beta=Ramp(3.0))},
    "learning rate": {
        "method": SVGD(n_particles=12, n_steps=20, estimator=RelaxedEstimator(4), optimizer=RMSprop(0.5))
    },
    "optax schedule": {
        "method": SVGD(
            n_particles=6,
            n_steps=20,
            estimator=RelaxedEstimator(4),
            optimizer=optax.sgd(optax.linear_schedule(1, 2, 3)),
        )
    },
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "state.npz"
    interrupted(path)
    return path


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_checkpoint_of_another_run_is_refused(change: dict, checkpoint: Path) -> None:
    arguments = {"data": DATA, "method": METHOD, "seed": 4} | change
    with pytest.raises(StoreError, match="belongs to another run"):
        fit(**arguments, monitor=Monitor(checkpoint=checkpoint))


class Steep(eqx.Module):
    """A schedule of a user's own."""

    slope: float

    def __call__(self, step):
        return self.slope * step


def test_optimisers_that_differ_in_a_number_only_are_told_apart() -> None:
    def text(choice: object) -> str:
        return fingerprint_text([choice])

    assert text(RMSprop(0.005)) != text(RMSprop(0.5))
    assert text(optax.rmsprop(0.005)) != text(optax.rmsprop(0.5))
    assert text(optax.linear_schedule(0, 1, 10)) != text(optax.linear_schedule(0, 2, 10))
    assert text(Steep(1.0)) != text(Steep(2.0))
    assert text(partial(max, 1)) != text(partial(max, 2))
    assert text(RMSprop(0.005)) == text(RMSprop(0.005))
    assert text(optax.rmsprop(0.005)) == text(optax.rmsprop(0.005))


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"not a checkpoint", lambda raw: b""])
def test_damaged_checkpoint_is_refused(damage, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    path.write_bytes(damage(checkpoint.read_bytes()))
    with pytest.raises(StoreError, match=r"is damaged.*delete it"):
        fit(DATA, method=METHOD, seed=4, monitor=Monitor(checkpoint=path))


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    np.savez(path, fingerprint=np.array([{"a": 1}], dtype=object))
    with pytest.raises(StoreError, match="is damaged"):
        Checkpoint(path, "x").load({"a": jnp.zeros(1)})


def test_other_leaves_are_refused_and_nothing_is_nothing(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "state.npz", "print")
    assert store.load({"a": jnp.zeros(1)}) is None
    store.save({"a": jnp.arange(3.0)})
    np.testing.assert_array_equal(store.load({"a": jnp.zeros(3)})["a"], [0, 1, 2])
    with pytest.raises(StoreError, match="does not fit this version"):
        store.load({"b": jnp.zeros(3)})
    store.remove()
    assert list(tmp_path.iterdir()) == []
