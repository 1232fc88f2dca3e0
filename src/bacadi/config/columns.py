"""`Columns`: what is made of a table before a model sees it, as one choice (section [data] of a file, flags).

`prepare` is the way in for Python, `Columns.open` for the command line; both read files, tables and AnnData alike.
"""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bacadi.config.choices import REFUSED, Choice, option, rules_of, shown
from bacadi.config.codec import Place, Table, build
from bacadi.config.layers import DATA, read_sections
from bacadi.data import preparation
from bacadi.data.annotated import LOG1P_CPM, CellReading, is_anndata, read_h5ad, tabulate
from bacadi.data.changes import far_rows
from bacadi.data.checks import Finding, Severity, find_control, note
from bacadi.data.contexts import ContextData
from bacadi.data.doctor import Diagnosis, examine, which_context
from bacadi.data.shapes import unmeasured
from bacadi.data.symptoms import symptoms
from bacadi.data.tables import SEPARATORS, as_frame, ending_of, read_table
from bacadi.data.text import counted, listed, quoted
from bacadi.data.transforms import AUTO, KINDS, NONE
from bacadi.errors import ConfigError, DataError

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
    and that says nothing of the row (`shapes.unmeasured`) are taken for missing and completed. Rows of `drop_contexts`
    are not used; a missing label goes by `nan` there.

    `sep` and `decimal` are for text files. `layer`, `genes` (how many: the perturbed ones first, then those that change
    most), `normalize` and `label_separator` (`A+B` aims at A and B) are for AnnData (`data.annotated`).

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
    drop_contexts: tuple[str, ...] = option(())
    sep: str | None = option(None, none="auto", among=tuple(SEPARATORS))
    decimal: str | None = option(None, none="auto", among=(".", ","))
    layer: str | None = option(None, none="X")
    genes: int | None = option(None, none="all", least=2)
    normalize: str = option(NONE, among=(NONE, LOG1P_CPM))
    label_separator: str = "+"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.maps()
        if self.missing_value is not None and self.missing == REFUSE:
            raise ConfigError(f"missing_value has no effect with missing = {REFUSE}; give {DROP} or {IMPUTE} there.")
        both = sorted(set(self.variables or ()) & set(self.drop))
        if both:
            raise ConfigError(f"variables and drop both name {quoted(both[0])}; keep one of the two.")
        if self.genes is not None and self.variables is not None:
            raise ConfigError("genes says how many and variables says which; keep one of the two.")
        if not self.label_separator.strip():
            raise ConfigError("label_separator is blank; give what joins the parts of a label, such as '+'.")

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

    def open(self, source: Any, context: str | None, observational: str | None = None) -> Reading:
        """Read a file (a path), a pandas or polars table or an AnnData, then `read` what it holds.

        Without `observational` the usual labels of a control are looked for; "" says that there is none.
        """
        if isinstance(source, str | Path) and ending_of(Path(source))[0] == ".h5ad":
            source = read_h5ad(Path(source))
        if not is_anndata(source):
            self._refuse_idle()
            labels = (context, self.block)
            is_file = isinstance(source, str | Path)
            table = read_table(source, *labels, self.sep, self.decimal) if is_file else as_frame(source)
            if context is None:
                raise ConfigError(which_context(table, "--context COLUMN"))
            return self.read(table, context, observational)
        if self.sep is not None or self.decimal is not None:
            raise ConfigError("--sep and --decimal are for text and the data are an AnnData; leave them out.")
        wanted = self.genes if self.variables is None else self.variables
        cells = CellReading(self.layer, wanted, self.normalize, self.label_separator, self.drop_contexts)
        found = tabulate(source, context, observational, cells, () if self.block is None else (self.block,))
        columns = self.replace(drop_contexts=())
        data, diagnosis = columns.read(found.table, str(context), found.control or "")
        if data is not None:
            data = replace(data, aims={k: aim for k, aim in found.aims.items() if set(aim) <= set(data.variables)})
        return Reading(data, diagnosis.with_findings(found.findings))

    def _refuse_idle(self) -> None:
        """What is for AnnData has no effect on a table."""
        given = {"layer": self.layer, "genes": self.genes, "normalize": None if self.normalize == NONE else 1}
        for name, value in given.items():
            if value is not None:
                remedy = {"genes": "--variables names columns", "normalize": "--transform log1p is there for tables"}
                raise ConfigError(f"--{name} is for AnnData (.h5ad); {remedy.get(name, 'leave it out')}.")

    def read(self, table: Any, context: str, observational: str | None = None) -> Reading:
        """Prepare a pandas table, examine it, and transform what it holds; `observational` is as in `open`.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"a": [1, 10, 2], "b": [0, 3, 1], "n": [1, 2, 3], "arm": ["wt", "wt", "ko"]})
        >>> Columns(transform=("a=log",), drop=("n",)).read(table, "arm", "wt").data.x.round(1).tolist()
        [[0.0, 0.0], [2.3, 3.0], [0.7, 1.0]]
        """
        if self.drop_contexts:
            table = preparation.without_contexts(table, context, self.drop_contexts)
        notes, n_rows = [], len(table)
        if observational is None and (control := _control(table, context)) is not None:
            observational, what = control, f"Context {quoted(control)} is taken for the untouched one"
            notes.append(note("observational", f"{what}; --observational names another, or '' for none."))
        observational = observational or None
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


def _control(table: Any, context: str) -> str | None:
    names = [str(name) for name in table.columns]
    if names.count(context) != 1:
        return None
    column = table.iloc[:, names.index(context)]
    return find_control(map(str, column[~column.isna()].unique()))


PLAIN = Columns(transform=(NONE,), spikes=KEEP)
"""Columns as they are: what a run did whose record says nothing of columns."""


def prepare(source: Any, context: str | None = None, observational: str | None = None, **options: Any) -> ContextData:
    """Data for `fit`, prepared as the command line prepares them: columns on a scale on which their noise is near
    Gaussian, values that stand for missing ones recognised, the control found by its usual labels.

    What the doctor warns of becomes a Python warning; an error is refused.

    Args:
        source: a path (.csv, .tsv, .txt, .parquet, .xlsx, .h5ad), a pandas or polars table, or an AnnData.
        context: the column with the context of each row (a column of `obs` of an AnnData).
        observational: the label of the untouched context; None looks for a usual one, "" says that there is none.
        options: fields of `Columns`: transform="log", drop=("n",), genes=30, normalize="log1p-cpm", ….

    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": [1.0, 2.5, 3.0, 9.5], "b": [0.1, 3.2, 1.7, 2.9], "arm": ["wt", "wt", "ko", "ko"]})
    >>> prepare(table, "arm")
    ContextData(4 rows, 2 variables; wt (observational): 2, ko: 2)
    """
    data, diagnosis = as_columns(options).open(source, context, observational)
    if data is None:
        raise DataError(diagnosis.of(Severity.ERROR)[0].message)
    for finding in diagnosis.of(Severity.WARNING):
        warnings.warn(finding.message, stacklevel=2)
    return data


def as_columns(options: Mapping[str, Any]) -> Columns:
    """`Columns` from options in Python: a name may stand for a list of one, a mapping for the transforms of columns.

    >>> as_columns({"transform": {"a": "log"}, "drop": "n"}).drop
    ('n',)
    """
    return build(Columns, columns_table(dict(options)), Place("the options"))


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
        if rule.many and isinstance(plain.get(field), tuple):
            plain[field] = list(plain[field])
    return plain
