"""Equations of the paper: what the code cites has the number and the name of docs/developer/paper.md, and is there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "developer" / "paper.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| Eq\. \((\d+)\) \| (.*?) \| ", PAGE.replace(r"\|", "¦"), re.M)
NAMES = {int(number): name.replace("¦", "|") for number, name in ROWS}
PLACES = sorted(set(re.findall(r"`(bacadi\.[\w.]+:[\w.]+)`", PAGE)))
FILES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.md")])
OWN = ("test_paper.py", "paper.md")
CITING = [path for path in FILES if path.name not in OWN and "Eq" in path.read_text(encoding="utf-8")]


def wrong_citations(text: str) -> list[str]:
    """Citations without the name of their equation: "Eq. (n), name" or "name, Eq. (n)" is what they should be."""
    flat = re.sub(r"\s+", " ", text).replace(" | ", "|")
    wrong = []
    for match in re.finditer(r"\bEqs?\.( \((\d+)\))?", flat):
        name = NAMES.get(int(match.group(2) or 0))
        before, after = flat[: match.start()], flat[match.end() :]
        close = name is not None and re.escape(name.replace(" | ", "|"))
        if not close or not (re.match(rf", (the )?{close}", after) or re.search(rf"{close}, $", before)):
            wrong.append(flat[max(match.start() - 30, 0) : match.end() + 40])
    return wrong


def test_the_table_has_all_equations_of_the_main_text() -> None:
    assert list(NAMES) == list(range(1, 14)) and len(set(NAMES.values())) == 13
    assert NAMES[11] == "likelihood" and NAMES[7] == "p_α(G | Z)"


@pytest.mark.parametrize("path", CITING, ids=lambda path: path.stem)
def test_citations_have_number_and_name(path: Path) -> None:
    assert wrong_citations(path.read_text(encoding="utf-8")) == []


def test_every_equation_of_the_inference_is_cited_where_the_table_says() -> None:
    """At least one of the modules of a row names its equation."""
    for number in range(4, 14):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| Eq. ({number}) "))
        modules = {place.split(":")[0] for place in re.findall(r"`(bacadi\.[\w.]+:[\w.]+)`", row)}
        texts = [Path(str(import_module(module).__file__)).read_text(encoding="utf-8") for module in modules]
        assert any(f"Eq. ({number})" in text for text in texts), number


@pytest.mark.parametrize("place", PLACES)
def test_places_exist(place: str) -> None:
    module, _, path = place.partition(":")
    thing = import_module(module)
    for name in path.split("."):
        thing = getattr(thing, name)


@pytest.mark.parametrize(
    ("text", "n_wrong"),
    [
        ("Eq. (5), the generative process", 0),
        ("Proposition 1, Eq. (6), by column", 0),
        ("Eq. (7), p_α(G | Z) and Eq. (9),\n    p(I|Γ)", 0),
        ("Eq. (10), the likelihood", 1),
        ("as in Eq. (8)", 1),
        ("as in Eqs. (6) and (8)", 1),
        ("Eq. (14), the kernel", 1),
        ("Eq. 5", 1),
    ],
)
def test_what_counts_as_a_citation(text: str, n_wrong: int) -> None:
    assert len(wrong_citations(text)) == n_wrong
