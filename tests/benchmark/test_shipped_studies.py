"""Every shipped study: it decodes, its plan can be made, its smoke profile is small, and a page can be made of it."""

from pathlib import Path

import pytest

from bacadi.benchmark.page import ordered_names, write_page
from bacadi.benchmark.plan import plan
from bacadi.benchmark.records import write_records
from bacadi.benchmark.study import read_study
from bacadi.config.shipped import shipped_names, studies_folder
from bacadi.errors import ConfigError

from .fake import fake_pairs

SECONDS = {"mcmc": 1.5, "exact": 1.0, "svgd": 12.0, "jci-pc": 1.5, "ut-igsp": 1.5, "dcdi-g": 12.0}
"""What a fit of a smoke profile takes on one core, a compilation of JAX included, generously."""

PAPER = {"linear", "nonlinear", "expression", "bge", "linear-more-data", "nonlinear-more-data", "targets", "fifty"}
PAPER |= {"toy", "e-shd", "runtime"}
OWN = {"collapsed-svgd", "weak-effects", "several-targets", "soft-effects", "standardised", "few-contexts"}
OWN |= {"calibration", "growth-variables", "growth-rows", "growth-contexts", "ibge", "search"}


def test_every_study_is_there() -> None:
    assert set(shipped_names()) >= PAPER | OWN


@pytest.mark.parametrize("name", shipped_names())
def test_a_study_can_be_planned_and_its_smoke_profile_is_small(name: str) -> None:
    study = read_study(name)
    fits = plan(study, studies_folder())
    assert len(fits) == len({(fit.tasks.label, fit.identity.task_seed, fit.entry.title) for fit in fits})
    small = plan(study.small(), studies_folder())
    assert sum(SECONDS[fit.entry.method] for fit in small) / 2 < 120, "more than two minutes on two cores"
    assert study.description.endswith(".") and len(study.description) > 40


@pytest.mark.parametrize("name", sorted(PAPER - {"toy", "targets"}))
def test_models_of_the_paper_are_stated(name: str) -> None:
    """What the paper's settings fit does not change with the defaults of the program."""
    for entry in read_study(name).methods:
        if entry.method in ("mcmc", "svgd") and "(default" not in entry.title:  # what the program does by itself
            effect = entry.settings["model"]["effect"]
            assert (effect if isinstance(effect, str) else effect["type"]) == "hard"
            assert "mechanism" in entry.settings["model"]


def test_studies_of_the_same_fits_share_records() -> None:
    keys = {
        name: {fit.key for fit in plan(read_study(name), studies_folder())} for name in ("linear", "e-shd", "runtime")
    }
    assert keys["e-shd"] == keys["runtime"] and keys["linear"] <= keys["e-shd"]


def test_a_page_has_command_table_figure_and_what_is_left(tmp_path: Path) -> None:
    results, page = tmp_path / "results", tmp_path / "docs" / "results.md"
    study = read_study("linear")
    pairs = fake_pairs(study, skip=("dcdi-g",))
    results.mkdir()
    write_records(results / "linear.jsonl", [record for _, record in pairs if record is not None])
    (results / "remarks.toml").write_text('introduction = "What this is."\n[methods]\njci-pc = "Because."\n')
    assert write_page(results, page) >= 3  # e-shd and runtime share the records
    text = page.read_text()
    assert "What this is." in text and "bacadi bench run linear\n" in text and "![" in text
    assert (tmp_path / "docs" / "images" / "linear.png").stat().st_size > 10_000
    assert "- jci-pc, ours (published): on linear-er E-SID " in text and "). Because." in text
    assert "6 fits of 76 are left" in text and "bacadi bench run nonlinear\n" in text.split("Not run yet")[1]
    assert "a machine, 2 cores: 70 records" in text and "bacadi 0, python 3.11" in text
    again = page.read_bytes()
    write_page(results, page)
    assert page.read_bytes() == again
    with pytest.raises(ConfigError, match="no records in"):
        write_page(tmp_path, page)
    assert ordered_names()[0] == "linear"
