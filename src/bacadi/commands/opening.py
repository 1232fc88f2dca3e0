"""What a run does before it can report progress, in words for the person who waits."""

from pathlib import Path

from bacadi.settings import Settings, build_baseline

COMPILING = "compiling the sampler, once, about half a minute"


def opening(settings: Settings) -> str:
    """The words that stand where the progress will be; `COMPILING` is for everyone, also without a progress bar."""
    if settings.is_baseline:
        bootstrap = build_baseline(settings)
        together = " together, which takes minutes" if bootstrap.baseline.batched else ""
        return f"running {settings.method} on {bootstrap.n_samples} bootstrap samples{together}"
    words = {"svgd": "compiling (about 10 s)", "exact": "listing all graphs", "mcmc": "starting"}
    return COMPILING if settings.method == "mcmc" and not is_compiled() else words[settings.method]


def is_compiled() -> bool:
    """Whether the compiled sampler of an earlier run lies in numba's cache."""
    from bacadi.inference.mcmc import moves

    folder = moves.advance.stats.cache_path
    return folder is not None and is_cached(Path(moves.__file__), "advance", Path(folder))


def is_cached(source: Path, function: str, folder: Path) -> bool:
    """Whether numba's cache in `folder` has the function of a module, younger than its source."""
    # The name of an index of the cache: module, function, line, interpreter.
    found = folder.glob(f"{source.stem}.{function}-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in found)
