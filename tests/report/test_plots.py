"""Figures: what is drawn, that it fits, and how it is written."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.patches import FancyBboxPatch

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.posterior import Posterior, weights
from bacadi.report import PLOTS, plot_edges, plot_graph, plot_shams, plot_structures, plot_targets, save_figure

from .made import made


def make(d: int, m: int, draws: int = 9, name: str = "gene {}") -> Posterior:
    rng = np.random.default_rng(d)
    variables = tuple(name.format(i) for i in range(d))
    contexts = tuple(f"ctx {k}" for k in range(m))
    data = ContextData(np.zeros((2, d)), np.zeros(2, dtype=int), variables, contexts, "obs")
    graph = np.triu(rng.random((draws, d, d)) < 0.3, 1)
    targets, log_p = rng.random((draws, m, d)) < 0.2, rng.normal(size=draws)
    return Posterior.from_draws(data, graph, targets, log_p, weights.posterior)


def images(figure) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.get_images()]


def test_structures_show_truth_marginal_and_the_heaviest_draws():
    posterior = make(5, 3)
    truth, targets = np.eye(5, k=1), np.eye(3, 5)
    figure = plot_structures(posterior, truth, targets, n=4)
    drawn = images(figure)
    assert len(drawn) == 2 * 6
    heaviest = np.argsort(-posterior.weights.ravel())[:4]
    expected = [truth, targets, posterior.edge_probabilities(), posterior.target_probabilities()]
    for at in heaviest:
        expected += [posterior.graph[0, at], posterior.intervention_target[0, at]]
    for got, want in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    texts = [text.get_text() for text in figure.texts]
    assert "truth" in texts and "structure 1" in texts
    assert sum(text.startswith("weight") for text in texts) == 4


@pytest.mark.parametrize(("d", "m", "n"), [(2, 1, 1), (5, 3, 6), (6, 0, 4), (20, 20, 8), (5, 12, 9), (60, 2, 2)])
def test_nothing_overlaps_or_leaves_the_figure(d, m, n):
    figure = plot_structures(make(d, m), n=n)
    figure.draw_without_rendering()
    renderer = figure._get_renderer()
    panels = [axes for axes in figure.axes if axes.get_images()]
    boxes = [axes.get_tightbbox(renderer) for axes in panels] + [t.get_window_extent(renderer) for t in figure.texts]
    whole = figure.bbox
    for box in boxes:
        assert box.x0 >= whole.x0 and box.x1 <= whole.x1 and box.y0 >= whole.y0 and box.y1 <= whole.y1
    for i, first in enumerate(boxes):
        for second in boxes[i + 1 :]:
            # Lines around neighbours may touch by a pixel.
            overlap_x = min(first.x1, second.x1) - max(first.x0, second.x0)
            overlap_y = min(first.y1, second.y1) - max(first.y0, second.y0)
            assert min(overlap_x, overlap_y) < 2


def test_marginals_carry_all_names_and_survive_formula_signs(tmp_path):
    posterior = make(4, 2, name="$x_{}$ and a very long name indeed")
    for figure, values in [
        (plot_edges(posterior), posterior.edge_probabilities()),
        (plot_targets(posterior), posterior.target_probabilities()),
    ]:
        np.testing.assert_array_equal(images(figure)[0], values)
        assert len(figure.axes[0].get_xticklabels()) == 4
        save_figure(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_figures_are_written_whole_in_the_format_of_the_name(tmp_path):
    figure = plot_edges(make(3, 1))
    for name, start in [("a.png", b"\x89PNG"), ("b.pdf", b"%PDF"), ("c.svg", b"<?xml")]:
        save_figure(figure, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(ConfigError, match=r"\.png, \.pdf or \.svg"):
        save_figure(figure, tmp_path / "d.xyz")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.png", "b.pdf", "c.svg"]


def test_targets_without_contexts_are_refused():
    with pytest.raises(ConfigError, match="no context"):
        plot_targets(make(3, 0))


def test_plots_use_no_pyplot_state():
    code = (
        "import sys, numpy as np, matplotlib\n"
        "before = matplotlib.rcParams.copy()\n"
        "from bacadi.posterior import Posterior\n"
        "from bacadi.report import plot_structures\n"
        "graph, targets = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 0, 2), np.int8)\n"
        "p = Posterior(graph, targets, np.zeros((1, 1)), ('a', 'b'), ())\n"
        "plot_structures(p).draw_without_rendering()\n"
        "assert dict.__eq__(matplotlib.rcParams, before) and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def overlapping(labels, renderer) -> int:
    """How many pairs of neighbouring labels overlap; what is turned by 90 degrees is compared by its box."""
    boxes = [label.get_window_extent(renderer) for label in labels if label.get_text()]
    return sum(a.overlaps(b) for a, b in pairwise(boxes))


@pytest.mark.parametrize("name", [name for name in PLOTS if name != "shams"])
@pytest.mark.parametrize("d", [4, 50])
def test_labels_do_not_overlap_and_stay_on_the_page(name, d):
    posterior = made(d, d - 1)
    if name == "checks":
        p = np.random.default_rng(0).random(d)
        stats = {"residual_kurtosis": Labelled(3 * p, ("node",)), "residual_kurtosis_p": Labelled(p**9, ("node",))}
        posterior = replace(posterior, sample_stats=posterior.sample_stats | stats)
    figure = PLOTS[name](posterior)
    figure.draw_without_rendering()
    renderer = figure._get_renderer()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            assert not overlapping(axis.get_ticklabels(), renderer)
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
    for text in figure.texts:
        assert text.get_window_extent(renderer).x1 <= figure.bbox.x1


def test_names_of_a_graph_stay_in_their_boxes():
    figure = plot_graph(made(50, 3))
    figure.draw_without_rendering()
    renderer, axes = figure._get_renderer(), figure.axes[0]
    boxes = [patch.get_window_extent(renderer) for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    assert len(boxes) == 50 == len(axes.texts)
    for text, box in zip(axes.texts, boxes, strict=True):
        inside = text.get_window_extent(renderer)
        assert inside.x0 >= box.x0 and inside.x1 <= box.x1


def test_heat_maps_are_in_causal_order_and_known_targets_are_framed():
    posterior = made(8, 3)
    shown = images(plot_edges(posterior))[0]
    assert (shown > 0.5).any() and not np.tril(shown > 0.5).any()
    axes = plot_targets(posterior).axes[0]
    frames = {(patch.get_x(), patch.get_y()) for patch in axes.patches}
    assert len(frames) == 1  # made() knows one target
    assert images(axes.figure)[0].argmax(axis=1).tolist() == sorted(images(axes.figure)[0].argmax(axis=1).tolist())


def test_equal_structures_are_one():
    posterior = made(5, 2)
    merged = posterior.structures()
    assert len(merged.weights) < posterior.n_draws and merged.weights.sum() == pytest.approx(1)
    assert (np.diff(merged.weights) <= 0).all()
    keys = {g.tobytes() + t.tobytes() for g, t in zip(merged.graphs, merged.targets, strict=True)}
    assert len(keys) == len(merged.weights)


def test_shams_are_drawn_with_their_counts():
    record = {"kind": "labels", "likely": 3, "certain": 1, "pairs": 60}
    attrs = {"shams": {"shams": [record, record | {"kind": "control"}], "real": record | {"kind": "data"}}}
    figure = plot_shams(replace(made(), attrs=attrs))
    assert [text.get_text() for text in figure.axes[0].texts] == ["3 of 60"] * 3
