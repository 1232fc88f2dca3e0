"""A study as data: which methods are run on which tasks, what is measured, and what its figure and table show.

A study is a TOML file, read by the one codec into the classes below, whose fields are its keys:

    title = "Linear mechanisms"
    [[tasks]]
    spec = "linear-er"          # a file of studies/tasks by name, or a path
    n_seeds = 10
    [[methods]]
    method = "mcmc"             # as --method of `bacadi fit`
    [[methods]]
    method = "svgd"
    n_tasks = 5
    [methods.settings.method]   # below `settings`: the sections of a --config file
    n_particles = 30

`benchmark.plan` makes the list of fits of it, `benchmark.runner` runs them.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from bacadi.config.choices import Choice, option
from bacadi.config.codec import Place, Table, build, read_toml
from bacadi.config.layers import PRESETS, SECTIONS, merged
from bacadi.config.shipped import TASKS, find_shipped
from bacadi.data.text import closest, listed, quoted
from bacadi.errors import ConfigError
from bacadi.metrics.evaluate import descriptions

SECONDS, CPU_SECONDS, PEAK_MEMORY = "seconds", "cpu_seconds", "peak_memory"
COSTS = {
    SECONDS: "low is good: wall time of the fit",
    CPU_SECONDS: "low is good: CPU time of the fit",
    PEAK_MEMORY: "low is good: megabytes of the process",
}
"""What is measured of every fit beside the metrics of `bacadi evaluate`, each with what a good value is."""

UNKNOWN, KNOWN, KNOWN_EFFECTS = "unknown", "known", "known-effects"
HONEST, AS_IN_PAPER = "honest", "paper"


def _plain() -> Any:
    """A field that holds a table, empty where none is given."""
    return field(default_factory=dict)


class AbstractRange(Choice):
    """What a search may pick a setting from."""

    @property
    @abstractmethod
    def example(self) -> Any:
        """A value of the range."""


class LogUniform(AbstractRange):
    """Any number between two positive ones, uniform in the logarithm; `whole` ones on request."""

    low: float = option(above=0)
    high: float = option(above=0)
    whole: bool = False

    @property
    def example(self) -> float:
        return round(self.low) if self.whole else self.low


class UniformRange(AbstractRange):
    """Any number between two, uniformly; `whole` ones on request."""

    low: float = option()
    high: float = option()
    whole: bool = False

    @property
    def example(self) -> float:
        return round(self.low) if self.whole else self.low


class Among(AbstractRange):
    """One of the values listed."""

    values: tuple[Any, ...] = option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values:
            raise ConfigError("values is an empty list; give at least one value to pick from.")

    @property
    def example(self) -> Any:
        return self.values[0]


class TaskSet(Choice):
    """Tasks of one specification, drawn with consecutive seeds.

    Args:
        spec: a specification by its name in studies/tasks or by a path, which is relative to the study's file; none:
            `settings` are all of it.
        name: what tables and figures call the tasks; auto: the name of the specification.
        settings: keys of a specification, laid over those of `spec`, such as `interventions = {rows_per_context = 20}`.
        first_seed: the seed of the first task.
        n_seeds: the number of tasks.
        at: where the tasks stand on the axis of a figure of kind "line", such as their number of variables.
        published: setting and graph of the published values beside which the results are shown.
    """

    spec: str | None = option(None, none="none")
    name: str | None = option(None)
    settings: dict[str, Any] = _plain()
    first_seed: int = option(0, least=0)
    n_seeds: int = option(10, least=1)
    at: float | None = option(None, none="none")
    published: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What tables and figures call the tasks."""
        return self.name or (Path(self.spec).stem if self.spec else "tasks")

    @property
    def seeds(self) -> range:
        """The seeds of all tasks."""
        return range(self.first_seed, self.first_seed + self.n_seeds)

    def table(self, folder: Path) -> Table:
        """The whole specification as a table; paths are relative to `folder`."""
        if self.spec is None:
            return self.settings
        own = folder / self.spec
        found = own if own.is_file() else find_shipped(self.spec, "specification", TASKS)
        layered: Table = merged(read_toml(found, "specification"), self.settings)
        return layered


