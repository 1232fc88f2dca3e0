"""Replicas of `MCMC` on other machines, bit for bit those of this one where the machines are equal.

A replica is a function of the problem, the seed and its number, and what it does at a sweep depends on the number of
that sweep alone. Its way is cut into legs, each a job for any worker: from the search for its starts, or from the sweep
where the leg before has ended, to a later sweep. A replica travels as the checkpoint of a run of its own
(`mcmc.state`). What needs all replicas stays here: hyper-parameters, whether more sweeps are needed, diagnostics, draws
and the checkpoint. A worker that is lost costs the leg that it was at. The last bits of sums of products depend on the
threads of linear algebra, so that workers use as many as this process, whatever Dask has set.
"""

import hashlib
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from bacadi.config.codec import Place
from bacadi.config.layers import configuration_table, name_of_method, restored
from bacadi.data.contexts import ContextData, Scaling
from bacadi.errors import BacadiError, ConfigError, InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.evidence.compiled import set_blas_threads
from bacadi.evidence.reading import collapse
from bacadi.inference.machines import Machines, is_given_up, own_address, refusal
from bacadi.inference.mcmc.chain import Memory
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.mcmc.run import ChainDraws, TemperingRun
from bacadi.inference.mcmc.start import Searched
from bacadi.inference.mcmc.state import Arrays, of_replica
from bacadi.inference.method import AbstractMethod, Monitor, Problem, Progress
from bacadi.model.statements import from_record, labels_of, to_record

LEGS = 8  # of the sweeps that are planned
_FIELDS = ("x", "context", "block", "weight")
_TEXT = "text"


def check_spread(method: AbstractMethod) -> None:
    """Refuse what cannot be carried out on several machines."""
    if not isinstance(method, MCMC):
        raise ConfigError(f"Method {name_of_method(method)} runs on one machine; --cluster is for mcmc.")
    if method.time_budget is not None:
        raise ConfigError("--time-budget is for one machine; with --cluster limit the run by --sweeps.")


