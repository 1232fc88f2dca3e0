"""From AnnData, the container of single-cell data, to a table with one row per cell and one column per gene.

Perturbations stand in a column of `obs`. Labels such as `A+B` are double perturbations, `A+ctrl` is `A`, and cells
whose label is missing or says that nobody knows are refused: they are no controls. Where the file follows the schema of
CELLxGENE (7.1), `uns["genetic_perturbations"]` says which guide is a control and which genes each guide aims at.

Of a sparse matrix only the chosen genes are made dense. AnnData is never imported here but to read a file, so that its
objects work whatever their version.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from bacadi.data.checks import Finding, find_control, is_control, is_unassigned, note, warning
from bacadi.data.contexts import ContextData
from bacadi.data.doctor import examine, which_context
from bacadi.data.text import closest, counted, listed, quoted
from bacadi.errors import ConfigError, DataError

NONE, LOG1P_CPM = "none", "log1p-cpm"
CHANGE, VARIABILITY = "change", "variability"
MOST_GENES = 1000
"""More genes than these are refused unless they are named or counted: no graph over all of them would be found."""

_SCHEMA, _SCHEMA_KEY, _SCHEMA_SEPARATOR, _POOLED = "genetic_perturbations", "genetic_perturbation_id", " || ", "control"
_SMALL_FILE = 500
_SEEN = 1_000_000

Matrix = Any
"""A NumPy array or a SciPy sparse matrix, cells × genes."""


@dataclass(frozen=True)
class CellReading:
    """How an AnnData is read: which matrix, which genes, on which scale, and what joins the parts of a label.

    `genes` is a number (the perturbed ones first, then by `ranking`), names, or None for all; `leave_out` are labels
    whose cells are not used.

    >>> CellReading(genes=30).separator
    '+'
    """

    layer: str | None = None
    genes: int | tuple[str, ...] | None = None
    normalize: str = NONE
    separator: str = "+"
    leave_out: tuple[str, ...] = ()
    ranking: str = CHANGE


class Tabulated(NamedTuple):
    """A table of cells, the control's label (None: there is none), what each context aims at, and what to say of it."""

    table: pd.DataFrame
    control: str | None
    aims: dict[str, tuple[str, ...]]
    findings: list[Finding]


def from_anndata(
    adata: Any,
    perturbation_key: str | None = None,
    control: str | None = None,
    layer: str | None = None,
    genes: int | Sequence[str] | None = None,
    separator: str = "+",
) -> ContextData:
    """Read an AnnData whose `obs[perturbation_key]` names the perturbation of each cell; values stay as they are.

    Args:
        adata: cells × genes.
        perturbation_key: the column of `obs` with the labels.
        control: the label of the control; without it the usual ones (control, ctrl, non-targeting, NT, DMSO, …) are
            looked for, and exactly one has to be there. "" says that there is none.
        layer: the matrix of `layers` to read in place of `X`.
        genes: names, or a number: the perturbed genes first, then those that change most against the control.
        separator: what joins the parts of a label: `A+B` aims at A and B, `A+ctrl` is `A`.

    What the labels aim at becomes `ContextData.aims`, which `--targets known` and `known-with-off-targets` read.
    `bacadi.prepare` also normalises counts and transforms columns, as the command line does.
    """
    found = tabulate(adata, perturbation_key, control, CellReading(layer, _wanted(genes), separator=separator))
    data = examine(found.table, str(perturbation_key), found.control).data()
    return replace(data, aims={label: aim for label, aim in found.aims.items() if label in data.contexts})


def _wanted(genes: int | Sequence[str] | None) -> int | tuple[str, ...] | None:
    return genes if genes is None or isinstance(genes, int) else tuple(map(str, genes))


