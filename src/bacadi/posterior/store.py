"""Posterior files: netCDF groups in ArviZ's layout, readable by anything that reads netCDF 4.

`posterior` holds `graph` (chain, draw, source, target), `intervention_target` (chain, draw, context, variable) and the
parameters; `sample_stats` holds `log_weight` and diagnostics; `constant_data` holds what was given. The attributes of
the file are those of `Posterior.attrs` (values that netCDF has no type for as JSON text, listed in
`json_attributes`), `created_by`, `schema_version`, and a checksum of the content. Nothing in it can run code.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bacadi.data.labelled import Labelled
from bacadi.data.text import replacing
from bacadi.errors import StoreError
from bacadi.posterior.posterior import Posterior

if TYPE_CHECKING:
    import xarray as xr

SCHEMA_VERSION = 1
_CREATED_BY = "bacadi"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_OWN_ATTRS = ("created_by", "schema_version", "json_attributes", "observational", "checksum")

_Groups = dict[str, dict[str, Labelled]]


def save(posterior: Posterior, path: str | Path) -> None:
    """Write the posterior to `path`; the file appears whole or not at all."""
    import xarray as xr

    groups = _groups(posterior)
    attrs = _encoded_attrs(posterior)
    attrs["checksum"] = _checksum(posterior, groups)
    datasets = {name: _dataset(entries, posterior) for name, entries in groups.items()}
    datasets["posterior"].attrs["inference_library"] = _CREATED_BY
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **datasets})
    encoding = {f"/{group}": _encoding(datasets[group]) for group in datasets}
    with replacing(path) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)


def load(path: str | Path) -> Posterior:
    """Read a posterior; what is no such file, or a damaged one, is refused in words."""
    import h5py
    import xarray as xr

    path = Path(path)
    _check_signature(path)
    try:
        # HDF5 itself looks first: a truncated file makes h5netcdf print a traceback while it is cleaned up.
        with h5py.File(path, "r") as file:
            _check_ours(path, dict(file.attrs))
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            posterior = _decode(tree.load())
        intact = tree.attrs["checksum"] == _checksum(posterior, _groups(posterior))
    except StoreError:
        raise
    except Exception as error:  # Damage can surface as almost any error of HDF5, xarray or NumPy.
        raise StoreError(
            f"'{path}' is damaged and cannot be read ({type(error).__name__}); run the fit again or restore the file."
        ) from error
    if not intact:
        raise StoreError(
            f"'{path}' was damaged or changed by another program: its content does not match its checksum; "
            "run the fit again or restore the file."
        )
    return posterior


def _groups(posterior: Posterior) -> _Groups:
    graph = Labelled(posterior.graph, ("source", "target"))
    targets = Labelled(posterior.intervention_target, ("context", "node"))
    return {
        "posterior": {"graph": graph, "intervention_target": targets, **posterior.parameters},
        "sample_stats": {"log_weight": Labelled(posterior.log_weight), **posterior.sample_stats},
        "constant_data": dict(posterior.constant_data),
    }


def _dataset(entries: dict[str, Labelled], posterior: Posterior) -> "xr.Dataset":
    import xarray as xr

    names = dict.fromkeys(("source", "target", "node"), posterior.variables) | {"context": posterior.contexts}
    used = {dim for parameter in entries.values() for dim in parameter.full_dims}
    labels = {dim: np.array(names[dim], dtype=object) for dim in names if dim in used}
    coords: dict[str, Any] = {dim: (dim, values) for dim, values in labels.items()}
    for axis, size in (("chain", posterior.log_weight.shape[0]), ("draw", posterior.log_weight.shape[1])):
        if axis in used:
            coords[axis] = (axis, np.arange(size))
    return xr.Dataset({name: (p.full_dims, p.values) for name, p in entries.items()}, coords=coords)


def _encoding(dataset: "xr.Dataset") -> dict[str, dict[str, Any]]:
    """Compression for the zeros and ones; numbers that hardly compress stay plain, and NaN stays NaN."""
    encoding: dict[str, dict[str, Any]] = {}
    for name, variable in dataset.variables.items():
        if variable.dtype == object:
            encoding[str(name)] = {"dtype": str}
        elif variable.dtype.kind == "f":
            encoding[str(name)] = {"_FillValue": None}
        elif variable.size:
            encoding[str(name)] = {"zlib": True, "complevel": 4, "shuffle": True}
    return encoding


def _encoded_attrs(posterior: Posterior) -> dict[str, Any]:
    if taken := set(_OWN_ATTRS) & set(posterior.attrs):
        raise ValueError(f"The attribute '{sorted(taken)[0]}' is written by the store; give it another name.")
    attrs: dict[str, Any] = {}
    as_json = []
    for name, value in posterior.attrs.items():
        if isinstance(value, float | np.floating) or (isinstance(value, str) and value):
            attrs[name] = value
        elif isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < 2**63:
            attrs[name] = int(value)
        else:
            attrs[name] = json.dumps(value)
            as_json.append(name)
    own = {"created_by": _CREATED_BY, "schema_version": SCHEMA_VERSION, "json_attributes": json.dumps(as_json)}
    labelled = {} if posterior.observational is None else {"observational": posterior.observational}
    return {**own, **labelled, **attrs}


def _decode(tree: "xr.DataTree") -> Posterior:
    entries = {group: _entries(tree[group].to_dataset()) for group in ("posterior", "sample_stats", "constant_data")}
    labels = tree["posterior"].to_dataset()
    as_json = json.loads(tree.attrs["json_attributes"])
    attrs = {
        str(name): json.loads(value) if name in as_json else value.item() if isinstance(value, np.generic) else value
        for name, value in tree.attrs.items()
        if name not in _OWN_ATTRS
    }
    return Posterior(
        graph=entries["posterior"].pop("graph").values,
        intervention_target=entries["posterior"].pop("intervention_target").values,
        log_weight=entries["sample_stats"].pop("log_weight").values,
        variables=tuple(map(str, labels["source"].values)),
        contexts=tuple(map(str, labels["context"].values)),
        parameters=entries["posterior"],
        sample_stats=entries["sample_stats"],
        constant_data=entries["constant_data"],
        attrs=attrs,
        observational=tree.attrs.get("observational"),
    )


def _entries(dataset: "xr.Dataset") -> dict[str, Labelled]:
    found = {}
    for name, variable in dataset.data_vars.items():
        dims = tuple(map(str, variable.dims))
        found[str(name)] = Labelled(variable.values, dims[2:] if dims[:2] == ("chain", "draw") else dims)
    return found


def _checksum(posterior: Posterior, groups: _Groups) -> str:
    """Over arrays, axes, names and attributes, so that one flipped bit anywhere in them shows."""
    state = hashlib.sha256()
    labels = [posterior.variables, posterior.contexts, sorted(_encoded_attrs(posterior).items())]
    state.update(json.dumps(labels, default=float).encode())
    for group, entries in groups.items():
        for name, parameter in sorted(entries.items()):
            values = np.ascontiguousarray(parameter.values)
            header = [group, name, parameter.full_dims, values.dtype.newbyteorder("=").str, values.shape]
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
