"""Posterior files: netCDF 4 groups in the layout of ArviZ, readable by anything that reads netCDF 4.

Group `posterior` has `graph` (chain, draw, source, target), `intervention_target` (chain, draw, context, node) and the
parameters; `sample_stats` has `log_weight` (chain, draw) and diagnostics; `constant_data` has what was given. The
attributes of the file are `Posterior.attrs` (values without a netCDF type as JSON text, listed in `json_attributes`),
`created_by`, `schema_version`, `observational` and a SHA-256 `checksum` of the content. Nothing is pickled: reading a
file runs no code of it.

Of more than 200 variables an array of draws that is mostly zeros is written by its entries: `graph_number` (chain,
draw) counts those of each draw, `graph_place` and `graph_value` have their places in the array of the draw and their
values, one draw after the other. `read` gives the same arrays back. Such files have version 3 of the schema.

Version 2 of the schema calls the axis of variables `node`. Version 1, which is still read, called it `variable`, the
name of the axis along which `xarray.Dataset.to_array` stacks and therefore out of bounds for `arviz.summary`.
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bacadi.data.labelled import Labelled
from bacadi.data.text import replacing
from bacadi.errors import ConfigError, StoreError

SCHEMA_VERSION = 3
MOST_DENSE, MOST_ENTRIES = 200, 0.1
"""Variables up to which arrays are written whole, and the share of entries up to which they are not beyond that."""

_NUMBER, _PLACE, _VALUE = "_number", "_place", "_value"
GROUPS = ("posterior", "sample_stats", "constant_data")
_CREATED_BY = "bacadi"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_OWN_ATTRS = ("created_by", "schema_version", "json_attributes", "observational", "checksum")


class FileContent(NamedTuple):
    """What a file holds: names, arrays by group and name, attributes."""

    variables: tuple[str, ...]
    contexts: tuple[str, ...]
    observational: str | None
    groups: dict[str, dict[str, Labelled]]
    attrs: dict[str, Any]


def write(path: str | Path, content: FileContent) -> None:
    """Write a file with the three groups of `GROUPS`; it appears whole or not at all."""
    import h5netcdf

    attrs = _encoded_attrs(content)
    attrs["checksum"] = _checksum(content, attrs)
    labels = _axis_labels(content)
    # Made in memory: where a disk is full, HDF5 may end the process while it closes the file.
    memory = io.BytesIO()
    with h5netcdf.File(memory, "w") as file:
        file.attrs.update(attrs)
        for name, entries in content.groups.items():
            group = file.create_group(name)
            if name == "posterior":
                group.attrs["inference_library"] = _CREATED_BY
            _write_group(group, entries, labels)
    with replacing(path) as temporary:
        temporary.write_bytes(memory.getbuffer())


def to_datatree(content: FileContent) -> Any:
    """What `write` writes as an `xarray.DataTree`: a group each, axes with the names of variables and contexts."""
    try:
        from xarray import DataArray, Dataset, DataTree
    except ImportError:
        raise ConfigError("A DataTree needs xarray (2024.10 or newer); install it with: pip install xarray.") from None
    labels = _axis_labels(content)
    groups = {}
    for group, entries in content.groups.items():
        arrays = {name: DataArray(entry.values, dims=entry.full_dims) for name, entry in entries.items()}
        used = {dim for array in arrays.values() for dim in array.dims}
        groups[group] = Dataset(arrays, coords={dim: names for dim, names in labels.items() if dim in used})
    tree = DataTree.from_dict(groups)
    tree.attrs.update(_encoded_attrs(content))
    return tree


def _axis_labels(content: FileContent) -> dict[str, np.ndarray]:
    """The labels of the axes that have some."""
    n_chains, n_draws = content.groups["sample_stats"]["log_weight"].values.shape
    variables, contexts = (np.array(names, dtype=object) for names in (content.variables, content.contexts))
    labels = dict.fromkeys(("source", "target", "node"), variables) | {"context": contexts}
    return labels | {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}


def _write_group(group: Any, entries: dict[str, Labelled], labels: dict[str, np.ndarray]) -> None:
    """Write arrays with the labels of their axes in the conventions of xarray, which reads the file in ArviZ.

    Zeros and ones are compressed; numbers that hardly compress stay plain. A truth value is a byte that says so.
    """
    import h5py

    sparse = {name: entry for name, entry in entries.items() if _is_sparse(entry)}
    used = {dim for entry in entries.values() for dim in entry.full_dims}
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name, entry in entries.items():
        values = np.asarray(entry.values)
        arrays |= _entries(name, values) if name in sparse else {name: (entry.full_dims, values)}
    arrays |= {dim: ((dim,), label) for dim, label in labels.items() if dim in used}
    group.dimensions = {dim: n for dims, values in arrays.values() for dim, n in zip(dims, values.shape, strict=True)}
    for name, (dims, values) in arrays.items():
        kind, compress = values.dtype.kind, values.ndim > 0 and values.size > 0 and values.dtype.kind in "biu"
        dtype = {"O": h5py.string_dtype(), "b": np.int8}.get(kind, values.dtype)
        how = {"compression": "gzip", "compression_opts": 4, "shuffle": True} if compress else {}
        variable = group.create_variable(name, dims, dtype, **how)
        if kind == "b":
            variable.attrs["dtype"] = "bool"
        variable[...] = values
    for name, entry in sparse.items():
        about = {"dims": entry.full_dims, "shape": entry.values.shape, "dtype": np.asarray(entry.values).dtype.str}
        group.variables[name + _NUMBER].attrs["sparse"] = json.dumps(about)


def _is_sparse(entry: Labelled) -> bool:
    """Whether an array is written by its entries."""
    values = np.asarray(entry.values)
    if not entry.per_draw or values.ndim < 4 or values.shape[-1] <= MOST_DENSE or values.dtype.kind not in "iuf":
        return False
    return bool(np.count_nonzero(_bits(values)) <= MOST_ENTRIES * values.size)


def _bits(values: np.ndarray) -> np.ndarray:
    """The bits of numbers: those of -0 are not 0."""
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def _entries(name: str, values: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The entries of a sparse array as arrays with the names of their axes."""
    flat = values.reshape(*values.shape[:2], int(np.prod(values.shape[2:])))
    numbers, places, found = np.zeros(values.shape[:2], np.int64), [], []
    for at in np.ndindex(*values.shape[:2]):
        place = np.flatnonzero(_bits(flat[at]))
        numbers[at] = len(place)
        places.append(place.astype(np.int32))
        found.append(flat[at][place])
    axis = (name + "_entry",)
    parts = {_PLACE: (axis, np.concatenate(places)), _VALUE: (axis, np.concatenate(found))}
    return {name + _NUMBER: (("chain", "draw"), numbers)} | {name + end: part for end, part in parts.items()}