def read_h5ad(path: Path) -> Any:
    """The AnnData of a file."""
    try:
        import anndata
    except ImportError:
        remedy = "install it with: pip install 'bacadi[anndata]'"
        raise DataError(f"Reading {quoted(path.name)} needs anndata; {remedy}.") from None
    if not path.is_file():
        raise DataError(f"There is no file '{path}'; check the path.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of names that repeat: `tabulate` refuses them
            return anndata.read_h5ad(path)
    except Exception as failure:  # damage can surface as almost any error of HDF5 or anndata
        what = f"is not a readable .h5ad file ({type(failure).__name__})"
        raise DataError(f"The file {quoted(path.name)} {what}; write it again with adata.write_h5ad.") from None


def is_anndata(thing: Any) -> bool:
    """Whether something has what is read of an AnnData."""
    return all(hasattr(thing, name) for name in ("obs", "var_names", "X", "layers", "uns"))


def tabulate(
    adata: Any, key: str | None, control: str | None, cells: CellReading, columns: Sequence[str] = ()
) -> Tabulated:
    """The chosen genes of all cells as a table, with the labels in a column `key` and further `columns` of `obs`.

    >>> from types import SimpleNamespace
    >>> obs = pd.DataFrame({"guide": ["ctrl", "ctrl", "g1+ctrl", "g1+g2"]})
    >>> adata = SimpleNamespace(obs=obs, var_names=pd.Index(["g1", "g2"]), X=np.eye(4)[:, :2], layers={}, uns={})
    >>> found = tabulate(adata, "guide", None, CellReading())
    >>> found.table["guide"].tolist(), found.control, found.aims
    (['ctrl', 'ctrl', 'g1', 'g1+g2'], 'ctrl', {'g1': ('g1',), 'g1+g2': ('g1', 'g2')})
    """
    if not is_anndata(adata):
        raise DataError(f"The data are a {type(adata).__name__} and not an AnnData; from_dataframe reads tables.")
    if key is None:
        raise DataError(which_context(adata.obs, "perturbation_key= (--context COLUMN)"))
    for name in (key, *columns):
        if name not in adata.obs.columns:
            near, every = closest(name, list(map(str, adata.obs.columns))), listed(adata.obs.columns, 10)
            raise DataError(f"There is no column {quoted(name)} in obs{near}; its columns are {every}.")
    labels, kept = _labels(adata.obs[key], cells.leave_out)
    read = _perturbations(labels, key, control, cells.separator, _guides(adata, key))
    names = [str(name) for name in adata.var_names]
    aims = {label: tuple(aim) for label, aim in read.aims(names).items()}
    matrix = _matrix(adata, cells.layer)
    if not kept.all():
        matrix = matrix[np.flatnonzero(kept)]
    matrix, on_scale = _on_scale(matrix, cells, len(names))
    at, on_genes = _chosen(matrix, names, read, aims, cells)
    table = pd.DataFrame(_dense(matrix, at), columns=[names[j] for j in at], index=adata.obs.index[kept])
    table[key] = read.labels
    for name in columns:
        table[name] = adata.obs[name].to_numpy()[kept]
    variables = set(table.columns)
    reached = {label: aim for label, aim in aims.items() if set(aim) <= variables}
    return Tabulated(table, read.control, reached, [*read.findings, *on_scale, *on_genes])


# ------------------------------------------------------------------------------------------------------------ labels


class _Guides(NamedTuple):
    """What `uns["genetic_perturbations"]` says: guides that are controls, and ids and symbols that each guide hits."""

    controls: frozenset[str]
    features: dict[str, tuple[tuple[str, str], ...]]


def _guides(adata: Any, key: str) -> _Guides | None:
    stated = adata.uns.get(_SCHEMA)
    if key != _SCHEMA_KEY or not isinstance(stated, Mapping):
        return None
    controls = frozenset(guide for guide, about in stated.items() if about.get("role") == "control")
    features = {guide: about.get("target_features", {}) for guide, about in stated.items()}
    return _Guides(
        controls,
        {
            guide: tuple((str(gene), str(symbol)) for gene, symbol in genes.items())
            for guide, genes in features.items()
            if isinstance(genes, Mapping)
        },
    )


class _Perturbations(NamedTuple):
    """The label of every cell as it will be used, its parts, the control and what was found on the way."""

    labels: list[str]
    parts: dict[str, tuple[str, ...]]
    control: str | None
    guides: _Guides | None
    findings: list[Finding]

    def aims(self, genes: list[str]) -> dict[str, list[str]]:
        """The genes that each label names or whose guides hit them, where all its parts are among the genes."""
        known, aims = set(genes), {}
        for label, parts in self.parts.items():
            hit = [self._hit(part, known) for part in parts]
            if label != self.control and hit and all(hit):
                aims[label] = list(dict.fromkeys(gene for one in hit for gene in one))
        return aims

    def _hit(self, part: str, known: set[str]) -> list[str]:
        if self.guides is None or part not in self.guides.features:
            return [part] if part in known else []
        named = [next((name for name in pair if name in known), None) for pair in self.guides.features[part]]
        return [name for name in named if name is not None]


def _labels(column: pd.Series, leave_out: Sequence[str]) -> tuple[list[str], Bool[np.ndarray, " n"]]:
    """The labels of the cells that are used as text, and which these are; a missing label goes by `nan`."""
    missing = column.isna().to_numpy(dtype=bool)
    texts = np.array(["nan" if gone else str(label).strip() for label, gone in zip(column, missing, strict=True)])
    for label in leave_out:
        if label not in texts:
            raise ConfigError(f"No cell has the label {quoted(label)} that is to be left out{_near(label, texts)}.")
    kept = ~np.isin(texts, list(leave_out))
    return texts[kept].tolist(), kept


def _near(label: str, texts: np.ndarray) -> str:
    return f"{closest(label, sorted(set(texts.tolist())))}; leave that option out or name one that is there"


def _perturbations(
    labels: list[str], key: str, control: str | None, separator: str, guides: _Guides | None
) -> _Perturbations:
    counts, findings = Counter(labels), list[Finding]()
    separator = separator if guides is None else _SCHEMA_SEPARATOR
    parts = {label: tuple(part.strip() for part in label.split(separator)) for label in counts}
    renamed = {label: label for label in counts}
    if guides is not None and control is None:
        stated = [label for label in counts if set(parts[label]) <= guides.controls]
        renamed |= dict.fromkeys(stated, _POOLED)
        parts |= {label: tuple(p for p in parts[label] if p not in guides.controls) for label in counts}
        control = _POOLED if stated else None
        if stated:
            findings.append(
                note("control", f"The control is made of the guides whose role is control: {listed(stated)}.")
            )
    if control is None:
        control = _found(counts, key, findings)
    _refuse_unassigned(counts, key, control)
    for label in counts:
        if renamed[label] != label or label == control:
            continue
        own = tuple(p for p in parts[label] if p != control and not (len(parts[label]) > 1 and is_control(p)))
        parts[label] = own
        renamed[label] = separator.join(own) if own else str(control or label)
    merged = sorted({label for label in counts if renamed[label] != label and renamed[label] not in (control, _POOLED)})
    if merged:
        what = f"{counted(len(merged), 'label')} with a part that is a control ({listed(merged, 3)})"
        findings.append(note("labels", f"{what} go by their other part."))
    used = {renamed[label]: own for label, own in parts.items()}
    return _Perturbations([renamed[label] for label in labels], used, control or None, guides, findings)


def _found(counts: Counter[str], key: str, findings: list[Finding]) -> str:
    """The one usual label of a control, or a refusal."""
    control = find_control(counts)
    if control is None:
        usual = [label for label in counts if is_control(label)]
        which = f"more than one ({listed(usual)})" if usual else "none"
        remedy = "name it with control= (--observational), or give an empty text if there is no control"
        raise DataError(
            f"Of the labels in obs[{quoted(key)}] ({listed(counts, 4)}) {which} is a usual one for a control; {remedy}."
        )
    findings.append(note("control", f"The control is {quoted(control)}, with {counts[control]} cells."))
    return control


def _refuse_unassigned(counts: Counter[str], key: str, control: str | None) -> None:
    odd = [label for label in counts if is_unassigned(label) and label != control]
    if odd:
        n, some = sum(counts[label] for label in odd), ",".join(label or "''" for label in odd)
        what = f"{counted(n, 'cell')} of {counts.total()} have no perturbation in obs[{quoted(key)}] ({listed(odd)})"
        remedy = f"leave them out with --drop-contexts {some} (in Python: adata[~adata.obs[key].isin([…])])"
        raise DataError(f"{what} and are no controls; {remedy}.")


# ------------------------------------------------------------------------------------------------------------ matrix


def _matrix(adata: Any, layer: str | None) -> Matrix:
    layers = [str(name) for name in adata.layers if name is not None]  # since anndata 0.13 None is X
    if layer is not None and layer not in layers:
        every = f"there are {listed(layers)}" if layers else "there is only X, so leave it out"
        raise DataError(f"There is no layer {quoted(layer)}{closest(layer, layers)}; {every}.")
    matrix = adata.X if layer is None else adata.layers[layer]
    if matrix is None:
        raise DataError(f"The AnnData has no X; name one of its layers ({listed(layers)}).")
    if getattr(adata, "isbacked", False) and layer is None:
        matrix = adata.to_memory().X
    if hasattr(matrix, "tocsr"):
        return matrix.tocsr()
    dense = np.asarray(matrix)
    if dense.dtype.kind not in "biuf":
        kind = "text" if dense.dtype.kind in "OSUT" else str(dense.dtype)
        raise DataError(f"The matrix holds {kind} and no numbers; convert it with adata.X = adata.X.astype(float).")
    return dense


def _values(matrix: Matrix) -> np.ndarray:
    """Some of the values, without most of the zeros of a sparse matrix."""
    values = matrix.data if hasattr(matrix, "tocsr") else matrix[: max(1, _SEEN // max(matrix.shape[1], 1))].ravel()
    return values[:_SEEN]


def is_counts(matrix: Matrix) -> bool:
    """Whether a matrix holds raw counts: whole numbers from 0 on, not only 0 and 1.

    >>> is_counts(np.array([[0, 3], [1, 0]])), is_counts(np.array([[0.0, 1.1]])), is_counts(np.array([[0, 1]]))
    (True, False, False)
    """
    values = _values(matrix)
    return bool(len(values) and values.min() >= 0 and values.max() > 1 and (values == np.rint(values)).all())


def _on_scale(matrix: Matrix, cells: CellReading, n_genes: int) -> tuple[Matrix, list[Finding]]:
    """The matrix on the scale that is asked for, and a sentence on it; raw counts that stay so are warned about."""
    counts = is_counts(matrix)
    if cells.normalize == NONE:
        if not counts:
            return matrix, []
        what = "The matrix holds raw counts, whose noise is not Gaussian and which grow with the depth of a cell"
        return matrix, [warning("raw-counts", f"{what}; normalise them with --normalize {LOG1P_CPM}.")]
    if not counts:
        values = _values(matrix)
        odd = values[(values < 0) | (values != np.rint(values))]
        which = f"the value {odd[0]:.4g}" if len(odd) else "nothing above 1"
        remedy = "leave it out, or name the layer with the counts (--layer)"
        raise DataError(f"--normalize {LOG1P_CPM} is for raw counts and the matrix holds {which}; {remedy}.")
    totals = np.asarray(matrix.sum(axis=1), dtype=float).ravel()
    if (empty := int((totals == 0).sum())) > 0:
        raise DataError(f"{counted(empty, 'cell')} of {len(totals)} have no count at all; filter them out first.")
    some = f"all {n_genes} genes" if n_genes >= _SMALL_FILE else f"the {n_genes} genes of the file, which are few"
    what = f"Counts are divided by the total of their cell over {some}, times a million, and log(1 + x) is taken"
    message = f"{what} ({LOG1P_CPM})."
    finding = note("normalized", message) if n_genes >= _SMALL_FILE else warning("normalized", message)
    return log1p_cpm(matrix, totals), [finding]


def log1p_cpm(matrix: Matrix, totals: Float[np.ndarray, " n"]) -> Matrix:
    """log(1 + 10⁶ x / total of the cell), as sparse as the matrix is.

    >>> log1p_cpm(np.array([[1.0, 3.0]]), np.array([4.0])).round(2).tolist()
    [[12.43, 13.53]]
    """
    if not hasattr(matrix, "tocsr"):
        return np.log1p(matrix * (1e6 / totals)[:, None])
    scaled = matrix.astype(np.float64)  # a copy
    scaled.data = np.log1p(scaled.data * np.repeat(1e6 / totals, np.diff(scaled.indptr)))
    return scaled


def _dense(matrix: Matrix, at: list[int]) -> Float[np.ndarray, "n d"]:
    chosen = matrix[:, at]
    return np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=np.float64)


# ------------------------------------------------------------------------------------------------------------- genes


def select_genes(
    adata: Any, n: int, perturbation_key: str, control: str | None = None, by: str = CHANGE, layer: str | None = None
) -> list[str]:
    """The names of n genes: the perturbed ones first, then the others by change against the control or variability.

    Change is the largest |t| of a difference between the mean of a context and that of the control, with the pooled
    variance within contexts; variability is the variance over all cells. Raw counts are ranked as log(1 + CPM).

    >>> from types import SimpleNamespace
    >>> obs, genes = pd.DataFrame({"guide": ["ctrl", "ctrl", "g2", "g2"]}), pd.Index(["g1", "g2", "g3"])
    >>> x = np.array([[0.0, 1.0, 0.1], [0.1, 1.1, 0.3], [0.1, 0.2, 5.0], [0.0, 0.1, 5.1]])
    >>> select_genes(SimpleNamespace(obs=obs, var_names=genes, X=x, layers={}, uns={}), 2, "guide")
    ['g2', 'g3']
    """
    found = tabulate(adata, perturbation_key, control, CellReading(layer, n, ranking=by))
    return [str(name) for name in found.table.columns if name != perturbation_key]


def _chosen(
    matrix: Matrix, names: list[str], read: _Perturbations, aims: dict[str, tuple[str, ...]], cells: CellReading
) -> tuple[list[int], list[Finding]]:
    """The columns of the genes that are wanted, and a sentence on how they were picked."""
    if isinstance(cells.genes, tuple):
        for name in cells.genes:
            if name not in names:
                raise DataError(f"There is no gene {quoted(name)}{closest(name, names)}; name one of var_names.")
        _refuse_duplicates([name for name in names if name in set(cells.genes)])
        return [names.index(name) for name in dict.fromkeys(cells.genes)], []
    _refuse_duplicates(names)
    if cells.genes is None:
        if len(names) > MOST_GENES:
            remedy = "say how many (--genes 30: the perturbed ones first) or which (--variables a,b,…)"
            raise DataError(f"There are {len(names)} genes, far more than a graph can be inferred for; {remedy}.")
        return list(range(len(names))), []
    if cells.genes < 2:
        raise ConfigError(f"{cells.genes} genes are asked for; a graph needs at least 2.")
    aimed = {gene for aim in aims.values() for gene in aim}
    score = _score(matrix, read, cells.ranking)
    order = sorted(range(len(names)), key=lambda j: (names[j] not in aimed, -score[j], names[j]))
    at = order[: cells.genes]
    first, by = (
        min(len(aimed), len(at)),
        {CHANGE: "that change most against the control", VARIABILITY: "that vary most"},
    )
    what = f"{len(at)} of {counted(len(names), 'gene')} are used: {first} that are perturbed"
    rest = f", then {len(at) - first} {by[cells.ranking]}" if len(at) > first else ""
    left = f"; {len(aimed) - first} perturbed ones are left out" if len(aimed) > first else ""
    return at, [note("genes", f"{what}{rest}{left}.")]


def _refuse_duplicates(names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        which = (
            f"{counted(len(twice), 'gene name')} of var_names {'is' if len(twice) == 1 else 'are'} there more than once"
        )
        raise DataError(f"{which} ({listed(twice, 3)}); call adata.var_names_make_unique() first, or rename them.")


def _score(matrix: Matrix, read: _Perturbations, ranking: str) -> Float[np.ndarray, " g"]:
    if ranking not in (CHANGE, VARIABILITY):
        raise ConfigError(f"Genes are ranked by {quoted(ranking)}; give {CHANGE} or {VARIABILITY}.")
    if is_counts(matrix):
        totals = np.asarray(matrix.sum(axis=1), dtype=float).ravel()
        matrix = log1p_cpm(matrix, np.maximum(totals, 1.0))
    order = list(dict.fromkeys(read.labels))
    number = np.array([order.index(label) for label in read.labels])
    n, mean = _means(matrix, number, len(order))
    square = matrix.multiply(matrix) if hasattr(matrix, "multiply") else matrix**2
    second = np.asarray(square.mean(axis=0)).ravel()
    overall = n @ mean / n.sum()
    if ranking == VARIABILITY:
        return second - overall**2
    within = np.maximum(second - n @ mean**2 / n.sum(), 0.0) + 1e-12
    reference, of_reference = overall, n.sum()
    if read.control in order:
        at = order.index(str(read.control))
        reference, of_reference = mean[at], n[at]
    t = (mean - reference) / np.sqrt(within * (1 / n[:, None] + 1 / of_reference))
    return np.abs(t).max(axis=0)


def _means(
    matrix: Matrix, number: Int[np.ndarray, " n"], k: int
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k g"]]:
    """Cells and means of every group."""
    sums = np.stack(
        [np.asarray(matrix[np.flatnonzero(number == i)].sum(axis=0), dtype=float).ravel() for i in range(k)]
    )
    n = np.bincount(number, minlength=k).astype(float)
    return n, sums / n[:, None]
