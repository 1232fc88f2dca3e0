"""The methods on the collapsed posterior, `MCMC` and `Exact`, from data to a `Posterior` with parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int8

from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import Collapsed
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.exact import Exact, enumerate_posterior
from bacadi.inference.mcmc.diagnostics import diagnose
from bacadi.inference.mcmc.ladder import Report, sample
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.mcmc.start import settle
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.posterior import weights
from bacadi.posterior.posterior import EXACT_EDGES, EXACT_TARGETS, Posterior


@dataclass(frozen=True)
class Collapse:
    """A model collapsed on data, with what it takes to draw parameters in the units of the data."""

    model: Model
    data: ContextData  # in the units of the priors
    scaling: Scaling  # from these units to those of the data as given
    collapsed: Collapsed
    knowledge: Knowledge

    @classmethod
    def of(cls, model: Model, data: ContextData, knowledge: Knowledge, max_parents: int | None) -> "Collapse":
        own = data.standardized_within() if model.own_units else data
        scale = own.scaling.scale / data.scaling.scale
        scaling = Scaling((own.scaling.shift - data.scaling.shift) / data.scaling.scale, scale)
        collapsed = settle(model.collapse(own, knowledge, max_parents), own)
        return cls(model, own, scaling, collapsed, knowledge)

    def parameters(
        self, rng: np.random.Generator, graphs: Int8[np.ndarray, "R n d d"], states: Int8[np.ndarray, "R n M d"]
    ) -> dict[str, Labelled]:
        """Parameters of mechanisms and effects from their posterior given each draw, in the units of the data, and the
        constants they refer to; functions (`output_weight` and the like) stay in the units of the priors."""
        shape, n = graphs.shape[:2], graphs.shape[0] * graphs.shape[1]
        # The number of draws is spelt out: without contexts the states are empty and say nothing of it.
        flat = graphs.reshape(n, *graphs.shape[2:]), np.ascontiguousarray(states.reshape(n, *states.shape[2:]))
        drawn = self.collapsed.evidence.draw_parameters(rng, *flat)
        drawn |= self.model.effect.draw_parameters(rng, self.data, len(flat[0]))
        if len(self.collapsed.evidence.states.names) > 2:
            drawn["effect_state"] = Labelled(flat[1], ("context", "node"))
        converted = in_data_units(drawn, self.scaling)
        return {
            name: Labelled(
                item.values if item.constant else item.values.reshape(*shape, *item.values.shape[1:]), item.dims
            )
            for name, item in converted.items()
        }

    def fields(
        self, rng: np.random.Generator, graphs: Int8[np.ndarray, "R n d d"], states: Int8[np.ndarray, "R n M d"]
    ) -> dict[str, dict[str, Labelled]]:
        """`parameters` and `constant_data` of the posterior of these draws."""
        found = self.parameters(rng, graphs, states)
        drawn = {name: item for name, item in found.items() if item.per_draw}
        shared = {name: item for name, item in found.items() if not item.per_draw}
        return {"parameters": drawn, "constant_data": self.constants() | shared}

    def constants(self) -> dict[str, Labelled]:
        """Known targets, and the units of the priors: x = unit_shift + unit_scale · (x in the units of the priors)."""
        known = np.where(np.isinf(self.knowledge.target_log_odds), self.knowledge.target_log_odds > 0, np.nan)
        unit = {"unit_shift": Labelled(self.scaling.shift, ("node",))}
        unit |= {"unit_scale": Labelled(self.scaling.scale, ("node",))}
        return {"known_target": Labelled(known, ("context", "node"))} | unit


def fit_mcmc(
    collapse: Collapse, data: ContextData, method: MCMC, seed: int, report: Report | None, checkpoint: Checkpoint | None
) -> Posterior:
    """The posterior of parallel tempering, with diagnostics in `sample_stats` and in words in the attributes."""
    draws = sample(collapse.collapsed, collapse.data, method, seed, report, checkpoint)
    found = diagnose(draws.graphs, (draws.states > 0).astype(np.int8), draws.log_posterior, draws.swap_rates)
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(method.n_replicas + 1)[-1])
    return Posterior.from_draws(
        data,
        draws.graphs,
        draws.states > 0,
        draws.log_posterior,
        weights.uniform,
        sample_stats=found.to_stats() | {"acceptance": Labelled(draws.acceptance, ("chain", "move"))},
        attrs={"converged": found.converged, "warnings": found.words(data.variables, data.contexts)},
        **collapse.fields(rng, draws.graphs, draws.states),
    )


def fit_exact(collapse: Collapse, data: ContextData, method: Exact, seed: int) -> Posterior:
    """The posterior by enumeration."""
    exact = enumerate_posterior(collapse.collapsed)
    rng = np.random.default_rng(seed)
    draws = exact.weighted(method.max_pairs) or exact.draws(rng, method.n_draws)
    graphs, states = draws.graphs[None], draws.states[None]
    extra: dict[str, Any] = {
        EXACT_EDGES: Labelled(exact.edge_marginals, ("source", "target")),
        EXACT_TARGETS: Labelled(exact.target_marginals, ("context", "node")),
    }

    def given(log_p: Float[np.ndarray, "1 n"]) -> Float[np.ndarray, "1 n"]:
        return draws.log_weight[None]

    log_p = np.array([exact.log_prob(*pair) for pair in zip(draws.graphs, draws.states, strict=True)])
    fields = collapse.fields(rng, graphs, states)
    fields["constant_data"] |= extra
    attrs = {"log_evidence": exact.log_evidence}
    return Posterior.from_draws(data, graphs, states > 0, log_p[None], given, attrs=attrs, **fields)


def in_data_units(drawn: dict[str, Labelled], scaling: Scaling) -> dict[str, Labelled]:
    """Linear parameters and effects drawn in the units of the priors, in those of the data.

    With x = shift + scale · u, u_j = Σ_i w_ij u_i + b_j + ε_j reads x_j = Σ_i w_ij s_j/s_i x_i + b'_j + s_j ε_j.
    Weights of other mechanisms stay as they are: their inputs and outputs are in the units of the priors.
    """
    shift, scale = scaling.shift, scaling.scale
    converted = dict(drawn)
    for prefix in ("", "effect_"):
        if f"{prefix}weight" not in drawn:
            continue
        weight, dims = drawn[f"{prefix}weight"]
        weight = weight * (scale[None, :] / scale[:, None]).astype(weight.dtype)
        converted[f"{prefix}weight"] = Labelled(weight, dims)
        # A mechanism without an intercept has one in units whose origin is another.
        if f"{prefix}intercept" in drawn or shift.any():
            zero = np.zeros((*weight.shape[:-2], weight.shape[-1]), weight.dtype)
            own = drawn.get(f"{prefix}intercept", Labelled(zero, (*dims[:-2], "node")))
            moved = shift + scale * own.values - np.einsum("...ij,i->...j", weight, shift)
            converted[f"{prefix}intercept"] = Labelled(moved.astype(weight.dtype), own.dims)
    for name in ("noise_std", "effect_noise_std", "effect_own_noise_std", "effect_shift"):
        if name in drawn:
            values, dims = drawn[name]
            converted[name] = Labelled((values * scale).astype(values.dtype), dims)
    if "effect_mean" in drawn:
        values, dims = drawn["effect_mean"]
        converted["effect_mean"] = Labelled((values * scale + shift).astype(values.dtype), dims)
    return converted