class SpreadRun(TemperingRun):
    """A run whose replicas are carried out by the workers of a scheduler; see the module.

    Args:
        problem: what the workers make their own evidence of.
        machines: the workers.
        work: the arguments of `TemperingRun`.
    """

    def __init__(self, problem: Problem, machines: Machines, *work: Any) -> None:
        super().__init__(*work)
        check_spread(self.method)
        self.problem, self.machines = problem, machines

    def go(self) -> ChainDraws:
        """All legs of all replicas, until the diagnostics are content, and the draws of all."""
        sweep, _ = self._recall()
        if sweep is None and self.extends is not None:
            self._make_replicas(self._draws_of(self.extends))
            sweep = 0
        shared = self.machines.share(packed_problem(self.problem, self.method, self.collapsed))
        try:
            while sweep is None or sweep < self.total or self._goes_on():
                self._go_round(shared, sweep)
                sweep = self.swept = self.total
        finally:
            self.machines.give_up()
        return self._draws()

    def _go_round(self, shared: Any, begin: int | None) -> None:
        """Have all replicas brought from sweep `begin` (None: from before their starts) to the last one planned."""
        n, first = len(self.generators), begin or 0
        length = max(-(-(self.total - first) // LEGS), 1)
        ways = [_Way(first, None if begin is None else packed(self._apart(begin, r))) for r in range(n)]
        running = {self._submit(shared, ways[r], r, length): r for r in range(n)}
        try:
            while running:
                for future in self.machines.ended():
                    r = running.pop(future)
                    answer = self.machines.answer(future)
                    if answer is not None:
                        ways[r].arrive(answer)
                    if ways[r].reached < self.total:
                        running[self._submit(shared, ways[r], r, length)] = r
                self._watch(ways)
        except BaseException:
            self.machines.give_up()
            self._save_common(ways)
            raise
        self._restore(self._joined(ways, self.total))

    def _submit(self, shared: Any, way: "_Way", r: int, length: int) -> Any:
        at = way.reached
        until = min(at + length, self.total)
        leg = Leg(r, until, self.total, self.burn_in, self.wanted)
        return self.machines.submit(carry_out_leg, shared, list(leg), way.states[at], near=way.worker)

    def _watch(self, ways: list["_Way"]) -> None:
        """Tell of the progress, and save what all replicas have reached where that is due."""
        common, step = min(way.reached for way in ways), sum(way.reached for way in ways) // len(ways)
        phase = "burn-in" if common < self.burn_in else "sampling"
        words = f"{len(ways)} replicas on {self.machines.n_workers} workers"
        self.monitor.tell(Progress(step, self.total, self._seconds(), phase, words, {"burning_in": phase == "burn-in"}))
        if self._is_due():
            self._save_common(ways)
        for way in ways:
            way.states = {sweep: state for sweep, state in way.states.items() if sweep >= common}

    def _save_common(self, ways: list["_Way"]) -> None:
        common = min(way.reached for way in ways)
        if all(way.states.get(common) is not None for way in ways):
            self._save(self._joined(ways, common))

    def _apart(self, sweep: int, r: int) -> Arrays:
        """The state of one replica as the checkpoint of a run of its own."""
        arrays = self._arrays(sweep)
        own = {f"0.{name}": array for name, array in of_replica(arrays, r).items()}
        return self._common() | {"sweep": arrays["sweep"]} | own

    def _joined(self, ways: list["_Way"], sweep: int) -> Arrays:
        """The states of all replicas at a sweep as one checkpoint."""
        arrays = self._common() | {"sweep": np.array([sweep, self.total, self.burn_in, self.wanted])}
        for r, way in enumerate(ways):
            own = of_replica(unpacked(way.states[sweep] or b""), 0)
            arrays |= {f"{r}.{name}": array for name, array in own.items()}
        return arrays

    def _restore(self, saved: Arrays) -> int:
        self.replicas = []
        return super()._restore(saved)


class Leg(NamedTuple):
    """What a worker is asked for: to bring a replica of a run of so many sweeps and draws to the sweep `until`."""

    replica: int
    until: int
    total: int
    burn_in: int
    wanted: int


class _Way:
    """Where a replica is: the last sweeps that it has reached, its state at each (None: before its starts are searched
    for), and the worker that it was at."""

    def __init__(self, sweep: int, state: bytes | None) -> None:
        self.reached, self.states, self.worker = sweep, {sweep: state}, None

    def arrive(self, answer: dict[str, Any]) -> None:
        if "refused" in answer:
            raise InferenceError(answer["refused"])
        self.reached, self.worker = answer["sweep"], answer["worker"]
        self.states[self.reached] = answer["state"]


class _LoneReplica(TemperingRun):
    """On a worker: one replica of a run, with the random numbers that it has among the others."""

    def go_leg(self, leg: Leg, state: Arrays | None, memories: dict[int, tuple[Memory, int]]) -> Arrays:
        """From a state, or from the search for starts, to the end of a leg; `memories` are the scores by replica that
        this worker has computed before."""
        self.generators = [self.generators[leg.replica]]
        if state is None:
            with ThreadPoolExecutor(1) as pool:
                self._make_replicas(self._starts(pool, [Searched()]))
            sweep = 0
        else:
            sweep = self._restore(state)
        self.total, self.burn_in, self.wanted = leg.total, leg.burn_in, leg.wanted
        replica = self.replicas[0]
        if not replica.is_approximate:  # there the state holds the scores that were asked for
            replica.memory, replica.n_kept = memories.pop(leg.replica, (replica.memory, replica.n_kept))
        while sweep < leg.until:
            sweep = self._advance(replica, sweep, sweep + 1)
            self.monitor.tell(Progress(sweep, leg.until, 0.0, "leg"))
        memories[leg.replica] = replica.memory, replica.n_kept
        return self._arrays(sweep)


class _Known(NamedTuple):
    """On a worker: the problem that it was last asked about."""

    digest: bytes
    problem: Problem
    method: MCMC
    collapsed: CollapsedPosterior
    memories: dict[int, tuple[Memory, int]]


_LOCK, _KNOWN = threading.Lock(), list[_Known]()


def carry_out_leg(wanted: dict[str, str], shared: bytes, parts: list[int], state: bytes | None) -> dict[str, Any]:
    """On a worker: the state of a replica at the end of a leg, as bytes."""
    if (other := refusal(wanted)) is not None:
        return dict(other)
    leg = Leg(*parts)
    try:
        known = _known(shared)
        run = _LoneReplica(
            known.collapsed, known.problem.standardized, known.method, known.problem.seed, Monitor(_stop_if_given_up)
        )
        arrays = run.go_leg(leg, None if state is None else unpacked(state), known.memories)
    except KeyboardInterrupt:
        return {"refused": "Nobody waits for the replica any more."}
    except BacadiError as error:
        return {"refused": str(error)}
    return {"state": packed(arrays), "sweep": leg.until, "worker": own_address()}


def _stop_if_given_up(progress: Progress) -> None:
    if is_given_up():
        raise KeyboardInterrupt


def _known(shared: bytes) -> _Known:
    digest = hashlib.sha256(shared).digest()
    with _LOCK:
        if not _KNOWN or _KNOWN[0].digest != digest:
            _KNOWN[:] = [_Known(digest, *unpacked_problem(shared), {})]
        return _KNOWN[0]


def packed(arrays: Arrays) -> bytes:
    """Arrays as the bytes of an npz file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpacked(content: bytes) -> Arrays:
    """The inverse of `packed`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def packed_problem(problem: Problem, method: MCMC, collapsed: CollapsedPosterior) -> bytes:
    """All that evidence and prior are made of: arrays, and text for names and choices."""
    data = problem.data
    arrays = {name: getattr(data, name) for name in _FIELDS if getattr(data, name) is not None}
    arrays |= {"shift": data.scaling.shift, "scale": data.scaling.scale}
    known = replace(problem.knowledge, labels=labels_of(data))
    names = {"variables": data.variables, "contexts": data.contexts, "observational": data.observational}
    choices = {"configuration": configuration_table(problem.model, method), "knowledge": to_record(known)}
    threads = max((each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"), default=1)
    other = {"blocks": data.blocks, "seed": problem.seed, "threads": threads}
    text = json.dumps(names | choices | other).encode()
    arrays |= {_TEXT: np.frombuffer(text, np.uint8), "hyperparameters": collapsed.evidence.hyperparameters}
    return packed(arrays)


def unpacked_problem(content: bytes) -> tuple[Problem, MCMC, CollapsedPosterior]:
    """The inverse of `packed_problem`; from here on this process has as many threads of linear algebra as that one."""
    arrays = unpacked(content)
    text = json.loads(arrays[_TEXT].tobytes())
    set_blas_threads(repeat(text["threads"]))
    data = ContextData(
        arrays["x"],
        arrays["context"],
        tuple(text["variables"]),
        tuple(text["contexts"]),
        text["observational"],
        Scaling(arrays["shift"], arrays["scale"]),
        block=arrays.get("block"),
        blocks=tuple(text["blocks"]),
        weight=arrays.get("weight"),
    )
    model, method = restored(text["configuration"], Place("the run"))
    problem = Problem(data, model, from_record(text["knowledge"], labels_of(data)), text["seed"])
    collapsed = collapse(problem.model, problem.standardized, problem.scaled_knowledge, method.max_parents)
    evidence = collapsed.evidence.with_hyperparameters(arrays["hyperparameters"])
    return problem, method, CollapsedPosterior(evidence, collapsed.prior)