def _whole(stored: Any, name: str, about: dict[str, Any]) -> np.ndarray:
    """The array of which a group holds the entries."""
    numbers, places, found = (stored[name + end][...] for end in (_NUMBER, _PLACE, _VALUE))
    values = np.zeros(about["shape"], about["dtype"])
    flat = values.reshape(numbers.size, int(np.prod(values.shape[2:])))
    ends = np.cumsum(numbers.ravel())
    for draw, (first, last) in enumerate(zip(ends - numbers.ravel(), ends, strict=True)):
        flat[draw, places[first:last]] = found[first:last]
    return values


def read(path: str | Path) -> FileContent:
    """Read a file of this or an older schema.

    Raises `StoreError` for a file that is missing, foreign, newer than this program, damaged or changed.
    """
    import h5netcdf
    import h5py

    path = Path(path)
    _check_signature(path)
    try:
        # HDF5 itself looks first: a truncated file makes h5netcdf print a traceback while it is cleaned up.
        with h5py.File(path, "r") as file:
            _check_ours(path, dict(file.attrs))
        with h5netcdf.File(path, "r", decode_vlen_strings=True) as file:
            attrs = {name: _plain(value) for name, value in file.attrs.items()}
            content = _content(file, attrs)
        intact = attrs.pop("checksum") == _checksum(content, attrs)
    except StoreError:
        raise
    except Exception as error:  # Damage can surface as almost any error of HDF5 or NumPy.
        raise StoreError(
            f"'{path}' is damaged and cannot be read ({type(error).__name__}); run the fit again or restore the file."
        ) from error
    if not intact:
        raise StoreError(
            f"'{path}' was damaged or changed by another program: its content does not match its checksum; "
            "run the fit again or restore the file."
        )
    return content


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _content(file: Any, attrs: dict[str, Any]) -> FileContent:
    """Take an open file apart; `attrs` are its attributes as stored."""
    groups: dict[str, dict[str, Labelled]] = {group: {} for group in GROUPS}
    for group, entries in groups.items():
        arrays, parts = file[group].variables, set[str]()
        for name, stored in arrays.items():
            if name in stored.dimensions or name in parts:  # the labels of an axis, or an array that was read
                continue
            if "sparse" in stored.attrs:
                about, whole = json.loads(stored.attrs["sparse"]), name.removesuffix(_NUMBER)
                entries[whole] = Labelled(_whole(arrays, whole, about), tuple(about["dims"][2:]))
                parts |= {whole + _PLACE, whole + _VALUE}
                continue
            dims = tuple("node" if dim == "variable" else dim for dim in stored.dimensions)  # `variable` in version 1
            values = np.asarray(stored[...], bool if stored.attrs.get("dtype") == "bool" else None)
            entries[name] = Labelled(values, dims[2:] if dims[:2] == ("chain", "draw") else dims)
    variables, contexts = (tuple(map(str, file["posterior"][dim][...])) for dim in ("source", "context"))
    as_json = json.loads(attrs["json_attributes"])
    given = {name: value for name, value in attrs.items() if name not in _OWN_ATTRS}
    decoded = {name: json.loads(value) if name in as_json else value for name, value in given.items()}
    return FileContent(variables, contexts, attrs.get("observational"), groups, decoded)


