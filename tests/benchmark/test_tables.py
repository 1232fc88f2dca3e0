"""Tables of studies: numbers, published values beside them, marks, what is missing, and three formats."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from bacadi.benchmark.records import FAILED
from bacadi.benchmark.study import MethodEntry, Study, TablePlan, TaskSet, read_study
from bacadi.benchmark.tables import (
    Numbers,
    escaped,
    label_of,
    numbers_of,
    published_values,
    summarise,
    to_csv,
    to_latex,
    to_markdown,
    written,
)
from bacadi.errors import ConfigError

from .fake import fake_pairs

SMALL = Study(
    title="50 % of A_B",
    tasks=(TaskSet("linear-er", n_seeds=3, published=("linear", "ER-2")),),
    methods=(MethodEntry(method="mcmc", published="BaCaDI (LinG)"), MethodEntry(method="jci-pc", label="jci & pc")),
    metrics=("expected_sid", "interventional_nll"),
)


def filled(study: Study = SMALL, values: tuple[float, ...] = (1.0, 2.0, 9.0)):
    """The pairs of a study with given numbers of E-SID and twice those of I-NLL, in the order of the tasks."""
    pairs = []
    for fit, record in fake_pairs(study):
        value = values[fit.identity.task_seed - fit.tasks.first_seed]
        pairs.append((fit, replace(record, metrics={"expected_sid": value, "interventional_nll": 2 * value})))
    return pairs


GOLDEN = """\
| tasks | method | n | E-SID | I-NLL |
| --- | --- | ---: | ---: | ---: |
| linear-er | mcmc | 3 | 2.00 (1.10–8.30) | 4.00 (2.20–16.6) |
|  | *published* | *30* | *18.0 (0.000–153)* | *[104 (40.2–516)]* |
|  | jci & pc | 3 | 2.00 (1.10–8.30) | 4.00 (2.20–16.6) |

Published I-NLL in brackets cannot be compared: it was computed with the targets of another context.
"""


def test_a_small_table_in_full() -> None:
    """Median and percentiles of 1, 2, 9 by hand (NumPy's linear interpolation); published ones of the authors."""
    assert to_markdown(summarise(SMALL, filled())) == GOLDEN


def test_latex_escapes_and_rules() -> None:
    text = to_latex(summarise(SMALL, filled()))
    assert text.startswith("% 50 % of A_B\n\\begin{tabular}{llrrr}\n\\toprule\n")
    assert r"jci \& pc & 3 & 2.00 (1.10--8.30)" in text and r"\textit{published}" in text
    assert text.count(r"\midrule") == 1 and "–" not in text
    assert escaped("a_b^c~\\ {1} #2 $ ±") == (
        r"a\_b\textasciicircum{}c\textasciitilde{}\textbackslash{} \{1\} \#2 \$ $\pm$"
    )


def test_csv_has_every_statistic_once_a_metric() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(summarise(SMALL, filled())))))
    assert [(row["method"], row["metric"]) for row in rows][:2] == [
        ("mcmc", "expected_sid"),
        ("mcmc", "interventional_nll"),
    ]
    first = rows[0]
    assert (first["n"], first["median"], first["mean"], first["std"]) == ("3", "2", "4", "4.3589")
    assert first["stderr"] == "2.51661" and first["published_median"] == "18" and first["n_published"] == "30"
    assert rows[2]["published_median"] == ""


def test_what_is_missing_and_what_failed_is_said() -> None:
    pairs = filled()
    fit, record = pairs[0]
    pairs[0] = fit, replace(record, reason=FAILED, error="no")
    pairs = [(fit, None if fit.entry.title == "jci & pc" else record) for fit, record in pairs]
    table = summarise(SMALL, pairs)
    assert [row.counted for row in table.rows] == ["2, 1 failed", "0 of 3"]
    assert "| – | – |" in to_markdown(table)


def test_protocols_are_marked() -> None:
    for protocol, mark in (("honest", "\\*"), ("paper", "†")):
        pairs = [(replace(fit, protocol=protocol), record) for fit, record in filled()]
        table = summarise(SMALL, pairs)
        assert table.rows[0].title == f"mcmc{mark[-1]}"
        assert ("as in the paper" in to_markdown(table)) == (protocol == "paper")
        assert len(table.footnotes) == 2


def test_means_with_standard_errors_stand_beside_the_tables_of_the_paper() -> None:
    study = SMALL.replace(metrics=("expected_shd",), table=TablePlan(statistics=("mean", "stderr")))
    pairs = [(fit, replace(record, metrics={"expected_shd": 1.0 + n % 3})) for n, (fit, record) in enumerate(filled())]
    text = to_markdown(summarise(study, pairs))
    assert "*50.3 ± 11.0*" in text  # Table 2 of the paper: 50.32 (10.98)


def test_statistics() -> None:
    assert numbers_of([]).text(("median",)) == ""
    assert Numbers(1, {"median": 3.0, "p05": 3.0, "p95": 3.0}).text(("median", "p05", "p95")) == "3.00"
    found = numbers_of([1.0, 2.0, 3.0, 4.0]).by_name
    assert found["p05"] == pytest.approx(1.15) and found["std"] == pytest.approx(np.std([1, 2, 3, 4], ddof=1))
    assert label_of("edge_auprc") == "AUPRC"
    with pytest.raises(ConfigError, match=r"cannot be written as '.docx'"):
        written(summarise(SMALL, filled()), ".docx")


def test_published_values_are_complete() -> None:
    """Every setting that a study names has E-SID, E-SHD and both rankings of edges; E-SHD has a mean of 30 tasks."""
    known = published_values()
    for name in (
        "linear",
        "nonlinear",
        "expression",
        "bge",
        "linear-more-data",
        "nonlinear-more-data",
        "targets",
        "fifty",
    ):
        study = read_study(name)
        for entry in study.methods:
            for tasks in study.sets_of(entry):
                for metric in ("expected_sid", "expected_shd", "edge_auprc", "edge_average_precision", "seconds"):
                    if entry.published:
                        assert (*tasks.published, entry.published, metric) in known, (name, entry.title, metric)
