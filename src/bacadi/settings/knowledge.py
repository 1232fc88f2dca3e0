"""The section `[knowledge]`: names of variables and contexts on one side, the arrays of `Knowledge` on the other.

```toml
[knowledge]
forbidden = [["a", "b"]]                # no edge a → b
required = [["b", "c"]]                 # always the edge b → c
tiers = [["a", "b"], ["c"]]             # no edge from a later tier into an earlier one; who is in no tier is free
max_parents = 4
edge_log_odds = "edges.csv"             # columns source,target,log_odds, added to the prior's
known = { ko = ["a"] }                  # certainly targets; the other variables stay open
excluded = { ko = ["b"] }               # certainly no targets
candidates = { drug = ["b", "c"] }      # nothing else is a target
target_log_odds = "targets.csv"         # columns context,variable,log_odds
target_count = [0.2, 0.7, 0.1]          # probabilities of 0, 1, 2 targets in a context, or { mean = 1.0 }
```
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from bacadi.data.text import closest, counted, listed, quoted
from bacadi.errors import ConfigError
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.settings.rules import REFUSED, Number, Rule, Whole

_EDGE_COLUMNS = ("source", "target", "log_odds")
_TARGET_COLUMNS = ("context", "variable", "log_odds")
_MEAN = "mean"
_MAX_SHOWN = 60


def knowledge_from_mapping(
    values: Mapping[str, Any],
    variables: Sequence[str],
    contexts: Sequence[str],
    folder: Path,
    where: str = "the configuration",
) -> Knowledge:
    """The knowledge that the keys of the section stand for; paths of files are taken from `folder`.

    >>> known = knowledge_from_mapping({"forbidden": [["a", "b"]], "max_parents": 1}, ["a", "b"], ["ko"], Path("."))
    >>> known.edge_log_odds.tolist(), known.max_parents
    ([[0.0, -inf], [0.0, 0.0]], 1)
    """
    labels = Labels(tuple(variables), tuple(contexts))
    known = Knowledge.none(len(variables), len(contexts), labels)
    for key, value in values.items():
        if key not in _READERS:
            near = closest(key, list(_READERS))
            raise ConfigError(
                f"The key {quoted(key)} of section [knowledge] in {where} is not known{near}; "
                f"the keys are {listed(_READERS, 99)}."
            )
        known = _READERS[key](
            known, value, _Place(f"The key '{key}' of section [knowledge] in {where}", labels, folder)
        )
    return known


@dataclass(frozen=True)
class _Place:
    """Where a value stands, for messages, and what turns names into indices there."""

    words: str
    labels: Labels
    folder: Path

    def variable(self, name: Any) -> int:
        return self._index(name, self.labels.variables, "variable")

    def context(self, name: Any) -> int:
        return self._index(name, self.labels.contexts, "context")

    def edge(self, source: Any, target: Any) -> tuple[int, int]:
        if source == target:
            self.refuse(f"names {_shown(source)} as its own cause; an edge joins two variables, so correct it")
        return self.variable(source), self.variable(target)

    def target(self, context: Any, variable: Any) -> tuple[int, int]:
        return self.context(context), self.variable(variable)

    def by_rule(self, rule: Rule, value: Any) -> Any:
        read = rule.read(value)
        if read is REFUSED:
            self.refuse(f"is {_shown(value)}; give {rule.words}")
        return read

    def refuse(self, what: str) -> NoReturn:
        raise ConfigError(f"{self.words} {what}.")

    def _index(self, name: Any, names: tuple[str, ...], noun: str) -> int:
        if not isinstance(name, str):
            self.refuse(f"holds {_shown(name)} where the name of a {noun} belongs; write the name in quotes")
        if name not in names:
            known = f"the {noun}s are {listed(names)}" if names else f"the data have no {noun}"
            self.refuse(f"names the {noun} {quoted(name)}, which is not in the data{closest(name, names)}; {known}")
        return names.index(name)


def _read_edges(known: Knowledge, value: Any, place: _Place, log_odds: float) -> Knowledge:
    cells = np.zeros_like(known.edge_log_odds)
    if not isinstance(value, list) or any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
        place.refuse(f'is {_shown(value)}; give a list of pairs from cause to effect, such as [["a", "b"]]')
    for source, target in value:
        cells[place.edge(source, target)] = log_odds
    return known.with_edges(cells)


def _read_tiers(known: Knowledge, value: Any, place: _Place) -> Knowledge:
    if not isinstance(value, list) or not all(isinstance(tier, list) for tier in value):
        place.refuse(f'is {_shown(value)}; give a list of lists, first the earliest, such as [["a", "b"], ["c"]]')
    tier_of = np.full(known.n_variables, -1)
    for number, tier in enumerate(value):
        for name in tier:
            at = place.variable(name)
            if tier_of[at] >= 0:
                place.refuse(f"names {quoted(name)} twice; a variable belongs to one tier")
            tier_of[at] = number
    return known.tiers(tier_of)


def _read_max_parents(known: Knowledge, value: Any, place: _Place) -> Knowledge:
    return known.limit_parents(place.by_rule(Whole(least=0), value))


def _read_targets(known: Knowledge, value: Any, place: _Place, log_odds: float) -> Knowledge:
    cells = np.zeros_like(known.target_log_odds)
    for k, variables in _by_context(value, place).items():
        cells[k, variables] = log_odds
    return known.with_targets(cells)


def _read_candidates(known: Knowledge, value: Any, place: _Place) -> Knowledge:
    for k, variables in _by_context(value, place).items():
        known = known.candidates(k, variables)
    return known


def _by_context(value: Any, place: _Place) -> dict[int, list[int]]:
    if not isinstance(value, dict) or not all(isinstance(names, list) for names in value.values()):
        place.refuse(f'is {_shown(value)}; give a list of variables for each context, such as {{ ko = ["a", "b"] }}')
    return {place.context(context): [place.variable(name) for name in names] for context, names in value.items()}


def _read_target_count(known: Knowledge, value: Any, place: _Place) -> Knowledge:
    d = known.n_variables
    if isinstance(value, dict) and list(value) == [_MEAN]:
        mean = place.by_rule(Number(above=0), value[_MEAN])
        if mean >= d:
            place.refuse(f"has the mean {mean:g} and the data have {counted(d, 'variable')}; give a smaller mean")
        return known.count_targets(None, _log_binomial(d, mean / d))
    if not isinstance(value, list) or any(Number(least=0).read(prob) is REFUSED for prob in value):
        place.refuse(f"is {_shown(value)}; give probabilities of 0, 1, 2, … targets or {{ mean = 1.0 }}")
    total = math.fsum(value)
    if not math.isclose(total, 1, abs_tol=1e-6):
        place.refuse(f"adds up to {total:g}; give probabilities of 0, 1, 2, … targets that add up to 1")
    with np.errstate(divide="ignore"):
        return known.count_targets(None, np.log(np.array(value, float)))


def _log_binomial(d: int, prob: float) -> Float[np.ndarray, " d+1"]:
    """log C(d, n) + n log p + (d - n) log(1 - p): the number of targets where each variable is one on its own."""
    log_ways = [math.lgamma(d + 1) - math.lgamma(n + 1) - math.lgamma(d - n + 1) for n in range(d + 1)]
    n = np.arange(d + 1)
    return np.array(log_ways) + n * math.log(prob) + (d - n) * math.log1p(-prob)


def _read_edge_file(known: Knowledge, value: Any, place: _Place) -> Knowledge:
    return known.with_edges(_from_csv(value, place, _EDGE_COLUMNS, np.zeros_like(known.edge_log_odds)))


def _read_target_file(known: Knowledge, value: Any, place: _Place) -> Knowledge:
    return known.with_targets(_from_csv(value, place, _TARGET_COLUMNS, np.zeros_like(known.target_log_odds)))


def _from_csv(value: Any, place: _Place, columns: tuple[str, ...], cells: np.ndarray) -> np.ndarray:
    """Fill `cells` from a table of two names and a number a row; inf and -inf are numbers here."""
    if not isinstance(value, str):
        place.refuse(f"is {_shown(value)}; give the name of a CSV file with the columns {','.join(columns)}")
    path = place.folder / value
    header, *rows = _csv_rows(path, place) or [(1, [])]
    if tuple(header[1]) != columns:
        found = quoted(",".join(header[1]))
        raise ConfigError(f"Line {header[0]} of {quoted(path.name)} is {found}; it must be {','.join(columns)}.")
    lines: dict[tuple[int, int], int] = {}
    for line, row in rows:
        at = _Place(f"Line {line} of {quoted(path.name)}", place.labels, place.folder)
        if len(row) != len(columns):
            at.refuse(f"has {counted(len(row), 'value')} and the header names {len(columns)}; correct the line")
        cell = at.edge(*row[:2]) if columns is _EDGE_COLUMNS else at.target(*row[:2])
        log_odds = _log_odds(row[2], at)
        if cell in lines and cells[cell] != log_odds:
            at.refuse(f"differs from line {lines[cell]}, which speaks of the same pair; keep one of the two")
        lines[cell], cells[cell] = line, log_odds
    return cells


def _csv_rows(path: Path, place: _Place) -> list[tuple[int, list[str]]]:
    """Line number and stripped cells of every row that is not blank."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        what = failure.strerror.lower() if isinstance(failure, OSError) and failure.strerror else "it is not UTF-8 text"
        place.refuse(f"names the file '{path}', which cannot be read ({what}); give a CSV file")
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        return [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as failure:
        raise ConfigError(f"Line {reader.line_num} of {quoted(path.name)} is no CSV ({failure}); correct it.") from None


def _log_odds(text: str, place: _Place) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        place.refuse(f"has the log odds {quoted(text)}; give a number, -inf to forbid or inf to require")
    return number


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


_Reader = Callable[[Knowledge, Any, _Place], Knowledge]
_READERS: dict[str, _Reader] = {
    "forbidden": lambda known, value, place: _read_edges(known, value, place, -math.inf),
    "required": lambda known, value, place: _read_edges(known, value, place, math.inf),
    "tiers": _read_tiers,
    "max_parents": _read_max_parents,
    "edge_log_odds": _read_edge_file,
    "known": lambda known, value, place: _read_targets(known, value, place, math.inf),
    "excluded": lambda known, value, place: _read_targets(known, value, place, -math.inf),
    "candidates": _read_candidates,
    "target_log_odds": _read_target_file,
    "target_count": _read_target_count,
}
