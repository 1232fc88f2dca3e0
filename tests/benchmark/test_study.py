"""The schema of studies: what is read, what it means, and what is refused in one sentence."""

from pathlib import Path

import pytest

from bacadi.benchmark.plan import chosen_settings, plan, searches, with_settings
from bacadi.benchmark.study import MethodEntry, Study, TaskSet, read_study
from bacadi.config.shipped import TASKS, find_shipped, shipped_names
from bacadi.errors import BacadiError, ConfigError
from bacadi.inference.mcmc.method import MCMC

GOOD = """
title = "one"
[[tasks]]
spec = "linear-er"
[[methods]]
method = "mcmc"
"""

BAD = {
    "titel = 'x'\n" + GOOD: r"The key 'titel' in 'bad\.toml' is not known \(did you mean 'title'\?\)",
    GOOD
    + "n_task = 3": r"The key 'n_task' of section \[methods.1\] in 'bad\.toml' is not known \(did you mean 'n_tasks'",
    GOOD.replace("[[methods]]", "[methods]"): "list of tables",
    GOOD.replace("title", "# title"): "lacks a key; give 'title'",
    "metrics = ['expected_shdd']\n" + GOOD: r"no metric 'expected_shdd' \(did you mean 'expected_shd'\?\)",
    GOOD + "tasks = ['linear-sf']": "'linear-sf', which there are not",
    GOOD + "[[methods]]\nmethod = 'mcmc'": "two methods are called 'mcmc'",
    GOOD + "[[tasks]]\nspec = 'linear-er'": "two task sets are called 'linear-er'",
    GOOD + "preset = 'papr'": "one of default, paper, authors, improved",
    GOOD + "n_tasks = 0": "whole number of at least 1",
    GOOD + "[methods.settings.modle]": r"'modle' .* is not known \(did you mean 'model'\?\)",
    GOOD
    + "[methods.settings.method]\nn_drws = 3": r"'n_drws' .* settings of 'mcmc' is not known \(did you mean 'n_draws'",
    GOOD.replace("mcmc", "mcmcc"): r"no method 'mcmcc' \(did you mean 'mcmc'\?\)",
    GOOD.replace("linear-er", "linear-err"): r"no specification 'linear-err' \(did you mean 'linear-er'\?\)",
    GOOD + "[tasks.settings]\nx = 1": "The key 'x' in 'linear-er' is not known",
    GOOD.replace("[[methods]]", "[tasks.settings]\nn_variable = 3\n[[methods]]"): r"did you mean 'n_variables'",
    GOOD + "[methods.search]\nalpha = { type = 'uniform', low = 0, high = 1 }": "begin it with 'model.' or 'method.'",
    GOOD + "[methods.search]\n'method.alpha' = { type = 'uniform', low = 0, high = 1 }": "'alpha' of section",
    GOOD + "[methods.search]\n'method.n_draws' = { type = 'unifrm' }": r"did you mean 'uniform'",
    GOOD + "[methods.search]\n'method.n_draws' = { type = 'uniform', low = 2, high = 1 }": "give low <= high",
    GOOD
    + "[methods.search]\n'method.n_draws' = { type = 'uniform', low = 1, high = 2, whole = true }\n"
    + "[search]\nfirst_seed = 5": "is reported and would also be searched on",
    GOOD + "[methods.settings.knowledge]\nedge_log_odds = 'odds.csv'": "names a file",
    "= 1": "is not TOML",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_wrong_is_said_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BacadiError, match=BAD[text]) as refusal:
        plan(read_study(path), tmp_path)
    assert str(refusal.value).count(". ") == 0 and str(refusal.value).endswith(".")


def test_a_study_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match=r"There is no study 'linaer' \(did you mean 'linear'\?\)"):
        read_study("linaer")
    with pytest.raises(ConfigError, match=r"There is no study 'linear/none\.toml'"):
        read_study("linear/none.toml")


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_studies_can_be_planned_whole_and_small(name: str) -> None:
    study = read_study(name)
    fits = plan(study)
    assert len({fit.key for fit in fits}) > 1
    small = plan(study.small())
    assert {(fit.tasks.label, fit.entry.title) for fit in small} == {(fit.tasks.label, fit.entry.title) for fit in fits}
    assert len(small) < len(fits) or len(fits) == len(study.tasks) * len(study.methods)


def test_names_and_paths_of_specifications(tmp_path: Path) -> None:
    own = tmp_path / "linear-er.toml"
    own.write_text('type = "synthetic"\nn_variables = 7\n')
    study = Study("s", (TaskSet("linear-er.toml"),), (MethodEntry("mcmc"),))
    assert plan(study, tmp_path)[0].identity.task["n_variables"] == 7
    assert "n_variables" not in plan(study.replace(tasks=(TaskSet("linear-er"),)), tmp_path)[0].identity.task
    assert find_shipped("linear-er", "specification", TASKS).is_file()


def test_order_is_round_robin_and_methods_may_have_fewer_tasks() -> None:
    tasks = (TaskSet("linear-er", n_seeds=3), TaskSet("linear-sf", n_seeds=2))
    study = Study("s", tasks, (MethodEntry("mcmc"), MethodEntry("exact", n_tasks=1, tasks=("linear-sf",))))
    order = [(fit.identity.task_seed, fit.identity.method, fit.tasks.label) for fit in plan(study)]
    assert order == [
        (0, "mcmc", "linear-er"),
        (0, "mcmc", "linear-sf"),
        (0, "exact", "linear-sf"),
        (1, "mcmc", "linear-er"),
        (1, "mcmc", "linear-sf"),
        (2, "mcmc", "linear-er"),
    ]


def test_settings_make_the_key_and_defaults_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**settings: object) -> str:
        entry = MethodEntry("mcmc", settings={"method": settings} if settings else {})
        return plan(Study("s", (TaskSet("linear-er"),), (entry,)))[0].key

    assert key() == key(n_draws=MCMC().n_draws) != key(n_draws=10)
    before = key()
    monkeypatch.setattr(MCMC, "results_version", MCMC.results_version + 1)
    assert key() != before
    monkeypatch.setattr("bacadi.__version__", "99.0")
    assert key() != before


def test_what_a_method_is_told_and_the_processes_of_a_baseline() -> None:
    plain, told = MethodEntry("jci-pc"), MethodEntry("jci-pc", targets="known")
    assert chosen_settings(told).settings == chosen_settings(plain).settings | {"targets": "known"}
    assert chosen_settings(with_settings(plain, {"method.jobs": 2})) == chosen_settings(plain)
    assert "model" not in chosen_settings(plain).settings


def test_smaller_and_small() -> None:
    study = read_study("linear")
    assert [tasks.n_seeds for tasks in study.smaller(3).tasks] == [3, 3]
    with pytest.raises(ConfigError, match=r"no method 'mcm' \(did you mean 'mcmc'\?\)"):
        study.smaller(only=["mcm"])
    small = study.small()
    assert {tasks.settings["n_variables"] for tasks in small.tasks} == {6}
    own = study.replace(smoke=study.smoke.replace(tasks={"n_variables": 7}, methods={"mcmc": {"n_draws": 3}})).small()
    assert own.tasks[0].settings == {"n_variables": 7}
    assert own.methods[0].settings["method"] == {"n_sweeps": 60, "n_draws": 3}


def test_a_study_without_search_has_none() -> None:
    assert searches(read_study("linear")) == []
