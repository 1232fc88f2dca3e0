"""`Model`: all choices of the generative model of Eq. (5), the generative process."""

from bacadi.config.choices import Choice
from bacadi.config.codec import encode
from bacadi.config.layers import configure
from bacadi.model.certainty import Coarsening, ContextDrift
from bacadi.model.effects import AutoEffect, Effect
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.priors import AbstractGraphPrior, AutoGraphPrior, LatentPrior, TargetPrior


class Model(Choice):
    """Mechanism, effect of interventions and priors; the defaults are the program's.

    With `standardize_within` all priors are stated for columns that are standardised within contexts, so that they do
    not depend on the scale of a column; parameters are reported in the units of the data all the same. `drift` and
    `coarsening` keep a model that is only nearly right from being certain; they are for MCMC and exact sums.
    What is not given is `ContextDrift()` and `Coarsening()` for linear mechanisms and BGe, and none for others.

    How a model is read is said elsewhere: `bacadi.relaxed` differentiates it, `bacadi.evidence` integrates its
    parameters out.

    >>> from bacadi.model.neural import NeuralGaussian
    >>> Model(mechanism=NeuralGaussian(hidden=(8, 8))).mechanism.hidden
    (8, 8)
    >>> Model()
    Model(linear, effect auto, graph prior auto)
    """

    mechanism: Mechanism = LinearGaussian()
    effect: Effect = AutoEffect()
    graph_prior: AbstractGraphPrior = AutoGraphPrior()
    target_prior: TargetPrior = TargetPrior()
    latent_prior: LatentPrior = LatentPrior()
    standardize_within: bool = True
    drift: ContextDrift | None = None
    coarsening: Coarsening | None = None

    @classmethod
    def preset(cls, name: str = "default", mechanism: str = "linear") -> "Model":
        """The model of a preset (default, paper, authors or improved) for a mechanism by name.

        >>> Model.preset("paper").mechanism.noise.std ** 2
        0.1
        >>> Model.preset("default") == Model()
        True
        """
        return configure("mcmc", name, flags={"--model": mechanism}).model

    def __repr__(self) -> str:
        table = encode(self)
        named = (table[field] for field in ("mechanism", "effect", "graph_prior"))
        mechanism, effect, prior = (choice["type"] if isinstance(choice, dict) else choice for choice in named)
        return f"Model({mechanism}, effect {effect}, graph prior {prior})"