class MethodEntry(Choice):
    """A method with its settings, and what it is told.

    Args:
        method: what --method of `bacadi fit` takes, or `module:Class` of a method of one's own.
        label: what tables and figures call it; auto: the name of the method.
        preset: what --preset takes; auto: "paper" for svgd, "default" for others.
        settings: the tables `model`, `method`, `knowledge` and `data` of a --config file; where `data` is given, even
            empty, columns are prepared as `bacadi fit` does, and otherwise taken as they were drawn.
        tasks: labels of the task sets that it is run on; none given: all.
        n_tasks: so many of the first tasks of each set; auto: all.
        targets: what it is told of the targets of the contexts: nothing ("unknown"), all of them ("known"), or all of
            them with means and noise of their effects ("known-effects").
        seed: of the method, the same for all tasks.
        time_limit: seconds for one fit; auto: those of the study.
        search: ranges by dotted path, such as "method.kernel.bandwidths.z"; the best setting of each task set is
            reported.
        published: the published method beside whose values the results are shown.
    """

    method: str = option("auto")
    label: str | None = option(None)
    preset: str | None = option(None, among=PRESETS)
    settings: dict[str, Any] = _plain()
    tasks: tuple[str, ...] = ()
    n_tasks: int | None = option(None, least=1)
    targets: str = option(UNKNOWN, among=(UNKNOWN, KNOWN, KNOWN_EFFECTS))
    seed: int = option(0, least=0)
    time_limit: float | None = option(None, above=0)
    search: dict[str, AbstractRange] = _plain()
    published: str | None = option(None, none="none")

    def __post_init__(self) -> None:
        super().__post_init__()
        for section in self.settings:
            if section not in SECTIONS:
                raise ConfigError(
                    f"the table {quoted(section)} of settings of {quoted(self.title)} is not known"
                    f"{closest(section, SECTIONS)}; give {listed(SECTIONS)}."
                )
        for path in self.search:
            if path.split(".")[0] not in SECTIONS or "." not in path:
                raise ConfigError(
                    f"the path {quoted(path)} of search of {quoted(self.title)} leads nowhere; begin it with "
                    "'model.' or 'method.'."
                )

    @property
    def title(self) -> str:
        """What tables and figures call the method."""
        return self.label or self.method


class SearchPlan(Choice):
    """How settings are chosen for methods that have ranges, for each set of tasks apart.

    Args:
        n_settings: how many settings are tried, beside those that the study gives.
        protocol: "honest": on tasks of their own, which are never reported; "paper": on the very tasks that are
            reported, as the authors did, which every table then says.
        metric: the metric whose mean over the tuning tasks is made small.
        first_seed: the seed of the first tuning task ("honest").
        n_seeds: the number of tuning tasks; with "paper": so many of the first tasks reported.
        seed: of the sampler of settings.
    """

    n_settings: int = option(20, least=1)
    protocol: str = option(HONEST, among=(HONEST, AS_IN_PAPER))
    metric: str = option("interventional_nll")
    first_seed: int = option(900_000, least=0)
    n_seeds: int = option(3, least=1)
    seed: int = option(0, least=0)

    @property
    def seeds(self) -> range:
        """The seeds of the tuning tasks under the honest protocol."""
        return range(self.first_seed, self.first_seed + self.n_seeds)


class FigurePlan(Choice):
    """What the figure of a study shows.

    Args:
        kind: "box": a panel per metric and task set, a box per method; "line": a metric against `at` of the task sets,
            a line per method; "reliability": probabilities against frequencies, pooled over tasks; "posterior": edges
            and targets of the first task beside the truth; "none": there is no figure.
        metrics: those shown; none given: those of the study.
        log: metrics whose axis is logarithmic.
        axis: what `at` is, in words.
        log_axis: whether the axis of `at` is logarithmic.
    """

    kind: str = option("box", among=("box", "line", "reliability", "posterior", "none"))
    metrics: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    axis: str = option("")
    log_axis: bool = False


