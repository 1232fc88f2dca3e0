"""The collapsed reading of a model: mechanism, effect, priors and knowledge as a posterior of graph and states."""

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, NoClosedForm
from bacadi.evidence.collapsed import (
    AbstractEvidence,
    CollapsedPosterior,
    EffectKind,
    EffectStates,
    StructurePrior,
    structure_prior,
)
from bacadi.evidence.effects import effect_states
from bacadi.evidence.gram import bge_evidence, linear_evidence
from bacadi.model.certainty import FUNCTIONS, NO_COARSENING, NO_DRIFT, Coarsening, ContextDrift
from bacadi.model.effects import moments
from bacadi.model.integrated import AdditiveProcess, AutoMechanism, BGe, GaussianProcess
from bacadi.model.knowledge import Knowledge, KnownEffects
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import LOG_2PI

LogEvidence = Callable[[int, Int[np.ndarray, " p"], Float[np.ndarray, "n d"]], float]


class RowsEvidence(AbstractEvidence):
    """Evidence of a node as `log_evidence(node, parents, rows)` of the rows where it is untouched.

    Hard effects add their own evidence, soft ones a second evidence over the rows of their context; shift and scale
    effects change the mechanism in a way that a function of rows cannot know.
    """

    def __init__(self, log_evidence: LogEvidence, data: ContextData, states: EffectStates) -> None:
        if {EffectKind.SHIFT, EffectKind.SCALE} & set(states.kind.tolist()):
            raise NoClosedForm(
                "Shift and scale effects need a mechanism that knows them (linear, nonlinear or bge); "
                "use hard or soft effects with a mechanism of your own."
            )
        states.refuse_certainty(data)
        self.n_variables, self.n_contexts, self.states = data.n_variables, data.n_contexts, states
        self._log_evidence, self._data = log_evidence, data

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        kind = self.states.kind[np.concatenate([[0], np.asarray(state)])]
        chosen, x, context = np.flatnonzero(parents), self._data.x, self._data.context
        total = self._log_evidence(node, chosen, x[(kind == EffectKind.NONE)[context]])
        for k in np.flatnonzero(kind):
            hard = kind[k] == EffectKind.HARD
            own = (
                self.states.hard_log_evidence[k - 1, node]
                if hard
                else self._log_evidence(node, chosen, x[context == k])
            )
            total += own
        return float(total)


PROBE = ContextData(np.zeros((2, 1)), np.array([0, 1]), ("x",), ("k",), "obs")
"""Two rows of one variable, to ask a model whether it has a reading at all."""


@singledispatch
def evidence_of(mechanism: Mechanism, data: ContextData, states: EffectStates) -> AbstractEvidence:
    """The local terms of a mechanism with its parameters integrated out.

    A mechanism of the user's own needs a method `log_evidence(node, parents, x)`: log ∫ Π_n p(x_nj | parents, θ_j)
    p(θ_j) dθ_j over the rows given. Faster evidence is registered here.
    """
    if not hasattr(mechanism, "log_evidence"):
        raise NoClosedForm(
            f"{type(mechanism).__name__} has no closed-form evidence (a method log_evidence); use method svgd with it."
        )
    return RowsEvidence(mechanism.log_evidence, data, states)


evidence_of.register(LinearGaussian, linear_evidence)
evidence_of.register(BGe, bge_evidence)


@evidence_of.register
def _(mechanism: NeuralGaussian, data: ContextData, states: EffectStates) -> AbstractEvidence:
    # Loaded where it is asked for: a linear fit does not have to wait for the modules of the Gaussian processes too.
    from bacadi.evidence.gp.mechanisms import network_evidence

    return network_evidence(mechanism, data, states)


@evidence_of.register
def _(mechanism: GaussianProcess, data: ContextData, states: EffectStates) -> AbstractEvidence:
    from bacadi.evidence.gp.mechanisms import gaussian_process_evidence

    return gaussian_process_evidence(mechanism, data, states)


@evidence_of.register
def _(mechanism: AdditiveProcess, data: ContextData, states: EffectStates) -> AbstractEvidence:
    from bacadi.evidence.gp.mechanisms import additive_process_evidence

    return additive_process_evidence(mechanism, data, states)


@evidence_of.register
def _(mechanism: AutoMechanism, data: ContextData, states: EffectStates) -> AbstractEvidence:
    return evidence_of(mechanism.lines, data, states)  # until the data have chosen


def collapse(
    model: Model, data: ContextData, knowledge: Knowledge | None = None, max_parents: int | None = None
) -> CollapsedPosterior:
    """The collapsed reading of a model on data, or `NoClosedForm` where a part of it has none.

    The knowledge is in the units of these data.
    """
    of_sums = isinstance(model.mechanism, LinearGaussian | BGe | AdditiveProcess | AutoMechanism)
    plain = FUNCTIONS if isinstance(model.mechanism, NeuralGaussian) else NO_DRIFT
    drift = model.drift or (ContextDrift() if of_sums else plain)
    coarsening = model.coarsening or (Coarsening() if of_sums else NO_COARSENING)
    states = effect_states(model.effect, data, drift, coarsening.power(data))
    prior = structure_prior(model, states, knowledge, max_parents)
    if drift.bend:
        if knowledge is not None and knowledge.target_count_log is not None:
            raise ConfigError(
                "A prior on the number of targets counts mechanisms that bend as targets; leave it out, or bend of "
                "[model.drift] at 0."
            )
        told = np.zeros_like(states.hard_log_evidence) if knowledge is None else knowledge.target_log_odds
        states = replace(states, target_odds=np.exp(told + model.target_prior.log_odds(data.n_variables)))
    if knowledge is not None and knowledge.effects is not None:
        states, prior = with_known_effects(knowledge.effects, data, states, prior)
    return CollapsedPosterior(evidence_of(model.mechanism, data, states), prior)


def with_known_effects(
    effects: KnownEffects, data: ContextData, states: EffectStates, prior: StructurePrior
) -> tuple[EffectStates, StructurePrior]:
    """States and prior where some effects are known: hard ones, with Σ log N(x | mean, std²) in place of the evidence
    of an effect whose parameters are integrated out."""
    if EffectKind.HARD not in states.kind:
        raise ConfigError(
            'The knowledge gives hard effects and the model has none; give the model effect = "hard" or drop them.'
        )
    known, sums = effects.known, moments(data, states.power)
    squares = sums.squares + sums.n_rows * (sums.mean - effects.mean) ** 2
    log_p = -0.5 * sums.n_rows * (LOG_2PI + 2 * np.log(effects.std)) - 0.5 * squares / effects.std**2
    impossible = known[:, :, None] & (states.kind != EffectKind.HARD)
    log_prior = np.where(impossible, -np.inf, prior.state_log_prior)
    evidence = np.where(known, log_p, states.hard_log_evidence)
    return replace(states, hard_log_evidence=evidence), replace(prior, state_log_prior=log_prior)


def is_collapsible(model: Model) -> bool:
    """Whether a model has a collapsed reading; asked of the model itself, on two rows of one variable.

    >>> is_collapsible(Model()), is_collapsible(Model(mechanism=NeuralGaussian(hidden=(8, 8))))
    (True, False)
    """
    try:
        collapse(model, PROBE)
    except NoClosedForm:
        return False
    return True
