"""What users say by name, as `Knowledge`: the section `[knowledge]` of a TOML file, CSV files, labels, records.

```toml
[knowledge]
forbidden = [["a", "b"]]                # no edge a → b
required = [["b", "c"]]                 # always the edge b → c
tiers = [["a", "b"], ["c"]]             # no edge from a later tier into an earlier one; who is in no tier is free
max_parents = 4
edge_log_odds = "edges.csv"             # columns source,target,log_odds, added to the prior's
known = { ko = ["a"] }                  # certainly targets; the other variables stay open
excluded = { ko = ["b"] }               # certainly not targets
candidates = { drug = ["b", "c"] }      # nothing else is a target
target_log_odds = "targets.csv"         # columns context,variable,log_odds
effects = "effects.csv"                 # columns context,variable,mean,std: hard effects that are known
target_count = [0.2, 0.7, 0.1]          # probabilities of 0, 1, 2 targets in a context, or { mean = 1.0 }
```
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from bacadi.config.choices import REFUSED, Rule, shown
from bacadi.data.contexts import ContextData
from bacadi.data.text import closest, counted, listed, quoted, read_rows
from bacadi.errors import ConfigError, DataError
from bacadi.graph.enumerate import log_subsets
from bacadi.model.knowledge import Knowledge, KnownEffects, Labels

UNKNOWN, KNOWN, OFF_TARGETS = "unknown", "known", "known-with-off-targets"
_EDGES, _TARGETS = ("source", "target", "log_odds"), ("context", "variable", "log_odds")
_LISTED = ("context", "variable", "target")
_EFFECTS, _SIMULATED = ("context", "variable", "mean", "std"), ("context", "variable", "keeps_parents", "shift", "std")


def labels_of(data: ContextData) -> Labels:
    """The names that knowledge of these data goes by."""
    return Labels(data.variables, data.contexts)


def stated(data: ContextData, targets: str, section: Mapping[str, Any], config: Path | None) -> Knowledge:
    """All that a command line says of these data: `--targets` and the section `[knowledge]` of `--config`."""
    where, folder = ("the configuration", Path()) if config is None else (quoted(config.name), config.parent)
    known = from_section(section, labels_of(data), folder, where).scaled(data.scaling)
    return known.known_targets(named_targets(targets, data))


@dataclass(frozen=True)
class _Statement:
    """Where a statement is made, for messages, and what turns names into indices there."""

    words: str
    labels: Labels
    error: type[Exception] = ConfigError
    folder: Path = Path()

    def variable(self, name: Any) -> int:
        """The index of a variable, refused where the data have none of this name."""
        return self._index(name, self.labels.variables, "variable")

    def context(self, name: Any) -> int:
        """The index of a context, refused where the data have none of this name."""
        return self._index(name, self.labels.contexts, "context")

    def edge(self, source: Any, target: Any) -> tuple[int, int]:
        """The indices of two variables, which have to differ."""
        if source == target:
            self.refuse(f"names {shown(source)} as its own cause; an edge joins two variables, so correct it")
        return self.variable(source), self.variable(target)

    def by_rule(self, rule: Rule, value: Any) -> Any:
        """The value that a rule reads, refused in its words."""
        if (read := rule.read(value)) is REFUSED:
            self.refuse(f"is {shown(value)}; give {rule.words}")
        return read

    def refuse(self, what: str) -> NoReturn:
        """Raise the refusal of this statement."""
        raise self.error(f"{self.words} {what}.")

    def _index(self, name: Any, names: tuple[str, ...], noun: str) -> int:
        if not isinstance(name, str):
            self.refuse(f"holds {shown(name)} where the name of a {noun} belongs; write the name in quotes")
        if name not in names:
            every = f"the {noun}s are {listed(names)}" if names else f"the data have no {noun}"
            self.refuse(f"names the {noun} {quoted(name)}, which is not in the data{closest(name, names)}; {every}")
        return names.index(name)


def from_section(section: Mapping[str, Any], labels: Labels, folder: Path, where: str) -> Knowledge:
    """The knowledge that the keys of the section mean; paths of files are relative to `folder`.

    >>> labels, section = Labels(("a", "b"), ("ko",)), {"forbidden": [["a", "b"]], "max_parents": 1}
    >>> known = from_section(section, labels, Path(), "the configuration")
    >>> known.edge_log_odds.tolist(), known.max_parents
    ([[0.0, -inf], [0.0, 0.0]], 1)
    """
    knowledge = Knowledge.none(len(labels.variables), len(labels.contexts), labels)
    for key, value in section.items():
        place = _Statement(f"The key {quoted(key)} of section [knowledge] in {where}", labels, folder=folder)
        if key not in _READERS:
            place.refuse(f"is not known{closest(key, list(_READERS))}; the keys are {listed(_READERS, 99)}")
        knowledge = _READERS[key](knowledge, value, place)
    return knowledge


def _edges(knowledge: Knowledge, value: Any, place: _Statement, log_odds: float) -> Knowledge:
    cells = np.zeros_like(knowledge.edge_log_odds)
    if not isinstance(value, list) or any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
        place.refuse(f'is {shown(value)}; give a list of pairs from cause to effect, such as [["a", "b"]]')
    for source, target in value:
        cells[place.edge(source, target)] = log_odds
    return knowledge.with_edges(cells)


def _targets(knowledge: Knowledge, value: Any, place: _Statement, log_odds: float) -> Knowledge:
    cells = np.zeros_like(knowledge.target_log_odds)
    for k, variables in _by_context(value, place).items():
        cells[k, variables] = log_odds
    return knowledge.with_targets(cells)


def _tiers(knowledge: Knowledge, value: Any, place: _Statement) -> Knowledge:
    if not isinstance(value, list) or not all(isinstance(tier, list) for tier in value):
        place.refuse(f'is {shown(value)}; give a list of lists, first the earliest, such as [["a", "b"], ["c"]]')
    tier_of = np.full(knowledge.n_variables, -1)
    for number, tier in enumerate(value):
        for name in tier:
            at = place.variable(name)
            if tier_of[at] >= 0:
                place.refuse(f"names {quoted(name)} twice; a variable belongs to one tier")
            tier_of[at] = number
    return knowledge.tiers(tier_of)


def _max_parents(knowledge: Knowledge, value: Any, place: _Statement) -> Knowledge:
    return knowledge.limit_parents(place.by_rule(Rule(int, least=0), value))


def _candidates(knowledge: Knowledge, value: Any, place: _Statement) -> Knowledge:
    for k, variables in _by_context(value, place).items():
        knowledge = knowledge.candidates(k, variables)
    return knowledge


def _by_context(value: Any, place: _Statement) -> dict[int, list[int]]:
    if not isinstance(value, dict) or not all(isinstance(names, list) for names in value.values()):
        place.refuse(f'is {shown(value)}; give a list of variables for each context, such as {{ ko = ["a", "b"] }}')
    return {place.context(context): [place.variable(name) for name in names] for context, names in value.items()}


def _target_count(knowledge: Knowledge, value: Any, place: _Statement) -> Knowledge:
    d = knowledge.n_variables
    if isinstance(value, dict) and list(value) == ["mean"]:
        mean = place.by_rule(Rule(float, above=0), value["mean"])
        if mean >= d:
            place.refuse(f"has the mean {mean:g} and the data have {counted(d, 'variable')}; give a smaller mean")
        n, prob = np.arange(d + 1), mean / d  # of a binomial law: variables are targets independently of each other
        return knowledge.count_targets(None, log_subsets(d) + n * math.log(prob) + (d - n) * math.log1p(-prob))
    if not isinstance(value, list) or Rule(float, many=True, least=0).read(value) is REFUSED:
        place.refuse(f"is {shown(value)}; give probabilities of 0, 1, 2, … targets or {{ mean = 1.0 }}")
    total = math.fsum(value)
    if not math.isclose(total, 1, abs_tol=1e-6):
        place.refuse(f"adds up to {total:g}; give probabilities of 0, 1, 2, … targets that add up to 1")
    with np.errstate(divide="ignore"):
        return knowledge.count_targets(None, np.log(np.array(value, float)))


def _log_odds(knowledge: Knowledge, value: Any, place: _Statement, columns: tuple[str, ...]) -> Knowledge:
    """Add the log odds of a table of two names and a number per row; inf and -inf are numbers here."""
    if not isinstance(value, str):
        place.refuse(f"is {shown(value)}; give the name of a CSV file with the columns {','.join(columns)}")
    of_edges, lines = columns is _EDGES, dict[tuple[int, int], int]()
    cells = np.zeros_like(knowledge.edge_log_odds if of_edges else knowledge.target_log_odds)
    for line, at, row in _table(place.folder / value, "file of log odds", (columns,), place):
        cell = at.edge(*row[:2]) if of_edges else (at.context(row[0]), at.variable(row[1]))
        log_odds = _number(row[2], at)
        if cell in lines and cells[cell] != log_odds:
            at.refuse(f"differs from line {lines[cell]}, which speaks of the same pair; keep one of the two")
        lines[cell], cells[cell] = line, log_odds
    return knowledge.with_edges(cells) if of_edges else knowledge.with_targets(cells)


def _effects(knowledge: Knowledge, value: Any, place: _Statement) -> Knowledge:
    """Hard effects from a table of names, mean and standard deviation, or from the `truth_effects.csv` of a task."""
    if not isinstance(value, str):
        place.refuse(f"is {shown(value)}; give the name of a CSV file with the columns {','.join(_EFFECTS)}")
    mean, std = np.full((2, *knowledge.target_log_odds.shape), np.nan)
    for _, at, row in _table(place.folder / value, "file of effects", (_EFFECTS, _SIMULATED), place):
        if len(row) == len(_SIMULATED) and row[2] != "0":
            at.refuse("is an effect that keeps the parents of its target; only hard effects can be told, so remove it")
        cell, numbers = (at.context(row[0]), at.variable(row[1])), [_finite(text, at) for text in row[-2:]]
        if numbers[1] <= 0:
            at.refuse(f"has the standard deviation {quoted(row[-1])}; give a number above 0")
        if not np.isnan(mean[cell]) and [mean[cell], std[cell]] != numbers:
            at.refuse("differs from an earlier line on the same context and variable; keep one of the two")
        mean[cell], std[cell] = numbers
    return knowledge.with_effects(KnownEffects(mean, std))


def _table(
    path: Path, noun: str, headers: tuple[tuple[str, ...], ...], place: _Statement
) -> list[tuple[int, _Statement, list[str]]]:
    """Number, place and cells of every line of a CSV file after its header, which has to be one of `headers`."""
    rows = [
        (line, replace(place, words=f"Line {line} of {quoted(path.name)}"), row) for line, row in read_rows(path, noun)
    ]
    wanted = " or ".join(",".join(header) for header in headers)
    if not rows:
        raise place.error(f"The {noun} {quoted(path.name)} is empty; its first line must be {wanted}.")
    (_, first, header), *others = rows
    if tuple(header) not in headers:
        first.refuse(f"is {quoted(','.join(header))}; it must be {wanted}")
    for _, at, row in others:
        if len(row) != len(header):
            at.refuse(f"has {counted(len(row), 'value')} and the header names {len(header)}; correct the line")
    return others


def _number(text: str, place: _Statement) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        place.refuse(f"has the log odds {quoted(text)}; give a number, -inf to forbid or inf to require")
    return number


def _finite(text: str, place: _Statement) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        place.refuse(f"has {quoted(text)} where a number belongs; correct it")
    return number


_READERS: dict[str, Callable[[Knowledge, Any, _Statement], Knowledge]] = {
    "forbidden": partial(_edges, log_odds=-math.inf),
    "required": partial(_edges, log_odds=math.inf),
    "tiers": _tiers,
    "max_parents": _max_parents,
    "edge_log_odds": partial(_log_odds, columns=_EDGES),
    "known": partial(_targets, log_odds=math.inf),
    "excluded": partial(_targets, log_odds=-math.inf),
    "candidates": _candidates,
    "target_log_odds": partial(_log_odds, columns=_TARGETS),
    "target_count": _target_count,
    "effects": _effects,
}


def named_targets(choice: str, data: ContextData) -> Float[np.ndarray, "M d"] | None:
    """What `--targets` says: `unknown` (None), `known` (labels name their targets), `known-with-off-targets` (they do,
    and there may be more) or the path of a CSV file."""
    if choice == UNKNOWN:
        return None
    if choice in (KNOWN, OFF_TARGETS):
        known = from_labels(data)
        return known if choice == KNOWN else np.where(known == 1, 1.0, np.nan)
    if not Path(choice).exists():
        words = (UNKNOWN, KNOWN, OFF_TARGETS)
        what = f"--targets is {quoted(choice)}, which is no file{closest(choice, words)}"
        raise ConfigError(f"{what}; give {', '.join(words)} or the path of a CSV file.")
    return from_csv(Path(choice), data)


def from_labels(data: ContextData) -> Float[np.ndarray, "M d"]:
    """Targets from `data.aims`, or from labels such as `geneA` or `geneA+geneB`; every target is then known.

    >>> aims = {"guide 7": ("a", "b")}
    >>> data = ContextData(np.zeros((2, 2)), np.array([1, 2]), ("a", "b"), ("a", "guide 7"), aims=aims)
    >>> from_labels(data).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    known = np.zeros((data.n_contexts, data.n_variables))
    for k, label in enumerate(data.contexts):
        whole = label in data.variables  # a variable may have a plus in its name
        parts = data.aims.get(label) or ([label] if whole else [part.strip() for part in label.split("+")])
        for name in parts:
            if name not in data.variables:
                near = closest(name, data.variables)
                what = f"The context {quoted(label)} names {quoted(name)}, which is no variable{near}"
                rule = "with --targets known a label is its targets joined by '+'"
                remedy = "otherwise list the targets in a file for --targets FILE.csv"
                raise ConfigError(f"{what}; {rule}, {remedy}.")
            known[k, data.variables.index(name)] = 1
    return known