class TablePlan(Choice):
    """What the table of a study shows.

    Args:
        metrics: the columns; none given: those of the study.
        statistics: what is said of each metric over the tasks.
    """

    metrics: tuple[str, ...] = ()
    statistics: tuple[str, ...] = option(
        ("median", "p05", "p95"), among=("median", "p05", "p95", "mean", "std", "stderr")
    )


SMALL_TASKS: Table = {"n_variables": 6}
SMALL_METHODS: dict[str, Table] = {
    "mcmc": {"n_sweeps": 60, "n_draws": 30},
    "exact": {"n_draws": 30},
    "svgd": {"n_steps": 20, "n_particles": 4},
    "jci-pc": {"n_samples": 3},
    "ut-igsp": {"n_samples": 3},
    "gies": {"n_samples": 3},
    "gnies": {"n_samples": 3},
    "dcdi-g": {"n_samples": 2, "baseline": {"max_iterations": 300, "refit_iterations": 50}},
}
"""What a smoke profile sets where it says nothing else: keys of specifications, and of `[method]` by method."""


class Smoke(Choice):
    """What makes the whole study run in two minutes on two cores, to see that all its parts work.

    Args:
        n_seeds: the number of tasks of each set.
        time_limit: seconds for one fit.
        tasks: keys of a specification, laid over those of every task set; six variables where nothing else is said.
        methods: keys of `[method]` by the name of the method, laid over its settings and over `SMALL_METHODS`.
        n_settings: how many settings a search tries.
    """

    n_seeds: int = option(1, least=1)
    time_limit: float = option(300.0, above=0)
    tasks: dict[str, Any] = _plain()
    methods: dict[str, Any] = _plain()
    n_settings: int = option(2, least=1)


