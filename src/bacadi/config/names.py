"""The one table of names: what files and flags call a choice, and where its class is.

Classes are given as `module:Class` and imported only when they are chosen, so that nothing here needs JAX. A new
mechanism, effect, method or baseline is one line; a class of the user's own needs none.
"""

MODEL = "bacadi.model.model:Model"
METHOD = "bacadi.inference.method:AbstractMethod"
BASELINE = "bacadi.baselines.base:AbstractBaseline"
MECHANISM = "bacadi.model.mechanism:Mechanism"

NAMES: dict[str, dict[str, str]] = {
    MECHANISM: {
        "linear": "bacadi.model.linear:LinearGaussian",
        "nonlinear": "bacadi.model.neural:NeuralGaussian",
        "bge": "bacadi.model.bge:BGe",
        "gaussian-process": "bacadi.model.gaussian_process:GaussianProcess",
    },
    "bacadi.model.noise:AbstractNoise": {
        "fixed": "bacadi.model.noise:FixedNoise",
        "inferred": "bacadi.model.noise:InferredNoise",
    },
    "bacadi.model.kernels:AbstractKernel": {
        "constant": "bacadi.model.kernels:Constant",
        "linear": "bacadi.model.kernels:LinearKernel",
        "rbf": "bacadi.model.kernels:RBF",
        "additive": "bacadi.model.kernels:AdditiveKernel",
        "network": "bacadi.model.kernels:NetworkKernel",
        "sum": "bacadi.model.kernels:Sum",
    },
    "bacadi.model.effects:Effect": {
        "hard": "bacadi.model.effects:HardGaussian",
        "soft": "bacadi.model.effects:SoftGaussian",
        "shift": "bacadi.model.effects:ShiftGaussian",
        "scale": "bacadi.model.effects:ScaleGaussian",
        "any": "bacadi.model.effects:EffectMixture",
    },
    "bacadi.model.priors:AbstractGraphPrior": {
        "erdos-renyi": "bacadi.model.priors:ErdosRenyi",
        "ordered-erdos-renyi": "bacadi.model.priors:OrderedErdosRenyi",
        "scale-free": "bacadi.model.priors:ScaleFree",
        "preferential-attachment": "bacadi.model.priors:PreferentialAttachment",
        "uniform": "bacadi.model.priors:UniformGraph",
    },
    METHOD: {
        "mcmc": "bacadi.inference.mcmc.method:MCMC",
        "exact": "bacadi.inference.exact:Exact",
        "svgd": "bacadi.inference.svgd.method:SVGD",
        "bootstrap": "bacadi.baselines.bootstrap:Bootstrap",
    },
    BASELINE: {
        "jci-pc": "bacadi.baselines.jci_pc:JCIPC",
        "ut-igsp": "bacadi.baselines.ut_igsp:UTIGSP",
        "dcdi-g": "bacadi.baselines.dcdi.dcdi:DCDIG",
        "gies": "bacadi.baselines.greedy:GIES",
        "gnies": "bacadi.baselines.greedy:GnIES",
    },
    "bacadi.baselines.bootstrap:AbstractWeights": {
        "posterior": "bacadi.baselines.bootstrap:PosteriorWeights",
        "average-likelihood": "bacadi.baselines.bootstrap:AverageLikelihoodWeights",
        "uniform": "bacadi.baselines.bootstrap:UniformWeights",
    },
    "bacadi.inference.svgd.estimators:AbstractEstimator": {
        "relaxed": "bacadi.inference.svgd.estimators:RelaxedEstimator",
        "blockwise": "bacadi.inference.svgd.estimators:BlockwiseEstimator",
        "gibbs": "bacadi.inference.svgd.estimators:GibbsEstimator",
    },
    "bacadi.inference.svgd.readers:AbstractReader": {
        "finite": "bacadi.inference.svgd.readers:FiniteAlpha",
        "limit": "bacadi.inference.svgd.readers:LimitGraphs",
        "chains": "bacadi.inference.svgd.readers:FromChains",
    },
    "bacadi.relaxed.latent:AbstractExpectedAcyclicity": {
        "probs": "bacadi.relaxed.latent:AcyclicityOfProbs",
        "sampled": "bacadi.relaxed.latent:SampledAcyclicity",
    },
    "schedule": {"ramp": "bacadi.inference.svgd.method:Ramp"},
    "optimizer": {
        "rmsprop": "bacadi.inference.svgd.method:RMSprop",
        "adam": "bacadi.inference.svgd.method:Adam",
        "sgd": "bacadi.inference.svgd.method:SGD",
    },
    "weighting": {
        "tempered": "bacadi.posterior.weights:Tempered",
        "posterior": "bacadi.posterior.weights:posterior",
        "uniform": "bacadi.posterior.weights:uniform",
    },
    "bacadi.simulate.task:AbstractSpec": {
        "synthetic": "bacadi.simulate.synthetic:SyntheticSpec",
        "expression": "bacadi.simulate.expression:GeneExpressionSpec",
    },
    "bacadi.simulate.graphs:AbstractGraphFamily": {
        "erdos-renyi": "bacadi.simulate.graphs:RandomErdosRenyi",
        "scale-free": "bacadi.simulate.graphs:RandomScaleFree",
    },
    "bacadi.simulate.synthetic:AbstractTruth": {
        "linear": "bacadi.simulate.synthetic:LinearTruth",
        "neural": "bacadi.simulate.synthetic:NeuralTruth",
    },
    "bacadi.simulate.synthetic:AbstractTrueEffect": {
        "hard": "bacadi.simulate.synthetic:Hard",
        "hard-at": "bacadi.simulate.synthetic:HardAt",
        "shift": "bacadi.simulate.synthetic:Shift",
        "scale": "bacadi.simulate.synthetic:Scale",
        "soft": "bacadi.simulate.synthetic:Soft",
    },
    "bacadi.simulate.grn:AbstractTechnicalNoise": {
        "outliers": "bacadi.simulate.grn:Outliers",
        "library-size": "bacadi.simulate.grn:LibrarySize",
        "dropout": "bacadi.simulate.grn:Dropout",
        "counts": "bacadi.simulate.grn:Counts",
    },
}

FLAGS = {
    "--draws": "n_draws",
    "--sweeps": "n_sweeps",
    "--time-budget": "time_budget",
    "--replicas": "n_replicas",
    "--particles": "n_particles",
    "--steps": "n_steps",
    "--samples": "n_samples",
    "--jobs": "jobs",
}
"""The flags of `bacadi fit` that set a field of the method."""
