"""Plain sentences made from the numbers of a run: what was done, what was found, how sure, what to doubt.

Every sentence is text without markup; whoever shows it escapes it. Lists name a few and count the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from bacadi.data.text import counted, duration, quoted
from bacadi.inference.mcmc.diagnostics import MIN_DRAWS
from bacadi.posterior import Posterior
from bacadi.posterior.moved import FALSE_SHARE, LIKELY, MOVED, Contexts, contexts_of
from bacadi.posterior.posterior import EXACT_EDGES
from bacadi.report.found import CERTAIN
from bacadi.report.layout import causal_order

if TYPE_CHECKING:
    import pandas as pd

_NAMED, _LISTED, _OPEN = 5, 12, (0.1, 0.9)
_PROVISIONAL = "The draws are not settled, as the next section says; take all probabilities as provisional."
_MECHANISMS = {
    "linear": "a linear function of its direct causes, with Gaussian noise",
    "bge": "a linear function of its direct causes, with Gaussian noise and all parameters integrated out (BGe)",
    "nonlinear": "a small neural network of its direct causes, with Gaussian noise",
    "additive": "a sum of curves, one for each of its direct causes, with Gaussian noise",
    "gaussian-process": "a smooth function of its direct causes (a Gaussian process), with Gaussian noise",
}
_EFFECTS = {
    "hard": "cuts the variable off from its causes and gives it a mean of its own",
    "shift": "adds a constant to the variable, which keeps its causes",
    "scale": "changes how much the variable varies",
    "soft": "gives the variable a new dependence on the same causes",
    "any": "is a cut, a shift, a change of scale or a new dependence, whichever fits",
}
_METHODS = {
    "mcmc": "Markov chains over graphs and targets with parallel tempering",
    "exact": "exact sums over all graphs",
    "svgd": "particles moved by Stein variational gradient descent",
}
ASSUMPTIONS = (
    "Every common cause of two variables is taken to be among the variables; a hidden one can look like an edge.",
    "The graph is taken to have no feedback, and a context to act directly on few variables.",
    "A probability is right only as far as the model is: another model of the same data may give another.",
)
"""What no number of a run can show."""


@dataclass(frozen=True)
class Run:
    """A posterior with what its folder says of how it came about: config.json and the lines of log.jsonl."""

    posterior: Posterior
    record: dict[str, Any] = field(default_factory=dict)
    log: tuple[dict[str, Any], ...] = ()

    @cached_property
    def contexts(self) -> Contexts:
        """What each context hit and moved."""
        return contexts_of(self.posterior)

    @cached_property
    def edges(self) -> "pd.DataFrame":
        """`Posterior.edges`, made once."""
        return self.posterior.edges()

    @cached_property
    def targets(self) -> "pd.DataFrame":
        """`Posterior.targets`, made once."""
        return self.posterior.targets()

    @cached_property
    def directions(self) -> "pd.DataFrame":
        """`Posterior.directions`, made once."""
        return self.posterior.directions()

    @cached_property
    def order(self) -> Int[np.ndarray, " d"]:
        """The variables in causal order."""
        return causal_order(self.posterior)

    @property
    def data_name(self) -> str:
        """The name of the table, without its folder."""
        path = str(self.record.get("data", {}).get("path", ""))
        return path.replace("\\", "/").rsplit("/", 1)[-1] or "the data"

    @property
    def day(self) -> str:
        """The day on which the run ended, where the log says so."""
        ends = [line.get("time", "") for line in self.log if line.get("event") == "done"]
        try:
            moment = datetime.fromisoformat(ends[-1])
        except (IndexError, TypeError, ValueError):
            return ""
        return f"{moment.day} {moment:%B %Y}"

    @property
    def seconds(self) -> float | None:
        """How long the run took, where the log says so."""
        spent = [line.get("seconds") for line in self.log if line.get("event") == "done"]
        return float(spent[-1]) if spent and isinstance(spent[-1], int | float) else None


def probability(p: float) -> str:
    """A probability as a person reads it; draws cannot tell .999 from certainty.

    >>> probability(0.5), probability(0.999), probability(0.001)
    ('0.50', '>0.99', '<0.01')
    """
    return ">0.99" if p > 0.995 else "<0.01" if p < 0.005 else f"{p:.2f}"


def number(value: float) -> str:
    """Three digits of a number, with a true minus sign.

    >>> number(-1234.5), number(0.01234)
    ('−1,230', '0.0123')
    """
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.2e}".replace("-", "−")
    if abs(value) >= 1000:
        return f"{round(value, 2 - int(np.floor(np.log10(abs(value))))):,.0f}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def some(names: Sequence[object], most: int = _NAMED) -> str:
    """Names in a row, the rest counted.

    >>> some(["a", "b", "c"]), some("abcd", 2)
    ('a, b and c', 'a, b and 2 more')
    """
    items = [str(name) for name in names]
    if len(items) > most:
        items = [*items[:most], f"{len(items) - most} more"]
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def what_was_done(run: Run) -> list[str]:
    """Data, model, what was known beforehand, and how it was computed."""
    posterior, attrs = run.posterior, run.posterior.attrs
    settings = attrs.get("configuration", {})
    lines = [_data(run), *attrs.get("columns", [])]
    mechanism = _type(settings.get("model", {}).get("mechanism"))
    if mechanism:
        words = _MECHANISMS.get(mechanism, f"described by the mechanism {quoted(mechanism)} of its direct causes")
        lines.append(f"Each variable is taken to be {words}.")
    effect = _type(settings.get("model", {}).get("effect"))
    if posterior.contexts and effect in _EFFECTS:
        lines.append(f"An intervention {_EFFECTS[effect]}.")
    lines += [sentence(text) for text in attrs.get("chosen", {}).get("words", [])]
    known = posterior.constant_data.get("known_target")
    told = 0 if known is None else int(np.isfinite(np.asarray(known.values, float)).sum())
    stated = len(run.record.get("knowledge", {}).get("edges", []) or [])
    if posterior.contexts:
        lines.append(
            f"Of {told} of {posterior.n_contexts * posterior.n_variables} pairs of context and variable it was known "
            "beforehand whether the context hits the variable."
            if told
            else "No target was known beforehand."
        )
    if stated:
        lines.append(f"{counted(stated, 'statement')} about edges stood in the configuration.")
    lines.append(_computation(run))
    return lines


def _data(run: Run) -> str:
    posterior = run.posterior
    d, m = counted(posterior.n_variables, "variable"), counted(posterior.n_contexts, "context")
    rows = posterior.constant_data.get("n_rows")
    if rows is None:
        return f"{run.data_name} has {d} and {m} beside the control."
    counts = [int(n) for n in rows.values]
    own = f"{counts[0]} of the control {quoted(posterior.observational or '')}" if counts[0] else "none of a control"
    low, high = (min(counts[1:]), max(counts[1:])) if counts[1:] else (0, 0)
    each = f" and {low if low == high else f'{low} to {high}'} in each of {m}" if counts[1:] else ""
    return f"{run.data_name} has {sum(counts):,} rows of {d}: {own}{each}."


def _computation(run: Run) -> str:
    attrs, posterior = run.posterior.attrs, run.posterior
    method = str(attrs.get("method", ""))
    how = _METHODS.get(method, f"the method {quoted(method)}" if method else "a method that the file does not name")
    seed = f", seed {attrs['seed']}" if "seed" in attrs else ""
    replicas = f" in {posterior.n_chains} independent replicas" if "converged" in attrs else ""
    took = f" It took {duration(run.seconds)}." if run.seconds else ""
    version = attrs.get("version", "")
    return f"bacadi {version} used {how}: {posterior.n_draws:,} draws{replicas}{seed}.{took}"


def _type(choice: Any) -> str:
    return str(choice.get("type", "")) if isinstance(choice, dict) else ""


def sentence(text: str) -> str:
    """Words as a sentence.

    >>> sentence("effects: hard, chosen by evidence")
    'Effects: hard, chosen by evidence.'
    """
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def what_was_found(run: Run) -> list[str]:
    """Edges, hubs, targets, and what moved."""
    posterior = run.posterior
    p, names = posterior.edge_probabilities(), posterior.variables
    likely = p > LIKELY
    expected = number(float(p.sum()))
    n, certain = int(likely.sum()), int((p > CERTAIN).sum())
    lines = [
        f"{counted(n, 'edge')} {_have(n)} a probability above {LIKELY}, {_part(certain, n)} above {CERTAIN}; "
        f"{expected} edges are expected in all."
        if n
        else f"No edge has a probability above {LIKELY}; {expected} edges are expected in all."
    ]
    out = likely.sum(axis=1)
    if n and out.max() >= 3:
        hubs = [f"{names[i]} ({out[i]})" for i in np.argsort(-out, kind="stable")[:3] if out[i] >= 3]
        lines.append(f"The {'variable' if len(hubs) == 1 else 'variables'} with the most direct effects: {some(hubs)}.")
    if n:
        alone = [names[i] for i in np.flatnonzero(~likely.any(axis=0) & ~likely.any(axis=1))]
        if alone:
            lines.append(f"{counted(len(alone), 'variable')} {_have(len(alone))} no likely edge: {some(alone)}.")
    return lines + (_targets(run) if posterior.contexts else ["There is no context beside the observational one."])


def _targets(run: Run) -> list[str]:
    found, names = run.contexts, run.posterior.contexts
    hits = found.hit.sum(axis=1)
    one, none, more = (np.flatnonzero(which) for which in (hits == 1, hits == 0, hits > 1))
    parts = [f"{len(one)} hit exactly one variable" if len(one) else ""]
    parts += [f"{len(more)} hit several ({some([names[k] for k in more])})" if len(more) else ""]
    parts += [f"{len(none)} hit none that is likely ({some([names[k] for k in none])})" if len(none) else ""]
    every = len(one) == len(names) > 1
    lines = [
        f"Each of the {len(names)} contexts hit exactly one variable."
        if every
        else f"Of {counted(len(names), 'context')} {some([part for part in parts if part])}."
    ]
    if not np.isfinite(found.in_sd).any():
        return lines
    total = int(found.moved.sum())
    explained = int((found.moved & (found.hit | (found.downstream > LIKELY))).sum())
    if not total:
        return [*lines, "No variable is clearly moved in any context."]
    return [
        *lines,
        f"{counted(total, 'mean')} moved by {MOVED} standard deviations of the control or more, beyond chance (false "
        f"discovery rate {FALSE_SHARE}); {_part(explained, total)} in targets or in effects of targets.",
    ]


def how_sure(run: Run) -> list[str]:
    """What is open: structures, pairs, directions, signs, and the error of the computation itself."""
    posterior = run.posterior
    p, (low, high) = posterior.edge_probabilities(), _OPEN
    structures = posterior.structures()
    share, n = float(structures.weights[0]), len(structures.weights)
    lines = [] if posterior.attrs.get("converged", True) else [_PROVISIONAL]
    lines.append(
        f"The draws hold {counted(n, 'different structure')} (graph and targets); the most probable has "
        f"{probability(share)} of the weight."
    )
    open_edges, open_targets = (int(((q > low) & (q < high)).sum()) for q in (p, posterior.target_probabilities()))
    lines.append(
        f"{counted(open_edges, 'edge')} and {counted(open_targets, 'target')} are open (probability {low} to {high}); "
        "all others are decided one way or the other."
        if open_edges or open_targets
        else f"No edge and no target is open (probability {low} to {high})."
    )
    lines += _directions(run)
    table = run.edges
    likely = table[(table["probability"] > LIKELY) & np.isfinite(table["weight"])]
    if len(likely):
        signed = int((likely["weight_q05"] * likely["weight_q95"] > 0).sum())
        lines.append(
            f"The weight has a clear sign (its 90 % interval is on one side of 0) for {signed or 'none'} of the "
            f"{len(likely)} likely edges."
        )
    errors = [
        posterior.sample_stats[name].values for name in ("edge_error", "target_error") if name in posterior.sample_stats
    ]
    if EXACT_EDGES not in posterior.constant_data and errors and posterior.log_weight.shape[1] >= MIN_DRAWS:
        worst = max(float(error.max(initial=0.0)) for error in errors)
        lines.append(f"The Monte-Carlo standard error of every probability is at most {max(worst, 0.001):.3f}.")
    return lines


def _directions(run: Run) -> list[str]:
    table = run.directions
    if not len(table):
        return []
    unknown = table[table["undetermined"] >= 0.5]
    if not len(unknown):
        return [
            f"Contexts or independences orient all {len(table)} adjacent pairs."
            if len(table) > 1
            else "A context or independences orient the only adjacent pair."
        ]
    pairs = [f"{row.source} – {row.target}" for row in unknown.itertuples()]
    return [
        f"Of {counted(len(table), 'adjacent pair')} {len(unknown)} {_have(len(unknown))} a direction that neither "
        f"independences nor contexts tell: {some(pairs)}."
    ]


def doubts_of_sampler(run: Run) -> list[str]:
    """Whether the draws can be trusted as draws of the posterior."""
    return [sentence(run.posterior.verdict()), *run.posterior.attrs.get("warnings", [])]


def doubts_of_model(run: Run) -> list[str]:
    """Whether residuals, shams and unexplained changes speak against the model; what was not looked at is said."""
    attrs = run.posterior.attrs
    if "misfit" not in attrs:
        lines = ["Whether the model fits was not looked at (mcmc and exact do, with linear mechanisms)."]
    else:
        lines = list(attrs["misfit"]) or ["Nothing that the model leaves unexplained speaks against it."]
    shams = attrs.get("shams")
    if run.posterior.contexts:
        lines += (
            [sentence(text) for text in shams.get("words", [])] + list(shams.get("warnings", []))
            if shams
            else ["No shams were fitted; `bacadi fit --shams 5` tells how many targets are named where there are none."]
        )
    return lines + unexplained(run)


def unexplained(run: Run) -> list[str]:
    """Changes that no target explains, and targets of which no mean moved."""
    found, posterior = run.contexts, run.posterior
    if not np.isfinite(found.in_sd).any():
        return []
    lines = []
    strange = found.moved & ~found.hit & (found.downstream <= LIKELY)
    places = sorted(np.argwhere(strange).tolist(), key=lambda at: -abs(found.in_sd[tuple(at)]))
    by_chance = FALSE_SHARE * found.moved.sum()
    if len(places) > by_chance + 2 * np.sqrt(by_chance) + 1:
        named = some([f"{posterior.variables[j]} in {posterior.contexts[k]}" for k, j in places], 3)
        lines.append(
            f"{len(places)} means moved that belong neither to a target nor to an effect of one, where "
            f"{number(float(by_chance))} or so may be chance ({named}): a target or an edge may be missing, or "
            "contexts drift."
        )
    with np.errstate(invalid="ignore"):
        still = found.hit & np.isfinite(found.low) & ~(found.low * found.high > 0)
    if still.any():
        named = some([f"{posterior.variables[j]} in {posterior.contexts[k]}" for k, j in np.argwhere(still)], 3)
        lines.append(
            f"{counted(int(still.sum()), 'likely target')} {_have(int(still.sum()))} a mean that did not clearly move "
            f"({named}): what changed there is how the variable varies or what it depends on."
        )
    return lines


def of_context(run: Run, k: int, kinds: dict[tuple[str, str], str]) -> dict[str, list[str]]:
    """What context k hit, what moved downstream of it, and what moved for no reason in the model, as short lines."""
    found, names, context = run.contexts, run.posterior.variables, run.posterior.contexts[k]

    def line(j: int, hit: bool = False) -> str:
        kind = kinds.get((context, names[j]), "")
        what = f" (probability {probability(found.probability[k, j])}{f', {kind}' if kind else ''})" if hit else ""
        return f"{names[j]}{what}{_moved(found, k, j)}"

    by_size = np.argsort(-np.abs(np.nan_to_num(found.in_sd[k])), kind="stable")
    hit = [int(j) for j in np.argsort(-found.probability[k], kind="stable") if found.hit[k, j]]
    rest = [int(j) for j in by_size if found.moved[k, j] and not found.hit[k, j]]
    if hit:
        lines = {"Hit": [line(j, True) for j in hit]}
    else:
        best = int(found.probability[k].argmax())
        lines = {"Hit": [f"no variable with more than {LIKELY}; the likeliest is {line(best, True)}"]}
    lines["Moved downstream"] = [line(j) for j in rest if found.downstream[k, j] > LIKELY]
    lines["Moved, but neither hit nor downstream"] = [line(j) for j in rest if found.downstream[k, j] <= LIKELY]
    return {title: _cut(entries) for title, entries in lines.items() if entries}


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - _LISTED
    return lines if more <= 0 else [*lines[:_LISTED], f"and {more} more, which the table of targets has"]


def _moved(found: Contexts, k: int, j: int) -> str:
    if not np.isfinite(found.in_sd[k, j]):
        return ""
    way, size = "up" if found.in_sd[k, j] > 0 else "down", number(abs(found.in_sd[k, j]))
    interval = f"{number(found.low[k, j])} to {number(found.high[k, j])}"
    return f": {way} {size} standard deviations ({number(found.change[k, j])}, 90 % interval {interval})"


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


def _part(n: int, total: int) -> str:
    """Some of so many, as the middle of a sentence.

    >>> _part(4, 4), _part(0, 4), _part(3, 4)
    ('all of them', 'none of them', '3 of them')
    """
    return "all of them" if n == total else f"{n or 'none'} of them"