class Study(Choice):
    """Methods on tasks, and what is made of the results.

    Args:
        title: of the figure and the table.
        description: what the study asks, and what it reproduces.
        tasks: sets of tasks.
        methods: what is run on them.
        metrics: those that are shown, by their names in `bacadi evaluate`, and seconds, cpu_seconds, peak_memory.
        time_limit: seconds for one fit.
        search: how settings are chosen for methods that have ranges.
        figure: what the figure shows.
        table: what the table shows.
        smoke: what `--smoke` changes.
    """

    title: str = option()
    tasks: tuple[TaskSet, ...] = option()
    methods: tuple[MethodEntry, ...] = option()
    description: str = option("")
    metrics: tuple[str, ...] = option(
        ("expected_sid", "expected_shd", "edge_average_precision", "target_average_precision", "interventional_nll")
    )
    time_limit: float = option(3600.0, above=0)
    search: SearchPlan = SearchPlan()
    figure: FigurePlan = FigurePlan()
    table: TablePlan = TablePlan()
    smoke: Smoke = Smoke()

    def __post_init__(self) -> None:
        super().__post_init__()
        for noun, things in (("tasks", self.tasks), ("methods", self.methods)):
            if not things:
                raise ConfigError(f"there are no {noun}; add a section [[{noun}]].")
        labels, titles = [one.label for one in self.tasks], [one.title for one in self.methods]
        for noun, names, key in (("task sets", labels, "name"), ("methods", titles, "label")):
            if doubled := sorted({name for name in names if names.count(name) > 1}):
                raise ConfigError(f"two {noun} are called {quoted(doubled[0])}; give one of them another {key}.")
        for entry in self.methods:
            for name in entry.tasks:
                if name not in labels:
                    what = (
                        f"the method {quoted(entry.title)} is to run on the tasks {quoted(name)}, which there are not"
                    )
                    raise ConfigError(f"{what}{closest(name, labels)}; the task sets are {listed(labels)}.")
        for name in (*self.metrics, *self.figure.metrics, *self.figure.log, *self.table.metrics, self.search.metric):
            if name not in (known := descriptions() | COSTS):
                what = f"there is no metric {quoted(name)}{closest(name, list(known))}"
                raise ConfigError(f"{what}; `bacadi evaluate` and docs/metrics.md list them.")
        self._refuse_reported_seeds()

    def _refuse_reported_seeds(self) -> None:
        searched = any(entry.search for entry in self.methods) and self.search.protocol == HONEST
        for tasks in self.tasks if searched else ():
            if both := sorted(set(tasks.seeds) & set(self.search.seeds)):
                raise ConfigError(
                    f"task {both[0]} of {quoted(tasks.label)} is reported and would also be searched on; give [search] "
                    'another first_seed, or protocol = "paper" if that is meant.'
                )

    def sets_of(self, entry: MethodEntry) -> list[TaskSet]:
        """The tasks that a method is run on."""
        chosen = [tasks for tasks in self.tasks if not entry.tasks or tasks.label in entry.tasks]
        return [tasks.replace(n_seeds=min(tasks.n_seeds, entry.n_tasks or tasks.n_seeds)) for tasks in chosen]

    def smaller(self, n_tasks: int | None = None, only: Sequence[str] = ()) -> "Study":
        """The study with at most so many tasks of each set, and of its methods `only` those of these labels or names.

        >>> study = read_study("linear").smaller(2, ["mcmc"])
        >>> [tasks.n_seeds for tasks in study.tasks], [entry.method for entry in study.methods]
        ([2, 2], ['mcmc'])
        """
        for name in only:
            names = [*(entry.title for entry in self.methods), *(entry.method for entry in self.methods)]
            if name not in names:
                near = closest(name, names)
                raise ConfigError(f"The study has no method {quoted(name)}{near}; its methods are {listed(names, 99)}.")
        methods = [entry for entry in self.methods if not only or entry.title in only or entry.method in only]
        tasks = [one.replace(n_seeds=min(one.n_seeds, n_tasks or one.n_seeds)) for one in self.tasks]
        return self.replace(tasks=tuple(tasks), methods=tuple(methods))

    def small(self) -> "Study":
        """The study as its `smoke` profile has it."""
        profile = self.smoke
        of_tasks, of_methods = merged(SMALL_TASKS, profile.tasks), merged(SMALL_METHODS, profile.methods)
        tasks = [
            one.replace(n_seeds=min(one.n_seeds, profile.n_seeds), settings=merged(one.settings, of_tasks))
            for one in self.tasks
        ]
        methods = [
            entry.replace(
                settings=merged(entry.settings, {"method": of_methods.get(entry.method, {})}), time_limit=None
            )
            for entry in self.methods
        ]
        search = self.search.replace(n_settings=min(self.search.n_settings, profile.n_settings), n_seeds=1)
        changed = {"tasks": tuple(tasks), "methods": tuple(methods), "search": search}
        return self.replace(**changed, time_limit=profile.time_limit, title=f"{self.title} (smoke)")


def read_study(name: str | Path) -> Study:
    """Read a study by its path, or by its name if it is shipped; what is wrong with it is refused in one sentence.

    >>> read_study("linear").tasks[0].spec
    'linear-er'
    """
    path = find_shipped(name, "study")
    study: Study = build(Study, read_toml(path, "study"), Place(quoted(path.name)))
    return study


SECTIONS_OF_STUDY: dict[str, type[Choice]] = {
    "title = …": Study,
    "[[tasks]]": TaskSet,
    "[[methods]]": MethodEntry,
    'type = "log-uniform"': LogUniform,
    'type = "uniform"': UniformRange,
    'type = "among"': Among,
    "[search]": SearchPlan,
    "[figure]": FigurePlan,
    "[table]": TablePlan,
    "[smoke]": Smoke,
}
"""The sections of a study's file and the classes that say what may stand there, for the documentation."""