def from_csv(path: Path, data: ContextData) -> Float[np.ndarray, "M d"]:
    """Targets from a table `context,variable` (listed contexts are known whole) or `context,variable,target`.

    With the third column, 1 or 0, only the listed cells are known. Without it an empty variable says that the context
    has no target.
    """
    known = np.full((data.n_contexts, data.n_variables), np.nan)
    file = _Statement("The targets file", labels_of(data), DataError)
    for _, place, row in _table(path, "targets file", (_LISTED[:2], _LISTED), file):
        if row[0] == data.observational:
            place.refuse(f"lists {quoted(row[0])}, the observational context, which has no targets; remove it")
        k = place.context(row[0])
        if len(row) == 2:
            known[k] = np.nan_to_num(known[k])
            if row[1]:
                known[k, place.variable(row[1])] = 1.0
            continue
        cell, target = (k, place.variable(row[1])), row[2]
        if target not in ("0", "1"):
            place.refuse(f"has the target {quoted(target)}; give 1 for a target and 0 for none")
        if known[cell] == 1 - float(target):
            place.refuse(f"says {target} where an earlier line says {int(known[cell])}; keep one of them")
        known[cell] = float(target)
    return known


def to_record(knowledge: Knowledge) -> dict[str, Any]:
    """All that is known, fit for JSON: rows of two names and log odds, and log probabilities of numbers of targets.

    >>> to_record(Knowledge.none(2, 1, Labels(("a", "b"), ("ko",))).forbid(0, 1))
    {'edges': [['a', 'b', '-inf']], 'targets': [], 'max_parents': None, 'target_counts': None, 'effects': []}
    """
    variables, contexts, counts = knowledge.labels.variables, knowledge.labels.contexts, knowledge.target_count_log
    return {
        "edges": _named_cells(knowledge.edge_log_odds, variables, variables),
        "targets": _named_cells(knowledge.target_log_odds, contexts, variables),
        "max_parents": knowledge.max_parents,
        "target_counts": None if counts is None else [[_plain(value) for value in row] for row in counts.tolist()],
        "effects": _named_effects(knowledge),
    }


