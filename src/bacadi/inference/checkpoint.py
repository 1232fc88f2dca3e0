"""Checkpoints: all that a run needs to go on bit for bit, as plain arrays in one file."""

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bacadi.config.codec import fingerprint_text
from bacadi.errors import StoreError
from bacadi.inference.method import AbstractMethod, Monitor, Problem

_FINGERPRINT = "fingerprint"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its state, and what identifies the run (data, configuration and seed)."""

    path: Path
    fingerprint: str
    seconds: float = 60.0

    def save(self, tree: Any) -> None:
        """Write the arrays of `tree`: see `save_arrays`."""
        self.save_arrays({name: np.asarray(leaf) for name, leaf in _named_leaves(tree)})

    def save_arrays(self, named: dict[str, np.ndarray]) -> None:
        """Write beside and rename, so that a crash leaves the old checkpoint whole."""
        arrays: dict[str, Any] = dict(named)
        arrays[_FINGERPRINT] = np.asarray(self.fingerprint)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def load(self, like: Any) -> Any | None:
        """The saved arrays in the structure of `like`, or None where nothing has been saved."""
        names = [name for name, _ in _named_leaves(like)]
        saved = self.load_arrays(names)
        if saved is None:
            return None
        import jax

        return jax.tree.unflatten(jax.tree.structure(like), [saved[name] for name in names])

    def load_arrays(self, names: Collection[str]) -> dict[str, np.ndarray] | None:
        """The saved arrays, which have to be of these names, or None where nothing has been saved."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                saved = {name: file[name] for name in file.files}
        except Exception as error:
            raise StoreError(
                f"The checkpoint {self.path} is damaged ({error}); delete it and start the run again."
            ) from error
        if str(saved.pop(_FINGERPRINT, "")) != self.fingerprint:
            raise StoreError(
                f"The checkpoint {self.path} belongs to another run (its data, options or seed differ); "
                "resume with the same ones or choose another folder."
            )
        if set(names) != set(saved):
            raise StoreError(f"The checkpoint {self.path} does not fit this version; delete it and start again.")
        return saved

    def remove(self) -> None:
        """Delete the file, if it is there."""
        self.path.unlink(missing_ok=True)


def checkpoint_of(monitor: Monitor, problem: Problem, method: AbstractMethod) -> Checkpoint | None:
    """Where a run keeps its state, recognised by its choices, knowledge, data and seed; None where it keeps none."""
    if monitor.checkpoint is None:
        return None
    known = problem.knowledge
    digest = hashlib.sha256(fingerprint_text([problem.model, method, problem.seed, known.max_parents]).encode())
    counts = np.zeros(0) if known.target_count_log is None else known.target_count_log
    for array in (problem.data.x, problem.data.context, known.edge_log_odds, known.target_log_odds, counts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return Checkpoint(monitor.checkpoint, digest.hexdigest(), monitor.checkpoint_seconds)


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The arrays of a pytree of JAX with the path of each as its name."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]
