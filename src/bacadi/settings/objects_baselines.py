"""From settings to a bootstrapped baseline; nothing here needs JAX."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from bacadi.baselines import GIES, JCIPC, AbstractBaseline, Bootstrap, GnIES
from bacadi.baselines.bootstrap import AbstractWeights, AverageLikelihoodWeights, PosteriorWeights, UniformWeights
from bacadi.baselines.dcdi.dcdi import DCDIG
from bacadi.baselines.ut_igsp import UTIGSP
from bacadi.settings.schema import Settings

CLASSES: dict[str, type[AbstractBaseline]] = {
    "jci-pc": JCIPC,
    "ut-igsp": UTIGSP,
    "dcdi-g": DCDIG,
    "gies": GIES,
    "gnies": GnIES,
}
_WEIGHTS: dict[str, Callable[[], AbstractWeights]] = {
    "posterior": PosteriorWeights,
    "average-likelihood": AverageLikelihoodWeights,
    "uniform": UniformWeights,
}
_SAMPLES = {"jci-pc": 20, "ut-igsp": 20, "dcdi-g": 5, "gies": 20, "gnies": 20}
_NOTHING = ("auto", "none")


def build_baseline(settings: Settings) -> Bootstrap:
    """The baseline of the settings with its bootstrap.

    >>> build_baseline(Settings("dcdi-g", None)).n_samples
    5
    """
    chosen = settings.bootstrap
    samples = _SAMPLES[settings.method] if isinstance(chosen.samples, str) else chosen.samples
    fields = {key: _present(value) for key, value in asdict(settings.section(settings.method)).items()}
    baseline = CLASSES[settings.method](**fields)
    return Bootstrap(baseline, samples, _WEIGHTS[chosen.weights](), chosen.max_retries)


def _present(value: Any) -> Any:
    return None if value in _NOTHING else value
