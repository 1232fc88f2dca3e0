"""`Columns`: what is made of a table before a model sees it, as one choice (section [data] of a file, flags)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bacadi.config.choices import REFUSED, Choice, option, rules_of, shown
from bacadi.config.codec import Place, Table, build
from bacadi.config.layers import DATA, read_sections
from bacadi.data import preparation
from bacadi.data.changes import far_rows
from bacadi.data.checks import Finding, note
from bacadi.data.contexts import ContextData
from bacadi.data.doctor import Diagnosis, examine
from bacadi.data.shapes import unmeasured
from bacadi.data.symptoms import symptoms
from bacadi.data.text import counted, listed, quoted
from bacadi.data.transforms import AUTO, KINDS, NONE
from bacadi.errors import ConfigError

REFUSE, DROP, IMPUTE = "refuse", "drop", "impute"
KEEP = "keep"


class Reading(NamedTuple):
    """The data of a table, None where it cannot be used, and what the doctor says of them."""

    data: ContextData | None
    diagnosis: Diagnosis


class Columns(Choice):
    """Which columns and rows of a table are used, and on which scale.

    `transform` holds names of maps: one for all columns, or `column=map` for some. `thin` takes every so many rows of
    each context; rows with missing cells are refused, dropped, or completed several times (`impute`), and
    `missing_value` is a number that stands for a missing cell (-999, or 0 where nothing was measured). `block` is a
    column of labels (batch, donor, day), each with an intercept of its own. `outliers` keeps or drops rows that are far
    off given the rest of their row (`changes.far_rows`). With `spikes` "auto", cells with a value that many rows share
    and that says nothing of the row (`shapes.unmeasured`) are taken for missing and completed.

    >>> Columns(transform=("Raf=log", "Mek=none")).maps()
    {'Raf': 'log', 'Mek': 'none'}
    """

    transform: tuple[str, ...] = option((AUTO,))
    variables: tuple[str, ...] | None = option(None, none="all")
    drop: tuple[str, ...] = option(())
    drop_constant: bool = False
    thin: int = option(1, least=1)
    missing: str = option(REFUSE, among=(REFUSE, DROP, IMPUTE))
    missing_value: float | None = option(None, none="none")
    outliers: str = option(KEEP, among=(KEEP, DROP))
    spikes: str = option(AUTO, among=(KEEP, AUTO))
    block: str | None = option(None, none="none")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.maps()
        if self.missing_value is not None and self.missing == REFUSE:
            raise ConfigError(f"missing_value has no effect with missing = {REFUSE}; give {DROP} or {IMPUTE} there.")
        both = sorted(set(self.variables or ()) & set(self.drop))
        if both:
            raise ConfigError(f"variables and drop both name {quoted(both[0])}; keep one of the two.")

    def maps(self) -> str | dict[str, str]:
        """The map of all columns, or of those that are named."""
        pairs = [entry.rpartition("=") for entry in self.transform]
        for column, _, name in pairs:
            if name not in (*KINDS, AUTO):
                where = f" for {quoted(column)}" if column else ""
                raise ConfigError(f"transform is {quoted(name)}{where}; give one of {', '.join((*KINDS, AUTO))}.")
        if len(pairs) == 1 and not pairs[0][0]:
            return pairs[0][2]
        if not all(column for column, _, _ in pairs) or len({column for column, _, _ in pairs}) < len(pairs):
            what = f"transform is {quoted(','.join(self.transform))}"
            raise ConfigError(f"{what}; give one map for all columns, or COLUMN=MAP for each.")
        return {column: name for column, _, name in pairs}

    def read(self, table: Any, context: str, observational: str | None = None) -> Reading:
        """Prepare a pandas table, examine it, and transform what it holds.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"a": [1, 10, 2], "b": [0, 3, 1], "n": [1, 2, 3], "arm": ["wt", "wt", "ko"]})
        >>> Columns(transform=("a=log",), drop=("n",)).read(table, "arm", "wt").data.x.round(1).tolist()
        [[0.0, 0.0], [2.3, 3.0], [0.7, 1.0]]
        """
        notes, n_rows = [], len(table)
        labels = [context] if self.block is None else [context, self.block]
        table = preparation.with_columns(table, self.variables, self.drop, labels)
        if self.thin > 1 and context in map(str, table.columns):
            table = preparation.thinned(table, context, self.thin)
            notes.append(note("thinned", f"Every {self.thin}. row of each context is used: {len(table)} of {n_rows}."))
        if self.missing_value is not None:
            table = preparation.without_value(table, self.missing_value, labels)
        if self.missing == DROP:
            whole = preparation.complete_rows(table, labels)
            if len(whole) < len(table):
                gone, share = counted(len(table) - len(whole), "row"), f"{1 - len(whole) / len(table):.1%}"
                what = f"{gone} of {len(table)} ({share}) with missing cells are left out"
                notes.append(note("rows-left-out", f"{what}."))
            table = whole
        if self.drop_constant and (constant := preparation.constant_columns(table, labels)):
            table = preparation.with_columns(table, None, constant, labels)
            notes.append(note("constant-left-out", f"Columns with one value are left out: {listed(constant)}."))
        blocks = None
        if self.block is not None:
            table, blocks = preparation.take_blocks(table, self.block, context)
        return self._examined(examine(table, context, observational, blocks, self.missing == IMPUTE), notes)

    def _examined(self, examination: Any, notes: list[Finding]) -> Reading:
        found: Diagnosis = examination.diagnosis
        if not found.ok:
            return Reading(None, found.with_findings(notes))
        data, told = examination.data(), []
        if self.spikes == AUTO and (empty := unmeasured(data.x, data.context)).any():
            at = np.flatnonzero(empty.any(axis=0))
            values = listed([f"{data.variables[j]} = {data.x[empty[:, j], j][0]:g}" for j in at], 3)
            what = f"Values that many rows share and that say nothing of their row ({values}), {empty.mean():.1%} of"
            told.append(note("spikes", f"{what} all cells, are taken for missing and completed (not: --spikes keep)."))
            data = replace(data, x=np.where(empty, np.nan, data.x))
        data = data.transformed(self.maps())
        told += [note("transform", sentence) for sentence in data.transforms.words(data.variables)]
        if self.outliers == DROP:
            far = far_rows(data.x, data.context)
            what = f"{counted(int(far.sum()), 'row')} of {data.n_rows} ({far.mean():.1%}) are far off given the rest"
            told += [note("outliers", f"{what} of their row and are left out.")] if far.any() else []
            data = data.rows(~far)
        return Reading(data, found.with_findings([*notes, *told, *symptoms(data)]))


PLAIN = Columns(transform=(NONE,), spikes=KEEP)
"""Columns as they are: what a run did whose record says nothing of columns."""


def choose_columns(file: Path | None = None, flags: Mapping[str, Any] | None = None) -> Columns:
    """`Columns` by precedence: defaults < section [data] of a file < flags (named by their fields; None: not given).

    >>> choose_columns(flags={"drop": "a,b", "thin": None}).drop
    ('a', 'b')
    """
    given = {} if file is None else read_sections(file).get(DATA, {})
    chosen = build(
        Columns, columns_table(given), Place("the defaults" if file is None else quoted(file.name)).below(DATA)
    )
    for field, value in (flags or {}).items():
        if value is None or value is False:
            continue
        rule, flag = rules_of(Columns)[field], f"--{field.replace('_', '-')}"
        value = tuple(part.strip() for part in value.split(",") if part.strip()) if rule.many else value
        if rule.read(value) is REFUSED or value == ():
            raise ConfigError(f"{flag} is {shown(value)}; give {replace(rule, none=None).instead_of(value)}.")
        try:
            chosen = chosen.replace(**{field: value})
        except ConfigError as refusal:
            raise ConfigError(f"{flag}: {refusal}") from None
    return chosen


def columns_table(table: Table) -> Table:
    """The table of `Columns` from what a file may write: a name instead of a list, `transform` as a table by column."""
    plain = dict(table)
    maps = plain.get("transform")
    if isinstance(maps, Mapping):
        plain["transform"] = [f"{column}={name}" for column, name in maps.items()]
    for field, rule in rules_of(Columns).items():
        if rule.many and isinstance(plain.get(field), str) and plain[field] != rule.none:
            plain[field] = [plain[field]]
    return plain
