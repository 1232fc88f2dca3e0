"""`bacadi warm-up`: compile ahead, for images and shared machines."""

import time

import typer


def warm_up() -> None:
    """Compile the samplers now, so that the first fit need not: for container images and shared installations.

    What is compiled is kept in the cache of Numba, which NUMBA_CACHE_DIR moves to another folder.
    """
    from bacadi.evidence.compiled import cache_folder
    from bacadi.inference.fit import fit
    from bacadi.inference.mcmc.method import MCMC
    from bacadi.simulate import SyntheticSpec, simulate

    data = simulate(SyntheticSpec(n_variables=5), seed=0).data
    for mechanism in ("linear", "nonlinear"):
        begin = time.monotonic()
        typer.echo(f"compiling for --model {mechanism} …", err=True)
        fit(data, mechanism, MCMC(n_draws=4, n_sweeps=4))
        typer.echo(f"  {time.monotonic() - begin:.0f} s", err=True)
    typer.echo(f"compiled code is in {cache_folder()}")
