"""`--targets`: from labels, from files, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.errors import BacadiError
from bacadi.model.knowledge import Knowledge
from bacadi.model.statements import from_record, labels_of, named_targets, to_record

DATA = ContextData(np.zeros((3, 3)), np.array([0, 1, 2]), ("a", "b", "c"), ("b", "a+c"), "obs")
NAN = np.nan


def from_text(folder: Path, text: str) -> np.ndarray:
    path = folder / "known.csv"
    path.write_text(text)
    return named_targets(str(path), DATA)


def test_unknown_and_labels() -> None:
    assert named_targets("unknown", DATA) is None
    np.testing.assert_array_equal(named_targets("known", DATA), [[0, 1, 0], [1, 0, 1]])


def test_two_columns_make_listed_contexts_known(tmp_path: Path) -> None:
    np.testing.assert_array_equal(from_text(tmp_path, "context,variable\na+c,a\na+c,c\n"), [[NAN] * 3, [1, 0, 1]])
    np.testing.assert_array_equal(from_text(tmp_path, "\ufeffcontext,variable\nb,\n\n"), [[0] * 3, [NAN] * 3])


def test_three_columns_make_listed_cells_known(tmp_path: Path) -> None:
    known = from_text(tmp_path, "context,variable,target\nb,a,0\n b , b , 1\n")
    np.testing.assert_array_equal(known, [[0, 1, NAN], [NAN] * 3])
    labels = labels_of(DATA)
    knowledge = Knowledge.none(3, 2, labels).known_targets(known)
    np.testing.assert_array_equal(from_record(to_record(knowledge), labels).certain_targets(), known)


BROKEN = [
    ("", ("'known.csv'", "empty")),
    ("ctx,var\n", ("Line 1", "'ctx,var'", "context,variable")),
    ("context,variable\nb,x\n", ("Line 2", "variable 'x'")),
    ("context,variable\n\nd,a\n", ("Line 3", "context 'd'", "'a+c'")),
    ("context,variable\nobs,a\n", ("Line 2", "observational")),
    ("context,variable\nb\n", ("Line 2", "1 value")),
    ("context,variable,target\nb,a,yes\n", ("Line 2", "'yes'", "1 for a target")),
    ("context,variable,target\nb,a,1\nb,a,0\n", ("Line 3", "says 0", "says 1")),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN, ids=[repr(text) for text, _ in BROKEN])
def test_broken_files(text: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(BacadiError) as refusal:
        from_text(tmp_path, text)
    assert "\n" not in str(refusal.value) and str(refusal.value).endswith(".")
    for fragment in expected:
        assert fragment in str(refusal.value)


def test_labels_that_name_no_variable_and_no_file() -> None:
    other = ContextData(np.zeros((1, 2)), np.array([1]), ("gene", "b"), ("gen+b",))
    with pytest.raises(BacadiError, match=r"'gen\+b' names 'gen', which is no variable \(did you mean 'gene'\?\)"):
        named_targets("known", other)
    with pytest.raises(BacadiError, match=r"'knwn', which is no file \(did you mean 'known'\?\)"):
        named_targets("knwn", DATA)