def _encoded_attrs(content: FileContent) -> dict[str, Any]:
    """Attributes as netCDF stores them, with those of the store."""
    if taken := set(_OWN_ATTRS) & set(content.attrs):
        raise ValueError(f"The attribute '{sorted(taken)[0]}' is written by the store; give it another name.")
    as_json = [name for name, value in content.attrs.items() if not _has_netcdf_type(value)]
    sparse = any(_is_sparse(entry) for entries in content.groups.values() for entry in entries.values())
    version = SCHEMA_VERSION if sparse else 2
    attrs = {"created_by": _CREATED_BY, "schema_version": version, "json_attributes": json.dumps(as_json)}
    if content.observational is not None:
        attrs["observational"] = content.observational
    return attrs | {name: json.dumps(value) if name in as_json else value for name, value in content.attrs.items()}


def _has_netcdf_type(value: Any) -> bool:
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool) and abs(int(value)) < 2**63
    return isinstance(value, float | np.floating) or (isinstance(value, str) and value != "")


def _checksum(content: FileContent, attrs: dict[str, Any]) -> str:
    """Hash arrays, axes, names and encoded attributes, so that one flipped bit anywhere in them shows."""
    labels = [content.variables, content.contexts, sorted(attrs.items())]
    state = hashlib.sha256(json.dumps(labels, default=_plain).encode())
    node = "variable" if attrs["schema_version"] == 1 else "node"
    for group, entries in content.groups.items():
        for name, entry in sorted(entries.items()):
            values = np.ascontiguousarray(entry.values)
            dims = [node if dim == "node" else dim for dim in entry.full_dims]
            header = [group, name, dims, values.dtype.newbyteorder("=").str, values.shape]
            state.update(json.dumps(header).encode())
            state.update(values.tobytes())
    return state.hexdigest()


def _check_signature(path: Path) -> None:
    if not path.exists():
        raise StoreError(f"There is no file '{path}'; give the posterior.nc that a fit wrote.")
    if path.is_dir():
        raise StoreError(f"'{path}' is a folder; give the posterior.nc in it.")
    try:
        with path.open("rb") as file:
            start = file.read(len(_HDF5))
    except OSError as error:
        raise StoreError(f"'{path}' cannot be read ({error.strerror}); check its permissions.") from error
    if start != _HDF5:
        kind = "a netCDF 3 file" if start.startswith(b"CDF") else "no netCDF file" if start else "empty"
        raise StoreError(f"'{path}' is {kind}, so it is no posterior of ours; give the posterior.nc that a fit wrote.")


def _check_ours(path: Path, attrs: dict[str, Any]) -> None:
    if attrs.get("created_by") != _CREATED_BY or "schema_version" not in attrs:
        raise StoreError(
            f"'{path}' is a netCDF file that another program wrote; give the posterior.nc that a fit wrote."
        )
    if (version := int(np.ravel(attrs["schema_version"])[0])) > SCHEMA_VERSION:
        raise StoreError(
            f"'{path}' has schema version {version} and this program reads up to {SCHEMA_VERSION}; "
            "update bacadi to read it."
        )
