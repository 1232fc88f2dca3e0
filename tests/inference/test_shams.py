"""Shams: what they are made of, and what they say."""

from dataclasses import replace

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.data.contrasts import contrasts
from bacadi.errors import ConfigError
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.shams import CONTROL, LABELS, Sham, Shams, brought_back, sham, sham_data, shortened
from bacadi.model.knowledge import Knowledge
from bacadi.simulate import SyntheticSpec, simulate

DATA = simulate(SyntheticSpec(5), 0).data  # 100 observational rows, 5 contexts of 10


def test_permuted_labels_keep_rows_and_counts() -> None:
    shams = list(sham_data(DATA, 3, 0))
    assert [kind for kind, _ in shams] == [LABELS] * 3 + [CONTROL] * 2
    for kind, data in shams[:3]:
        assert data.x.shape == DATA.x.shape and (data.counts == DATA.counts).all(), kind
        assert (data.context != DATA.context).any()
    again = [data.context for _, data in sham_data(DATA, 3, 0)]
    assert all((a == b.context).all() for a, (_, b) in zip(again, shams, strict=True))


def test_what_contexts_move_far_is_brought_back_before_labels_are_permuted() -> None:
    """A hard effect of 20 standard deviations among permuted rows would be a heavy tail."""
    back = brought_back(np.random.default_rng(0), DATA)
    moved = contrasts(DATA).in_sd
    assert (back[DATA.context == 0] == DATA.x[DATA.context == 0]).all()
    k, j = np.argwhere(np.abs(moved) > 2)[0]
    assert abs(contrasts(replace(DATA, x=back)).in_sd[k, j]) < 1e-9
    k, j = np.argwhere(np.abs(moved) < 0.5)[0]
    rows = DATA.context == k + 1
    assert (back[rows, j] == DATA.x[rows, j]).all()


def test_pieces_of_the_control_are_rows_in_a_row() -> None:
    *_, (kind, data) = sham_data(DATA, 1, 0)
    assert kind == CONTROL and data.n_rows == 100 and data.counts.tolist() == [50, 10, 10, 10, 10, 10]
    for k in range(1, 6):
        at = [int(np.flatnonzero((DATA.x == row).all(axis=1))[0]) for row in data.x[data.context == k]]
        assert set(np.diff(at) % 100) == {1}
    small = ContextData(DATA.x[95:], DATA.context[95:], DATA.variables, DATA.contexts, DATA.observational)
    assert [kind for kind, _ in sham_data(small, 2, 0)] == [LABELS, LABELS]  # too few rows for a piece


def test_labels_are_permuted_within_blocks() -> None:
    class WithBlocks(ContextData):
        block = np.arange(DATA.n_rows) % 3

    data = WithBlocks(DATA.x, DATA.context, DATA.variables, DATA.contexts, DATA.observational)
    _, permuted = next(sham_data(data, 1, 0))
    for label in range(3):
        of = data.block == label
        assert sorted(permuted.context[of]) == sorted(data.context[of])


def test_knowledge_of_targets_is_left_out_and_that_of_edges_kept() -> None:
    known = Knowledge.none(5, 5).require(0, 1).known_targets(np.eye(5))
    found = sham(DATA, method=MCMC(n_sweeps=40), n_shams=1, knowledge=known)
    assert found.real.certain == 5 and [of.kind for of in found.shams] == [LABELS, CONTROL]
    assert found.named() <= 2  # five if the knowledge of targets were in use


def test_words_say_what_is_named_and_what_to_do() -> None:
    quiet = Shams((Sham(LABELS, 0, 0, 16), Sham(CONTROL, 0, 0, 16)), Sham("data", 4, 3, 16))
    assert quiet.warnings() == []
    assert quiet.words() == [
        "1 sham with permuted labels: 0 targets named (p > 0.5) of 16 pairs, 0 of them with p > 0.9",
        "1 sham with pieces of the control as contexts: 0 targets named (p > 0.5) of 16 pairs, 0 of them with p > 0.9",
        "the data themselves: 4 targets named of 16 pairs, 3 with p > 0.9",
    ]
    loud = replace(quiet, shams=(Sham(LABELS, 2, 1, 16), Sham(CONTROL, 0, 0, 16)))
    assert "name 2 targets, so that about 1.0 of the 4 named in the data mean nothing" in loud.warnings()[0]
    drift = replace(quiet, shams=(Sham(LABELS, 0, 0, 16), Sham(CONTROL, 3, 3, 16)))
    assert "drift" in drift.warnings()[0]
    assert set(loud.record()) == {"shams", "real", "words", "warnings"}


def test_runs_are_short_and_refusals_plain() -> None:
    quick = shortened(MCMC(time_budget=9.0))
    assert isinstance(quick, MCMC) and quick.n_sweeps == 240 and quick.time_budget is None
    with pytest.raises(ConfigError, match="1 or more"):
        sham(DATA, n_shams=0)
    alone = ContextData(DATA.x[:9], np.zeros(9, int), DATA.variables, (), "obs")
    with pytest.raises(ConfigError, match="no target to name"):
        sham(alone)
