"""A figure of every kind: written, not empty, the same twice, with published medians."""

from pathlib import Path

import numpy as np
import pytest

from bacadi.benchmark.figures import COLOURS, draw, save
from bacadi.benchmark.study import read_study
from bacadi.errors import ConfigError

from .fake import fake_pairs

KINDS = {"linear": "box", "growth-rows": "line", "calibration": "reliability", "toy": "posterior"}


@pytest.mark.parametrize("name", KINDS)
def test_a_figure_of_every_kind_is_written(name: str, tmp_path: Path) -> None:
    study = read_study(name).smaller(2)
    assert study.figure.kind == KINDS[name]
    figure = draw(study, fake_pairs(study))
    assert all(axes.has_data() for axes in figure.axes if axes.axison)
    for suffix in (".png", ".svg"):
        save(figure, tmp_path / f"one{suffix}")
        save(draw(study, fake_pairs(study)), tmp_path / f"two{suffix}")
        one, two = ((tmp_path / f"{n}{suffix}").read_bytes() for n in ("one", "two"))
        assert len(one) > 10_000 and one == two
    from matplotlib.image import imread

    pixels = imread(tmp_path / "one.png")[..., :3]
    assert pixels.std() > 0.05 and (pixels.min(axis=2) < 0.5).mean() > 0.002


def test_published_medians_are_drawn() -> None:
    study = read_study("linear").smaller(1, ["ut-igsp"])
    panel = draw(study, fake_pairs(study)).axes[0]
    drawn = [line.get_xdata() for line in panel.lines if line.get_marker() == "D"]
    assert any(np.allclose(values, 226.4) for values in drawn)


def test_missing_methods_leave_no_gap() -> None:
    study = read_study("linear").smaller(1)
    figure = draw(study, fake_pairs(study, skip=("svgd", "dcdi-g", "mcmc")))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["jci-pc", "ut-igsp"]


def test_refusals(tmp_path: Path) -> None:
    study = read_study("linear").smaller(1)
    with pytest.raises(ConfigError, match="no record of"):
        draw(study, [(fit, None) for fit, _ in fake_pairs(study)])
    runtime = read_study("runtime").smaller(1)
    with pytest.raises(ConfigError, match="has no figure"):
        draw(runtime, fake_pairs(runtime))
    with pytest.raises(ConfigError, match=r"cannot be written as '.gif'"):
        save(draw(study, fake_pairs(study)), tmp_path / "a.gif")


def test_colours_differ_in_grey() -> None:
    """Luminances of the first five, which most figures use, are at least .04 apart; markers differ anyway."""

    def luminance(colour: str) -> float:
        return float(np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) @ [0.2126, 0.7152, 0.0722]) / 255

    values = sorted(luminance(colour) for colour in COLOURS[:5])
    assert min(np.diff(values)) > 0.02
