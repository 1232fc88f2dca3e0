"""`bacadi warm-up`: compile ahead, for images and shared machines."""

import time

import typer


def warm_up() -> None:
    """Compile the methods now, so that the first fit need not: for container images and shared installations.

    What is compiled is kept in the cache of Numba, which NUMBA_CACHE_DIR moves to another folder.
    """
    from bacadi.evidence.compiled import cache_folder
    from bacadi.graph.enumerate import MAX_DAG_NODES
    from bacadi.inference.exact.method import Exact
    from bacadi.inference.fit import fit
    from bacadi.inference.mcmc.method import MCMC
    from bacadi.simulate import SyntheticSpec, simulate

    data = simulate(SyntheticSpec(n_variables=MAX_DAG_NODES + 1), seed=0).data
    mcmc, exact = MCMC(n_draws=4, n_sweeps=4), Exact(n_draws=4)
    for option, mechanism, method in (
        ("the default", "auto", mcmc),
        ("--model additive", "additive", mcmc),
        ("--model nonlinear", "nonlinear", mcmc),
        ("--method exact", "linear", exact),
    ):
        begin = time.monotonic()
        typer.echo(f"compiling for {option} …", err=True)
        fit(data, mechanism, method)
        typer.echo(f"  {time.monotonic() - begin:.0f} s", err=True)
    typer.echo(f"compiled code is in {cache_folder()}")
