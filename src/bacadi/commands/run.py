"""Carry out a plan: fit, write the files of the contract, say what was found."""

import os
import shlex
import time
from dataclasses import replace
from pathlib import Path

import typer

from bacadi.commands.exits import INTERRUPTED
from bacadi.commands.opening import COMPILING, opening
from bacadi.commands.plan import CHECKPOINT, CONFIG, LOG, RESULTS, Plan, certain_targets
from bacadi.commands.watch import Log, Watch
from bacadi.errors import BacadiError
from bacadi.posterior import Posterior, write_results

_LISTED_EDGES = 10


def start(plan: Plan, quiet: bool = False) -> Posterior:
    """Run a plan from its first step; results of an earlier run in the folder are replaced."""
    for message in plan.warnings:
        typer.echo(f"Warning: {message}", err=True)
    plan.out.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:  # they would not belong to the new configuration
        (plan.out / name).unlink(missing_ok=True)
    plan.write_record()
    log = Log(plan.out / LOG, fresh=True)
    log.write("start", **_facts(plan))
    return _carry_out(plan, log, quiet)


def resume(plan: Plan, quiet: bool = False) -> Posterior:
    """Run a plan from its checkpoint, or from its first step where none was saved."""
    saved = (plan.out / CHECKPOINT).exists()
    if not saved:
        typer.echo("No checkpoint had been saved, so the run starts over; the result is the same.", err=True)
    log = Log(plan.out / LOG, fresh=False)
    log.write("resume", checkpoint=saved, **_facts(plan))
    return _carry_out(plan, log, quiet)


def conclude(posterior: Posterior, folder: Path, quiet: bool) -> None:
    """Print the summary unless it is not wanted, and in any case what makes the result doubtful."""
    if not quiet:
        typer.echo(summary(posterior, folder))
    for message in doubts(posterior):
        typer.echo(f"Warning: {message}", err=True)


def summary(posterior: Posterior, folder: Path) -> str:
    """The answer in a few lines: draws, targets, strongest edges, and where the files are."""
    edges = posterior.edges()
    likely = edges[edges["probability"] > 0.5].head(_LISTED_EDGES)
    lines = [posterior.describe(), "most probable edges:" if len(likely) else "no edge has a probability above 0.5"]
    lines += [f"  {edge.source} -> {edge.target} ({edge.probability:.2f})" for edge in likely.itertuples()]
    more = int((edges["probability"] > 0.5).sum()) - len(likely)
    lines += [f"  and {more} more"] if more > 0 else []
    return "\n".join([*lines, f"written to {folder}{os.sep}: {', '.join((*RESULTS, CONFIG, LOG))}"])


def doubts(posterior: Posterior) -> list[str]:
    """Sentences on why not to trust the posterior: replicas that disagree, bootstrap samples that failed."""
    found = list(posterior.attrs.get("warnings", []))
    if dropped := int(posterior.attrs.get("n_dropped", 0)):
        tried = posterior.n_draws + dropped
        found.append(f"{dropped} of {tried} bootstrap samples gave no estimate and were left out.")
    return found


def _carry_out(plan: Plan, log: Log, quiet: bool) -> Posterior:
    begin = time.monotonic()
    checkpoint = plan.out / CHECKPOINT
    watch = Watch(log, checkpoint, quiet)
    try:
        with watch:
            posterior = _fit(plan, watch)
        write_results(posterior, plan.out)
    except KeyboardInterrupt:
        log.write("interrupted", step=watch.step)
        saved = f"its state is saved in {checkpoint}" if checkpoint.exists() else "no state was saved yet"
        command = f"bacadi resume {shlex.quote(str(plan.out))}"
        typer.echo(f"Interrupted at step {watch.step}, {saved}; continue with: {command}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BacadiError as error:
        log.write("failed", step=watch.step, error=str(error))
        raise
    seconds = round(time.monotonic() - begin, 3)
    log.write("done", seconds=seconds, cyclic=posterior.n_cyclic, warnings=doubts(posterior))
    checkpoint.unlink(missing_ok=True)
    return posterior


def _fit(plan: Plan, watch: Watch) -> Posterior:
    # Messages of the compiler are of no use to whoever waits for a posterior; a user's own setting wins.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    budget = plan.settings.mcmc.time_budget
    words = opening(plan.settings)
    watch.open(words, budget=None if isinstance(budget, str) else budget, notable=words == COMPILING)
    posterior = _fit_baseline(plan, watch) if plan.settings.is_baseline else _fit_ours(plan, watch)
    extra = {
        "method": plan.settings.method,
        "settings": plan.settings.to_dict(),
        "preset": plan.settings.preset,
        "data_sha256": plan.sha256,
    }
    return replace(posterior, attrs=posterior.attrs | extra)


def _fit_ours(plan: Plan, watch: Watch) -> Posterior:
    from bacadi.inference.fit import Monitor, fit
    from bacadi.settings import build

    model, method = build(plan.settings)
    return fit(
        plan.data,
        model,
        method,
        seed=plan.options.seed,
        known_targets=plan.known,
        knowledge=plan.knowledge,
        monitor=Monitor(watch, plan.out / CHECKPOINT, plan.options.checkpoint_seconds),
    )


def _fit_baseline(plan: Plan, watch: Watch) -> Posterior:
    from bacadi.settings import build_baseline

    jobs = plan.settings.bootstrap.jobs
    return build_baseline(plan.settings).fit(
        plan.data,
        plan.options.seed,
        certain_targets(plan),
        jobs=None if isinstance(jobs, str) else jobs,
        report=watch,
    )


def _facts(plan: Plan) -> dict[str, object]:
    data = plan.data
    return {
        "version": plan.record()["bacadi"],
        "rows": data.n_rows,
        "variables": data.n_variables,
        "contexts": data.n_contexts,
        "method": plan.settings.method,
        "preset": plan.settings.preset,
        "seed": plan.options.seed,
    }