def from_record(record: Mapping[str, Any], labels: Labels) -> Knowledge:
    """The inverse of `to_record`."""
    d, m, counts = len(labels.variables), len(labels.contexts), record["target_counts"]
    known = Knowledge(
        _cells(record["edges"], labels.variables, labels.variables),
        record["max_parents"],
        _cells(record["targets"], labels.contexts, labels.variables),
        None if counts is None else np.array(counts, float).reshape(m, d + 1),
        labels,
    )
    mean, std = np.full((2, m, d), np.nan)
    for context, variable, *numbers in record.get("effects", ()):
        cell = labels.contexts.index(context), labels.variables.index(variable)
        mean[cell], std[cell] = map(float, numbers)
    return known if np.isnan(mean).all() else known.with_effects(KnownEffects(mean, std))


def _named_effects(knowledge: Knowledge) -> list[list[Any]]:
    effects, (variables, contexts) = knowledge.effects, (knowledge.labels.variables, knowledge.labels.contexts)
    if effects is None:
        return []
    cells = np.argwhere(effects.known).tolist()
    return [[contexts[k], variables[j], float(effects.mean[k, j]), float(effects.std[k, j])] for k, j in cells]


def _named_cells(cells: np.ndarray, first: tuple[str, ...], second: tuple[str, ...]) -> list[list[Any]]:
    return [[first[i], second[j], _plain(float(cells[i, j]))] for i, j in np.argwhere(cells != 0).tolist()]


def _cells(rows: list[list[Any]], first: tuple[str, ...], second: tuple[str, ...]) -> np.ndarray:
    cells = np.zeros((len(first), len(second)))
    for one, other, log_odds in rows:
        cells[first.index(one), second.index(other)] = float(log_odds)
    return cells


def _plain(value: float) -> float | str:
    """JSON has no infinity."""
    return str(value) if math.isinf(value) else value
