"""Sentences follow the numbers."""

from dataclasses import replace

import numpy as np

from bacadi.data.contexts import ContextData
from bacadi.posterior import Posterior
from bacadi.posterior.moved import contexts_of
from bacadi.report import words
from bacadi.report.found import target_kinds

from .made import made, run_of


def every(run: words.Run) -> str:
    parts = (words.what_was_done, words.what_was_found, words.how_sure, words.doubts_of_sampler, words.doubts_of_model)
    return "\n".join(line for part in parts for line in part(run))


def with_attrs(**attrs: object) -> words.Run:
    posterior = made()
    return run_of(replace(posterior, attrs=posterior.attrs | attrs))


def test_what_was_done() -> None:
    text = "\n".join(words.what_was_done(run_of(made())))
    for part in (
        "cells.csv has 200 rows of 6 variables: 40 of the control 'control' and 40 in each of 4 contexts",
        "seed 1",
    ):
        assert part in text
    assert "80 draws in 2 independent replicas" in text and "It took 12 seconds" in text
    assert "Of 1 of 24 pairs" in text


def test_counts_agree_with_the_marginals() -> None:
    posterior = made(12)
    p = posterior.edge_probabilities()
    first = words.what_was_found(run_of(posterior))[0]
    assert first.startswith(f"{(p > 0.5).sum()} edges have a probability above 0.5")


def test_contexts_hit_and_moved() -> None:
    run = run_of(made())
    found = contexts_of(run.posterior)
    assert found.hit.tolist() == np.eye(4, 6, dtype=bool).tolist()
    lines = words.of_context(run, 0, target_kinds(run.posterior.targets()))
    assert lines["Hit"][0].startswith("gene 0 (probability >0.99): up") and "Moved downstream" in lines
    assert all(line.split(":")[1].startswith(" down") for line in lines["Moved downstream"])
    assert "Each of the 4 contexts hit exactly one variable." in every(run)


def test_of_changes_without_any_few_are_called_moved() -> None:
    """No context moves anything: P(any of 20 x 30 pairs is called moved) is at most the false discovery rate, .05."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(40):
        context = np.repeat(np.arange(21), [60, *[10] * 20])
        data = ContextData(
            rng.normal(size=(260, 30)), context, tuple(map(str, range(30))), tuple(map(str, range(20))), "c"
        )
        nothing = np.zeros((1, 30, 30)), np.zeros((1, 20, 30))
        alarms += bool(contexts_of(Posterior.from_draws(data, *nothing)).moved.any())
    assert alarms <= 7  # Binomial(40, .05): more with probability 7e-4


def test_doubts_are_said() -> None:
    unsure = every(
        with_attrs(converged=False, warnings=["Not converged: run longer."], misfit=["The model does not fit: x."])
    )
    for part in ("provisional", "NOT CONVERGED", "run longer", "does not fit: x"):
        assert part in unsure
    record = {
        "shams": [],
        "real": {},
        "words": ["5 shams with permuted labels: 3 targets named"],
        "warnings": ["Shams name 3."],
    }
    assert "3 targets named." in every(with_attrs(shams=record)) and "Shams name 3." in every(with_attrs(shams=record))
    assert "No shams were fitted" in every(run_of(made()))


def test_numbers_are_readable() -> None:
    assert words.number(0.0) == "0" and words.number(12345.6) == "12,300" and words.number(-0.00001234) == "−1.23e−05"
    assert words.some([]) == "" and words.some(["a"]) == "a"
