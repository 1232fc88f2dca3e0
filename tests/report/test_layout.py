"""Layouts: layers follow the likely graph, boxes do not overlap, edges end where they should."""

import numpy as np
import pytest

from bacadi.report.found import likely_edges
from bacadi.report.layout import BOX_HEIGHT, causal_order, lay_out, layered, shortened

from .made import made


@pytest.mark.parametrize("d", [2, 6, 50, 100])
def test_boxes_do_not_overlap_and_likely_edges_lead_down(d: int) -> None:
    posterior = made(d, 3)
    edges = likely_edges(posterior.edges(), posterior.variables, 0.05, 10 * d)
    order = causal_order(posterior)
    drawing = lay_out({(e.source, e.target): e.probability for e in edges}, order, posterior.variables)
    (x, y), half = drawing.centre.T, drawing.width / 2
    apart = np.abs(x[:, None] - x) >= half[:, None] + half
    assert (apart | (np.abs(y[:, None] - y) >= BOX_HEIGHT) | np.eye(d, dtype=bool)).all()
    assert (x - half >= 0).all() and (x + half <= drawing.size[0]).all()
    assert (y - BOX_HEIGHT / 2 >= 0).all() and (y + BOX_HEIGHT / 2 <= drawing.size[1]).all()
    p = posterior.edge_probabilities()
    for i, j in drawing.edges.tolist():
        if p[order[i], order[j]] > 0.9:
            assert y[i] < y[j]


def test_curves_run_from_box_to_box() -> None:
    posterior = made(30, 3)
    edges = likely_edges(posterior.edges(), posterior.variables, 0.05, 300)
    drawing = lay_out(
        {(e.source, e.target): e.probability for e in edges}, causal_order(posterior), posterior.variables
    )
    assert len(drawing.curves) == len(edges)
    for (i, j), curve in zip(drawing.edges.tolist(), drawing.curves, strict=True):
        assert len(curve) % 3 == 1
        for node, point in ((i, curve[0]), (j, curve[-1])):
            assert abs(point[0] - drawing.centre[node, 0]) <= drawing.width[node] / 2
            assert abs(abs(point[1] - drawing.centre[node, 1]) - BOX_HEIGHT / 2) < 1e-9


def test_no_layer_is_wider_than_allowed_where_boxes_alone_count() -> None:
    drawing = layered(np.zeros((40, 40)), tuple(f"variable {i}" for i in range(40)), 0.5, width=500.0)
    for level in np.unique(drawing.centre[:, 1]):
        assert drawing.width[drawing.centre[:, 1] == level].sum() <= 500


def test_both_directions_and_cycles_of_probabilities_are_drawn() -> None:
    p = np.array([[0, 0.5, 0.2], [0.5, 0, 0.6], [0.4, 0.3, 0]])
    drawing = layered(p, ("a", "b", "c"), 0.1)
    assert len(drawing.edges) == 6 and all(np.isfinite(curve).all() for curve in drawing.curves)


def test_a_crossing_that_can_be_avoided_is() -> None:
    p = np.zeros((4, 4))
    p[0, 3] = p[1, 2] = 0.9
    drawing = layered(p, ("a", "b", "c", "d"), 0.1)
    x = drawing.centre[:, 0]
    assert (x[0] < x[1]) == (x[3] < x[2])


def test_layout_is_repeatable() -> None:
    one, two = (
        lay_out(
            {(e.source, e.target): e.probability for e in likely_edges(p.edges(), p.variables, 0.05, 99)},
            causal_order(p),
            p.variables,
        )
        for p in (made(20), made(20))
    )
    np.testing.assert_array_equal(one.centre, two.centre)


def test_order_follows_the_draws() -> None:
    posterior = made(25, 2)
    place = np.argsort(causal_order(posterior))
    for edge in likely_edges(posterior.edges(), posterior.variables, 0.5, 999):
        assert place[edge.source] < place[edge.target]


def test_long_names_keep_both_ends() -> None:
    assert shortened("alpha_beta_gamma_1") != shortened("alpha_beta_gamma_2")
    assert len(shortened("x" * 90)) <= 14 and "\n" not in shortened("a\nb")
