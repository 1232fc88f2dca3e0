"""The query language and its command: every question, and one sentence for what does not parse."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bacadi.answers import ask
from bacadi.cli import app
from bacadi.errors import ConfigError
from bacadi.inference.fit import fit
from bacadi.posterior import Posterior
from bacadi.simulate import Interventions, SyntheticSpec, simulate

from .tasks import chain_posterior

QUESTIONS = (
    "effects",
    "effect(a -> b)",
    "effect(a->b)",
    "  effect ( a -> 'odd name' ) ",
    "do(a=0)",
    "do(a=-1.5e0, b+=1) -> c",
    'do("odd name"=0) -> b, c',
    "ancestors",
    "ancestors(b)",
    "descendants(a)",
    "context(drug)",
    "changed(incident)",
    "changed(incident, drug)",
    "changed(incident, control)",
    "next",
    "next(effect(a -> c))",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_an_answer(question: str) -> None:
    answer = ask(chain_posterior(), question)
    assert answer.text.endswith(".")
    assert len(answer.table)
    assert json.loads(answer.json())["answer"] == answer.text
    # What an answer says it answers is a question of its own with the same answer.
    again = answer.question.replace("odd name", '"odd name"')
    assert ask(chain_posterior(), again).text == answer.text


@pytest.mark.parametrize("question", ["effects", "effect(x1 -> x2)", "do(x1=0) -> x2", "ancestors", "next"])
def test_data_without_contexts_have_answers_too(question: str) -> None:
    task = simulate(SyntheticSpec(5, n_observational=50, interventions=Interventions(n_contexts=0)), 0)
    assert ask(fit(task.data, method="exact"), question).text.endswith(".")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("", "position 1 .*; see"),
        ("effct(a -> b)", "no question 'effct' .did you mean 'effect'.* at position 1 "),
        ("effect(a > b)", "'>' stands where '->' is expected at position 10 "),
        ("effect(a -> drugg)", "no variable 'drugg'.* at position 13 "),
        ("effect(a -> od name)", "no variable 'od'.* at position 13 "),
        ("effect(a -> 'odd nam')", "did you mean 'odd name'.* at position 13 "),
        ("effect(a -> b", "The end of the query stands where '\\)' is expected at position 14 "),
        ("effect(a -> 'odd", "quote is not closed at position 13 "),
        ("effect a", "'a' stands where '\\(' is expected at position 8 "),
        ("effect(a -> b) c", "'c' follows a whole question at position 16 "),
        ("do(a=x)", "'x' is no number at position 6 "),
        ("do(a=0, a+=1)", "'a' is given twice at position 9 "),
        ("do()", "'\\)' stands where a variable is expected at position 4 "),
        ("do(a)", "'=' or '\\+='.* at position 5 "),
        ("do(a=0) b", "'->' is expected at position 9 "),
        ("do(a=inf)", "finite number"),
        ("context(drog)", "did you mean 'drug'.* at position 9 "),
        ("changed(control)", "is the control"),
        ("next(a)", "'a' cannot be learned about at position 6 "),
        ("next(effect(a))", "'->' is expected at position 14 "),
    ],
)
def test_what_does_not_parse_is_one_sentence(question: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        ask(chain_posterior(), question)
    assert str(refused.value).endswith(".")
    assert ". " not in str(refused.value)


def test_names_of_any_characters() -> None:
    names = ("HLA-A", "it's", 'say "so"', "a->b", "x=1", "A+B", "1e5")
    graph = np.zeros((1, 1, 7, 7), np.int8)
    posterior = Posterior(graph, np.zeros((1, 1, 0, 7)), np.zeros((1, 1)), names, ())
    for question in (
        "ancestors(HLA-A)",
        'ancestors("it\'s")',
        "ancestors('it''s')",
        "ancestors('say \"so\"')",
        "ancestors('a->b')",
        "ancestors('x=1')",
        "ancestors(A+B)",
        "ancestors(1e5)",
    ):
        assert len(ask(posterior, question).table) == 6


def test_command(tmp_path: Path) -> None:
    chain_posterior().save(tmp_path / "posterior.nc")

    def run(*arguments: object) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["query", *map(str, arguments)])
        return result.exit_code, result.output

    code, text = run(tmp_path, "effect(a -> b)")
    assert code == 0
    assert text.startswith("Raising a by 1 changes b by 1.")
    code, text = run(tmp_path, "effects", "--json", "--csv", tmp_path / "effects.csv")
    assert code == 0
    assert json.loads(text)["question"] == "effects"
    lines = (tmp_path / "effects.csv").read_text().splitlines()
    assert lines[0].startswith("source,target,effect,sd,q05,q95,positive,negative,zero_by_graph")
    assert len(lines) == 1 + len(json.loads(text)["rows"])
    assert run(tmp_path, "effects", "--csv", tmp_path / "effects.csv")[0] == 2
    code, text = run(tmp_path, "next", "--rows", 7, "--mean", 2, "--noise", 1)
    assert code == 0
    assert "with 7 new rows each" in text
    for bad in ((tmp_path, "efect(a -> b)"), (tmp_path / "missing", "effects"), (tmp_path, "next", "--rows", 0)):
        code, text = run(*bad)
        assert code == 2
        assert text.startswith("Error: ")


def test_python_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    calls = re.findall(r"`(answers\.\w+\(posterior.*?\))` \|", page)
    assert len(blocks) == 2
    assert len(calls) == 6
    posterior = chain_posterior()
    names = {"variables": ("x1", "x2", "x3", "x4"), "contexts": ("c1", "c2", "c3")}
    (tmp_path / "run").mkdir()
    replace(posterior, **names).save(tmp_path / "run" / "posterior.nc")
    monkeypatch.chdir(tmp_path)
    exec("\n".join([*blocks, *calls]), {})
