"""Figures: what is drawn, that it fits, and how it is written."""

import subprocess
import sys

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.posterior import Posterior, weights
from bacadi.report import plot_edges, plot_structures, plot_targets, save_figure


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
    assert "truth" in texts and f"structure {heaviest[0] + 1}" in texts
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
