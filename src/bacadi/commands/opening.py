"""What a run does before it can report progress, in words for the person who waits."""

from pathlib import Path

from bacadi.settings import Settings, build_baseline

COMPILING = "compiling the sampler, once, about half a minute"


def opening(settings: Settings) -> str:
    """The words that stand where the progress will be."""
    if settings.is_baseline:
        bootstrap = build_baseline(settings)
        together = " together, which takes minutes" if bootstrap.baseline.batched else ""
        return f"running {settings.method} on {bootstrap.n_samples} bootstrap samples{together}"
    words = {"svgd": "compiling (about 10 s)", "exact": "listing all graphs", "mcmc": "starting"}
    return COMPILING if settings.method == "mcmc" and not is_compiled() else words[settings.method]


def is_compiled() -> bool:
    """Whether the compiled sampler of an earlier run lies in numba's cache and is younger than its source."""
    from bacadi.inference import moves

    source = Path(moves.__file__)
    # The name that numba gives to the index of a cached function: module, function, line, interpreter.
    found = Path(moves.advance.stats.cache_path).glob(f"{source.stem}.{moves.advance.__name__}-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in found)
