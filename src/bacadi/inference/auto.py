"""What effect, mechanism, drift and prior of graphs become where they are left open: chosen by the data, said in words.

Nine questions, in this order:

1. **Are tails heavy?** Rows that are far off then count less (`tails`) in all that follows, unless noise variances
   differ between contexts all the same.
2. **Do noise variances differ between contexts in everything?** An effect that replaces a mechanism (hard, soft, scale)
   is also seen in the variance of its target. Where the variances of nearly all variables differ from the control's
   more than chance allows, because tails are heavy or contexts differ in everything, such evidence means nothing, and
   only shifts of means are taken for effects. With F_kj the ratio of residual variances of variable j in context k and
   in the control, and z_kj the normal score of its p-value, the inflation is λ = median z² / .455, 1 if the model holds
   however few variables are targets (the median, as in genomic control: Devlin and Roeder 1999).
3. **Which kind of effect explains the data best?** By the log posterior of one structure, that of a short search with
   the first kind, whose targets have each kind in turn. Hard effects may have the noise prior of mechanisms for that:
   a knock-out to a constant is nearly free of noise, and the kind with the smallest scale would win for that alone.
4. **Do mechanisms change where parents have moved?** Where one is not linear, or is seen through noise, its children
   move by another slope than the one within contexts, and more than that may change (`MOVES`); where contexts differ in
   everything, slopes do too (`SLOPES`). Each is switched on where it explains the data better, at one structure and, if
   not by much, again at the best that a search finds with it and without. Networks are compared then, too; they are not
   chosen, since they take ten times as long, but `--model nonlinear` is advised. With g the nats per cell by
   which the choice is better than lines, or networks better than that, whichever is more, the model is g nats per cell
   off the data at least, and `UNSEEN` g is taken for the whole, `UNKNOWN` g where networks explain less: what is wrong
   (noise that does not propagate, hidden causes) is then of a kind that no model here has. At most the inverse of that
   many rows of each context count (`Coarsening.limit`), so that what more rows would make certain is not the
   discrepancy itself.
5. **Have contexts the noise of the control?** A control of many sources (batches, donors, perturbed samples) varies
   more than contexts that were made in one go, and what stands out of its noise is then not what stands out of theirs:
   `ContextDrift.ratios`, compared by evidence in the same way.
6. **Do all effects go one way?** Knock-downs lower their target, overexpression raises it. Where most targets found
   have moved the same way, hard effects whose means are N(±m, (m σ_I)²) for m one of `SIZES` are compared with the
   best so far, each with its own search: a variable that has moved against the others is then less likely the target.
7. **Are mechanisms lines, and are they strong?** Where the mechanism is left open, curves (`AdditiveProcess`) and lines
   of weak causes (`AutoMechanism.weak`) are compared with the best lines at the same structure; where they are better,
   questions 2 to 6 are asked once more with them.
8. **Have the columns an origin?** Networks are without means of their own where that explains the data better
   (`origin`).
9. **Have few causes many of the effects?** A prior of hubs is chosen where it explains the data better (`hubs`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8
from scipy.special import fdtr, fdtrc, ndtri

from bacadi.config.codec import encode
from bacadi.data.contexts import ContextData
from bacadi.data.text import counted
from bacadi.evidence.collapsed import never
from bacadi.evidence.reading import collapse
from bacadi.inference import hubs, origin
from bacadi.inference.collapsed import collapsed_problem
from bacadi.inference.completion import searched
from bacadi.inference.mcmc.start import Structure
from bacadi.inference.method import Problem
from bacadi.inference.tails import MOST_SUMS, tail_weights
from bacadi.model.certainty import MOVES, RATIOS, SLOPES, Coarsening, ContextDrift
from bacadi.model.effects import AutoEffect, Effect, HardGaussian, ShiftGaussian, moments
from bacadi.model.integrated import AdditiveProcess, AutoMechanism
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import InferredNoise, scale_free
from bacadi.model.priors import AutoGraphPrior, PreferentialAttachment

MEDIAN = 0.4549364  # of χ² with one degree of freedom
MEDIAN_ERROR = 2.33  # standard error of the median of n such numbers, over MEDIAN, times √n
LEAST_INFLATION, ERRORS = 1.5, 3.0  # what counts as inflated, and by how many standard errors above 1
MOST_RATIOS = 40_000  # of variances that are looked at; of more, those of some variables
WEIGHINGS = 3  # turns of structure and weights of rows
BETTER = 10.0  # nats by which slopes that drift and mechanisms that bend have to explain the data better
DOUBTFUL = 100.0  # nats below which they have to do so at the best structure of each, too
LIKELIER = 5.0  # nats by which effects that go one way have to: prior odds of 1 to 50, and three sizes tried
NOISE, MOVED, EVERYWHERE = "noise of contexts", "where parents moved", "everywhere"  # what may drift
UNSEEN = 5.0  # times as much of the discrepancy between model and data as networks show
UNKNOWN = 10.0  # the same where mechanisms that change explain more of it than networks do
SIZES = (3.0, 10.0, 30.0)  # of effects that go one way, in standard deviations within contexts
MOST_CURVED = 50  # variables up to which curves are compared with lines, since functions of all draws are kept
MOST_PRODUCTS = 5e7  # sums of products of their features, likewise
CLEARLY = 50.0  # nats by which curves have to be better than lines
WEAKER = 25.0  # nats by which lines of weak causes have to, beyond what they gain without any cause
ONE_WAY = 0.6  # of the targets found have to move the same way for that to be tried


@dataclass(frozen=True)
class Chosen:
    """A model without open choices, and why: the log posterior of the best structure by kind of effect and by what may
    drift, in nats, the inflation of variances (NaN where it cannot be told), by how many nats effects that go one way
    are better (NaN where that was not tried), as how many rows those of a context count (None: as all), by how many
    nats networks would be better than the best (NaN where that was not looked at), by how many lines of weak causes
    and curves are better than the usual lines, columns with an origin than others, and a prior of hubs than one of even
    edges (NaN where they were not compared). Last the hyper-parameters of its evidence, where a question had to fit
    them."""

    model: Model
    weight: Float[np.ndarray, "n d"] | None = None
    effects: dict[str, float] = field(default_factory=dict)
    slopes: dict[str, float] = field(default_factory=dict)
    inflation: float = math.nan
    inflated: bool = False
    one_way: float = math.nan
    limit: float | None = None
    networks: float = math.nan
    weak: float = math.nan
    curves: float = math.nan
    origin: float = math.nan
    hubs: float = math.nan
    hyperparameters: Int[np.ndarray, " h"] | None = None

    @property
    def advises_networks(self) -> bool:
        """Whether networks gain more over mechanisms that change than these over lines; measurement noise bends lines
        too, and less."""
        same = self.slopes.get("same", 0.0)
        return self.networks > max(BETTER, *(self.slopes.get(key, same) - same for key in (MOVED, EVERYWHERE)))

    @property
    def drifts_plainly(self) -> bool:
        """Whether mechanisms stay the same in all contexts but for shifts and noise."""
        drift = self.model.drift or ContextDrift()
        return not drift.follows_parents and not any(drift.slopes)

    def words(self) -> list[str]:
        """What was chosen, in sentences."""
        lines, drift, effect = list[str](), self.model.drift, self.model.effect
        is_curved = isinstance(self.model.mechanism, AdditiveProcess)
        if is_curved and not math.isnan(self.curves):
            lines.append(
                f"mechanisms: a curve for each direct cause, chosen by evidence (lines {-self.curves:.0f} nats)"
            )
        elif not math.isnan(self.weak) and self.model.mechanism == AutoMechanism.weak:
            lines.append(f"causes are weak beside the noise (better by {self.weak:.0f} nats than the usual prior)")
        if self.origin > 0:
            better = f"better by {self.origin:.0f} nats than a mean of its own for each"
            lines.append(f"columns have an origin: a variable without direct causes has mean 0 ({better})")
        if isinstance(self.model.graph_prior, PreferentialAttachment) and not math.isnan(self.hubs):
            lines.append(f"a few causes have many effects (better by {self.hubs:.0f} nats than edges spread evenly)")
        if self.one_way > LIKELIER and isinstance(effect, HardGaussian):
            where = "down" if effect.mean_prior_mean < 0 else "up"
            better = f"better by {self.one_way:.0f} nats than any kind that goes either way"
            lines.append(f"effects: hard, nearly all {where}, chosen by evidence ({better})")
        elif self.effects:
            best = max(self.effects.values())
            others = [f"{name} {value - best:+.0f}" for name, value in self.effects.items()]
            lines.append(f"effects: {encode(self.model.effect)['type']}, chosen by evidence ({', '.join(others)} nats)")
        if self.inflated:
            lines.append(
                f"effects: shift, because noise variances differ between contexts {self.inflation:.1f} times as much "
                "as chance allows, so that a change of variance is no sign of a target"
            )
        if self.slopes and drift is not None and drift.ratios is not None:
            gain = self.slopes[NOISE] - self.slopes["same"]
            lines.append(f"noise of contexts differs from the control's (better by {gain:.0f} nats)")
        if self.slopes and drift is not None and any(drift.slopes):
            gain = self.slopes[EVERYWHERE] - self.slopes["same"]
            lines.append(
                f"slopes drift between all contexts (better by {gain:.0f} nats), more where contexts move parents, and "
                "what has changed there need not be a target"
            )
        elif self.slopes and drift is not None and drift.follows_parents:
            gain = self.slopes[MOVED] - self.slopes["same"]
            nearby = "known only nearby" if is_curved else "linear only nearby"
            lines.append(
                f"mechanisms change where contexts move parents (better by {gain:.0f} nats): they are {nearby}, or are "
                "seen through noise, and what has changed there need not be a target"
            )
        if self.advises_networks:
            lines.append(
                f"networks explain the data better, by {self.networks:.0f} nats; --model nonlinear takes longer and "
                "tells more"
            )
        if self.limit is not None:
            lines.append(f"rows of a context count as at most {self.limit:.0f}, since the model is only nearly right")
        if self.weight is not None:
            n = int((self.weight < 1).any(axis=0).sum())
            lines.append(f"tails: heavy in {counted(n, 'variable')}, where rows that are far off count less")
        return lines

    def attrs(self) -> dict[str, Any]:
        """The same as attributes of a posterior."""
        numbers = {"effects": self.effects, "slopes": self.slopes}
        inflation = None if math.isnan(self.inflation) else round(self.inflation, 4)
        if not math.isnan(self.one_way):
            numbers["ways"] = {"either": 0.0, "one": self.one_way}
        mechanisms = {"weak": self.weak, "curves": self.curves}
        if known := {name: nats for name, nats in mechanisms.items() if not math.isnan(nats)}:
            numbers["mechanisms"] = {"lines": 0.0} | known
        if not math.isnan(self.origin):
            numbers["means"] = {"own": 0.0, "origin": self.origin}
        if not math.isnan(self.hubs):
            numbers["edges"] = {"even": 0.0, "hubs": self.hubs}
        if not math.isnan(self.networks):
            numbers["networks"] = {"chosen": 0.0, "networks": float(self.networks)}
        return {"chosen": {"words": self.words(), "nats": numbers, "inflation": inflation}}


def chosen_model(problem: Problem, over: Callable[[], bool] = never) -> Chosen:
    """The model of a problem with its open choices made; nothing is searched where nothing is open."""
    found, structure = _of_contexts(problem, over)
    mechanism, prior = found.model.mechanism, found.model.graph_prior
    if isinstance(mechanism, NeuralGaussian) and mechanism.intercept is None:
        asked = origin.asked(problem, found.model, over)
        has_means = asked is None or not asked.gain > 0
        found = replace(found, model=found.model.replace(mechanism=mechanism.replace(intercept=has_means)))
        if asked is not None:
            found, structure = replace(found, origin=asked.gain, hyperparameters=asked.hyperparameters), asked.structure
    if isinstance(prior, AutoGraphPrior):
        of = replace(problem, model=found.model, hyperparameters=found.hyperparameters)
        even = collapsed_problem(of, over=over)
        found = replace(found, hyperparameters=None if over() else even.evidence.hyperparameters)
        gain = hubs.gain(of, even, structure, over)
        model = found.model.replace(graph_prior=prior.hubs if gain > hubs.CLEARLY else prior.even)
        found = replace(found, model=model, hubs=gain)
    return found


def _of_contexts(problem: Problem, over: Callable[[], bool]) -> tuple[Chosen, Structure | None]:
    """Questions 1 to 7, and the structure that they were asked at where there is one.

    Where there are no tables to search by (Gaussian processes, evidence of the user's own), no contexts or known
    effects, an open effect is the first of its candidates, and so is an open mechanism.
    """
    model, data = problem.model, problem.standardized
    effect, mechanism = model.effect, model.mechanism
    first = model.replace(mechanism=mechanism.lines) if isinstance(mechanism, AutoMechanism) else model
    if isinstance(effect, AutoEffect):
        first = first.replace(effect=effect.candidates[0])
    weighs = model.coarsening is None or model.coarsening.tails
    if first == model and model.drift is not None and not weighs:
        return Chosen(model), None
    collapsed = collapse(first, data, problem.scaled_knowledge)
    if not data.n_contexts or collapsed.evidence.tables is None:
        return Chosen(first), None
    structure = searched(np.random.default_rng(0), collapsed, data, over=over)
    weighs &= data.n_variables**3 * (data.n_contexts + 1) < MOST_SUMS
    weighed, better = (_weighed(problem, first, structure, over) if weighs else None) or (problem, structure)
    # Where variances still differ in everything it is not tails that make them so, and weights would be no cure.
    if (
        weighed is not problem
        and not variance_inflation(weighed.standardized, better.graph, better.states).is_beyond_chance
    ):
        problem, structure = weighed, better
    told = problem.knowledge.effects is not None
    kinds = effect.candidates if isinstance(effect, AutoEffect) and not told else (first.effect,)
    found = _chosen(problem, first, kinds, structure, over)
    if isinstance(mechanism, AutoMechanism):
        found = _reconsidered(problem, found, mechanism, kinds, structure, over)
    return found, structure


def _reconsidered(
    problem: Problem,
    found: Chosen,
    open_to: AutoMechanism,
    kinds: Sequence[Effect],
    structure: Structure,
    over: Callable[[], bool],
) -> Chosen:
    """Question 7: what was found with lines, or what is found with curves or with lines of weak causes."""
    model, data = problem.model, problem.standardized
    lines = found.model.replace(coarsening=model.coarsening)
    # What bends or drifts with lines may be what another prior or shape explains.
    drift = lines.drift if model.drift is not None or found.drifts_plainly else ContextDrift()
    now, plain = _log_posterior(problem, lines, structure), lines.replace(drift=drift)
    # Intercepts, which every variable has, gain as well by a narrow prior, and say nothing of causes.
    weak, alone = plain.replace(mechanism=open_to.weak), structure._replace(graph=np.zeros_like(structure.graph))
    weaker = _log_posterior(problem, weak, structure) - now
    weaker -= _log_posterior(problem, weak, alone) - _log_posterior(problem, plain, alone)
    curves = math.nan
    if _has_room(data) and not any(drift.slopes if drift else ()) and not over():
        # Curves and lines have other priors of intercepts and noise: curves have to be better than lines with theirs.
        like = _pinned(problem, plain.replace(mechanism=open_to.curves.straight()), structure)
        curved = _pinned(problem, plain.replace(mechanism=open_to.curves), structure)
        others = max(now, _log_posterior(problem, like, structure))
        curves = _log_posterior(problem, curved, structure) - others
        if curves > CLEARLY:
            better = _searched(problem, curved, structure, over)
            curved = _pinned(problem, _refined(curved, open_to.curves), better)
            first = problem.model.replace(mechanism=curved.mechanism, effect=kinds[0])
            with_curves = _chosen(problem, first, kinds, better, over)
            # Where curves change all the same and networks explain no more, it is not shape that lines lack: noise in
            # the parents bends what is seen of a line.
            if with_curves.drifts_plainly or with_curves.networks > 0:
                return replace(with_curves, weak=weaker, curves=curves)
    if weaker > WEAKER and not over():
        first = problem.model.replace(mechanism=open_to.weak, effect=kinds[0])
        found = _chosen(problem, first, kinds, _searched(problem, weak, structure, over), over)
    return replace(found, weak=weaker, curves=curves)


def _has_room(data: ContextData) -> bool:
    """Whether curves may be compared: their sums, and the functions of all draws, have to fit into memory."""
    from bacadi.evidence.gp.nystrom import SINGLE_RANK

    groups = 1 if data.weight is None else data.n_variables
    sums = groups * (data.n_contexts + 1) * ((SINGLE_RANK + 1) * data.n_variables + 1) ** 2
    return data.n_variables <= MOST_CURVED and sums <= MOST_PRODUCTS


def _pinned(problem: Problem, model: Model, structure: Structure) -> Model:
    """The model with the likeliest of the kernels and noise ratios of its curves alone, given a structure."""
    # Loaded where it is asked for: lines do not have to wait for the modules of the Gaussian processes.
    from bacadi.evidence.gp.evidence import AdditiveEvidence

    evidence = collapse(model, problem.standardized, problem.scaled_knowledge).evidence
    fitted = evidence.fit_hyperparameters(structure.graph, np.minimum(structure.states, 1))
    assert isinstance(fitted, AdditiveEvidence)
    kernel, ratio = fitted.groups[0]
    return model.replace(mechanism=model.mechanism.replace(kernels=(kernel,), ratios=(ratio,)))


def _refined(model: Model, every: AdditiveProcess) -> Model:
    """The model with all kernels to choose from once more, and noise ratios around the one it has."""
    assert isinstance(model.mechanism, AdditiveProcess)
    (ratio,) = model.mechanism.ratios
    return model.replace(mechanism=every.replace(ratios=(ratio / 3, ratio, ratio * 3)))


def _chosen(
    problem: Problem, first: Model, candidates: Sequence[Effect], structure: Structure, over: Callable[[], bool]
) -> Chosen:
    """Questions 2 to 6 for one mechanism, given what a search with the first kind of effect has found."""
    data, told_drift = problem.standardized, first.drift is not None
    kinds = {_name(kind): first.replace(effect=kind) for kind in candidates}
    by_kind = {
        name: max(_log_posterior(problem, one, structure) for one in _noises(kind)) for name, kind in kinds.items()
    }
    best = kinds[max(by_kind, key=lambda name: by_kind[name])]
    inflation = variance_inflation(data, structure.graph, structure.states)
    inflated = inflation.is_beyond_chance and len(kinds) > 1
    if inflated:
        best, by_kind = first.replace(effect=ShiftGaussian()), {}
    if told_drift:
        return Chosen(best, data.weight, by_kind, {}, inflation.size, inflated)
    curved = isinstance(first.mechanism, AdditiveProcess)
    drifts = {"same": ContextDrift(), NOISE: RATIOS, MOVED: MOVES}
    drifts |= {EVERYWHERE: SLOPES} if not curved and _has_intercept(first.mechanism, data) else {}
    if problem.scaled_knowledge.target_count_log is not None:
        drifts = {key: drift.replace(bend=0.0) for key, drift in drifts.items()}
    # A target that is taken for hard says nothing of slopes: only what is untouched does.
    seen = first if inflated else best
    slopes = {key: _log_posterior(problem, seen.replace(drift=drift), structure) for key, drift in drifts.items()}
    networks = math.nan
    if curved:
        networks = _log_posterior(problem, _networks(seen), structure)
    # A noise that is the same in all contexts is among the ratios, so that nothing but time is lost by them. Curves
    # that networks are better than have parts which depend on other parents: they hold only near where these are.
    plain, near = ("same", NOISE), curved and networks - slopes["same"] > BETTER
    which = max(slopes, key=lambda key: slopes[key] - (0.0 if key in plain or near else BETTER))
    if which not in plain and not curved and slopes[which] - slopes["same"] < DOUBTFUL:
        # It may have done nothing but repair this one structure.
        at_best = [_best(problem, seen.replace(drift=drifts[key]), structure, over) for key in (which, "same")]
        if at_best[0] - at_best[1] < BETTER:
            which = max(plain, key=lambda key: slopes[key])
    compared, best = by_kind if len(by_kind) > 1 else {}, best.replace(drift=drifts[which])
    limit, one_way = None, math.nan
    if which not in plain and isinstance(first.mechanism, LinearGaussian):
        networks = _log_posterior(problem, _networks(seen), structure)
    networks -= slopes[which]
    if which not in plain and first.coarsening is None:
        gain = slopes[which] - slopes["same"]
        limit = data.x.size / (UNSEEN * networks if networks > gain else UNKNOWN * gain)
        best = best.replace(coarsening=Coarsening(limit=limit))
    if compared and _name(first.effect) == "hard" and which in plain:
        best, one_way = _one_way(problem, best, structure, over)
    return Chosen(best, data.weight, compared, slopes, inflation.size, inflated, one_way, limit, networks)


def _has_intercept(mechanism: Mechanism, data: ContextData) -> bool:
    """Whether slopes may drift, which needs an intercept."""
    return data.block is not None or getattr(mechanism, "intercept_prior_std", 1.0) is not None


def _networks(model: Model) -> Model:
    """The same with networks, which take a plain drift alone."""
    return model.replace(mechanism=NeuralGaussian(), drift=ContextDrift())


def _one_way(problem: Problem, model: Model, structure: Structure, over: Callable[[], bool]) -> tuple[Model, float]:
    """The model with hard effects that go one way if that is likelier, and by how many nats (NaN: not tried)."""
    knowledge = problem.scaled_knowledge
    if knowledge.effects is not None or np.isinf(knowledge.target_log_odds).all():
        return model, math.nan
    moved = moments(problem.standardized).mean[structure.states > 0]
    up = float(np.mean(moved > 0)) if len(moved) else 0.5
    if max(up, 1 - up) < ONE_WAY:
        return model, math.nan
    noise = HardGaussian().noise.replace(widths=(1.0,))
    sign = 1.0 if up > 0.5 else -1.0
    aimed = [model.replace(effect=HardGaussian(noise, sign * size, size)) for size in SIZES]
    best = max(aimed, key=lambda one: _log_posterior(problem, one, structure))
    gain = _best(problem, best, structure, over) - _best(problem, model, structure, over)
    return (best if gain > LIKELIER else model), gain


def _searched(problem: Problem, model: Model, structure: Structure, over: Callable[[], bool]) -> Structure:
    """The best structure that a search from the given one finds."""
    collapsed = collapse(model, problem.standardized, problem.scaled_knowledge)
    return searched(np.random.default_rng(0), collapsed, problem.standardized, structure, over)


def _best(problem: Problem, model: Model, structure: Structure, over: Callable[[], bool]) -> float:
    """The log posterior of the best structure that a search from the given one finds."""
    collapsed = collapse(model, problem.standardized, problem.scaled_knowledge)
    return collapsed.log_posterior_along_order(*_searched(problem, model, structure, over))


def _weighed(
    problem: Problem, model: Model, structure: Structure, over: Callable[[], bool]
) -> tuple[Problem, Structure] | None:
    """The problem with rows that count by how far off they are, and the best structure then; None where tails are
    those of Gaussian noise."""
    rng = np.random.default_rng(0)
    for turn in range(WEIGHINGS):
        data = problem.standardized
        collapsed = collapse(model, data, problem.scaled_knowledge)
        if turn:
            structure = searched(rng, collapsed, data, structure, over)
        weight = tail_weights(data, structure, collapsed.evidence.states.kind)
        if (weight == 1).all():
            return None
        problem = replace(problem, data=replace(problem.data, weight=weight))
    return problem, structure


def _noises(model: Model) -> list[Model]:
    """The model, and where its effects are hard also with the noise prior that mechanisms have by default."""
    effect = model.effect
    if not isinstance(effect, HardGaussian) or not isinstance(effect.noise, InferredNoise):
        return [model]
    return [model, model.replace(effect=effect.replace(noise=scale_free()))]


def _name(effect: Effect) -> str:
    return str(encode(effect)["type"])


def _log_posterior(problem: Problem, model: Model, structure: Structure) -> float:
    """The log posterior of a structure under another model, each target in the likeliest of its states in turn: another
    model may do without it."""
    collapsed, states = collapse(model, problem.standardized, problem.scaled_knowledge), np.minimum(structure.states, 1)
    fitted = collapsed.evidence.fit_hyperparameters(structure.graph, states)
    collapsed, evidence, log_prior = replace(collapsed, evidence=fitted), fitted, collapsed.prior.state_log_prior
    for node in np.flatnonzero(states.any(axis=0)):
        parents, state = structure.graph[:, node].astype(bool), states[:, node].copy()
        for k in np.flatnonzero(state):
            tried = np.repeat(state[None], evidence.states.n_states, axis=0)
            tried[:, k] = np.arange(evidence.states.n_states)
            nodes = np.full(len(tried), node)
            scores = evidence.log_evidences(nodes, np.repeat(parents[None], len(tried), axis=0), tried)
            state[k] = int(np.argmax(scores + log_prior[k, node]))
        states[:, node] = state
    return collapsed.log_posterior_along_order(structure.graph, states)


class Inflation(NamedTuple):
    """λ, by how much noise variances differ between the contexts and the control, and its standard error; both NaN
    where too few rows tell."""

    size: float
    error: float

    @property
    def is_beyond_chance(self) -> bool:
        return self.size > max(LEAST_INFLATION, 1 + ERRORS * self.error)


def variance_inflation(
    data: ContextData, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"] | None = None
) -> Inflation:
    """λ of a structure, see above.

    Every variable is regressed on its parents in the graph, in the control and in each context by itself in which its
    state is 0: where variables are few, targets are not. NaN where fewer than ten ratios have enough rows.

    >>> from bacadi.simulate import SyntheticSpec, simulate
    >>> task = simulate(SyntheticSpec(n_variables=20), seed=1)
    >>> variance_inflation(task.data, task.graph).is_beyond_chance
    False
    """
    weights = np.ones(data.x.shape) if data.weight is None else data.weight
    rows = [np.flatnonzero(data.context == k) for k in range(data.n_contexts + 1)]
    scores, shared = [], []
    n_nodes = min(data.n_variables, max(int(MOST_RATIOS / max(data.n_contexts, 1)), 1))
    for node in np.linspace(0, data.n_variables - 1, n_nodes).round().astype(int).tolist():
        parents = np.flatnonzero(graph[:, node])
        table = data.x[:, [*parents, node]]
        squares, dof = _residual(table[rows[0]], weights[rows[0], node])
        if dof < 3 or squares <= 0:
            continue
        for k, at in enumerate(rows[1:]):
            if states is not None and states[k, node]:
                continue
            own, own_dof = _residual(table[at], weights[at, node])
            if own_dof >= 2 and own > 0:
                ratio = (own / own_dof) / (squares / dof)
                p = min(2 * min(fdtr(own_dof, dof, ratio), fdtrc(own_dof, dof, ratio)), 1.0)
                scores.append(ndtri(max(p, 1e-300) / 2) ** 2)
                shared.append((1 / dof) / (1 / dof + 1 / own_dof))
    n = len(scores)
    if n < 10:
        return Inflation(math.nan, math.nan)
    # Ratios of one variable share its control: so many of them say as much as independent ones.
    each = n / n_nodes
    effective = n / (1 + (each - 1) * float(np.mean(shared)))
    return Inflation(float(np.median(scores)) / MEDIAN, MEDIAN_ERROR / math.sqrt(effective))


def _residual(table: Float[np.ndarray, "n columns"], weight: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Residual sum of squares of a regression of the last column on the others and an intercept, and its degrees of
    freedom; rows count by their weights."""
    dof = float(weight.sum()) - table.shape[1]
    if dof < 1:
        return 0.0, dof
    centred = np.sqrt(weight)[:, None] * (table - weight @ table / weight.sum())
    y, z = centred[:, -1], centred[:, :-1]
    if not z.shape[1]:
        return float(np.square(y).sum()), dof
    slopes, _, rank, _ = np.linalg.lstsq(z, y, rcond=1e-6)
    # A parent that a knock-out holds at a constant explains nothing and costs nothing.
    return float(np.square(y - z @ slopes).sum()), dof + z.shape[1] - int(rank)
