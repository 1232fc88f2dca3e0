"""Checkpoints: all that a run needs to go on bit for bit, as plain arrays in one file."""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bacadi.config.codec import fingerprint_text
from bacadi.data.text import replacing
from bacadi.errors import StoreError
from bacadi.inference.method import AbstractMethod, Monitor, Problem

_FINGERPRINT = "fingerprint"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its state, and what identifies the run (data, configuration and seed)."""

    path: Path
    fingerprint: str
    seconds: float = 60.0
    warn: Callable[[str], None] | None = None

    def save(self, tree: Any) -> None:
        """Write the arrays of `tree`: see `save_arrays`."""
        self.save_arrays({name: np.asarray(leaf) for name, leaf in _named_leaves(tree)})

    def save_arrays(self, named: dict[str, np.ndarray]) -> None:
        """Write beside and rename, so that a crash leaves the old checkpoint whole; so does a full disk, with a
        warning where somebody hears it."""
        arrays: dict[str, Any] = named | {_FINGERPRINT: np.asarray(self.fingerprint)}
        try:
            with replacing(self.path) as temporary, temporary.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
        except StoreError as error:
            if self.warn is None:
                raise
            kept = "the last one is kept" if self.path.exists() else "there is none yet"
            self.warn(f"A checkpoint was not saved, {kept}, and the run goes on: {error}")

    def load(self, like: Any) -> Any | None:
        """The saved arrays in the structure of `like`, or None where nothing has been saved."""
        expected = {name: np.asarray(leaf) for name, leaf in _named_leaves(like)}
        saved = self.load_arrays(expected)
        if saved is None:
            return None
        import jax

        return jax.tree.unflatten(jax.tree.structure(like), [saved[name] for name in expected])

    def load_arrays(self, *likes: dict[str, np.ndarray], lists: Collection[str] = ()) -> dict[str, np.ndarray] | None:
        """The saved arrays, with the names, types and shapes of one of `likes`, or None where nothing has been saved.

        Those that end in one of `lists` may have any length. What the arrays say is for the caller to validate; a file
        may come from anywhere.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                saved = {name: file[name] for name in file.files}
        except Exception as error:
            raise self.refusal(str(error)) from error
        if str(saved.pop(_FINGERPRINT, "")) != self.fingerprint:
            raise StoreError(
                f"The checkpoint {self.path} belongs to another run (its data, options or seed differ); "
                "resume with the same ones or choose another folder."
            )
        like = next((like for like in likes if set(like) == set(saved)), None)
        if like is None:
            raise StoreError(f"The checkpoint {self.path} does not fit this version; delete it and start again.")
        for name, array in like.items():
            free, found = int(name.endswith(tuple(lists))), saved[name]
            same = found.dtype == array.dtype and found.ndim == array.ndim and found.shape[free:] == array.shape[free:]
            if not same:
                raise self.refusal(f"'{name}' has another shape or type")
        return saved

    def refusal(self, what: str) -> StoreError:
        """The error for a checkpoint whose content makes no sense."""
        return StoreError(f"The checkpoint {self.path} is damaged ({what}); delete it and start the run again.")

    def remove(self) -> None:
        """Delete the file, if it is there."""
        self.path.unlink(missing_ok=True)


def checkpoint_of(monitor: Monitor, problem: Problem, method: AbstractMethod) -> Checkpoint | None:
    """Where a run keeps its state, recognised by its choices, knowledge, data and seed; None where it keeps none."""
    if monitor.checkpoint is None:
        return None
    known = problem.knowledge
    extended = 0 if problem.extends is None else int(problem.extends.attrs["n_sweeps"])
    run = [problem.model, method, problem.seed, known.max_parents, extended]
    digest = hashlib.sha256(fingerprint_text(run).encode())
    counts = np.zeros(0) if known.target_count_log is None else known.target_count_log
    effects = () if known.effects is None else (known.effects.mean, known.effects.std)
    for array in (problem.data.x, problem.data.context, known.edge_log_odds, known.target_log_odds, counts, *effects):
        digest.update(np.ascontiguousarray(array).tobytes())
    return Checkpoint(monitor.checkpoint, digest.hexdigest(), monitor.checkpoint_seconds, monitor.warn)


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The arrays of a pytree of JAX with the path of each as its name."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]
