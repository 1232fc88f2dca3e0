"""Search for settings: on tasks of their own, resumed as if never interrupted, marked where it is the paper's way."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bacadi.benchmark.plan import plan, searches
from bacadi.benchmark.records import Record, RecordStore, read_records, write_records
from bacadi.benchmark.search import StudyRun
from bacadi.benchmark.study import Study, read_study
from bacadi.errors import BacadiError, InferenceError, StoreError

from .running import InlineEngine

pytest.importorskip("optuna")

Write = Callable[..., Path]
RANGES = """
[methods.search]
"method.baseline.level" = { type = "log-uniform", low = 0.01, high = 1 }
"method.n_samples" = { type = "uniform", low = 1, high = 2, whole = true }
"method.weights" = { type = "among", values = ["uniform", "posterior"] }
"""
PLAN = "\n[search]\nn_settings = 6\nn_seeds = 2\n"


def searched(write: Write, more: str = PLAN, **methods: str) -> Study:
    path = write(seeds=2, **(methods or {"well": ""}))
    path.write_text(path.read_text() + RANGES + more)
    return read_study(path)


def run(study: Study, folder: Path, engine: InlineEngine, storage: str | None = None) -> dict[str, Record]:
    with RecordStore(folder / "s.sqlite") as store:
        return StudyRun(study, folder, store, engine, lambda event: None, storage=storage).go()


def records_of(folder: Path) -> dict[str, Record]:
    with RecordStore(folder / "s.sqlite") as store:
        return store.all()


def test_settings_are_chosen_on_tasks_of_their_own(write: Write, tmp_path: Path) -> None:
    study, engine = searched(write), InlineEngine()
    assert all(fit.pending for fit in plan(study))
    reported = run(study, tmp_path, engine)
    # The settings given and six more on two tuning tasks, then the best on the two tasks reported.
    assert len(engine.carried_out) <= 7 * 2 + 2
    (key,) = searches(study)
    everything = records_of(tmp_path)
    choice = everything[key]
    assert choice.reason == "chosen" and len(choice.details["trials"]) == 7
    scores = [trial["interventional_nll"] for trial in choice.details["trials"]]
    assert choice.metrics["interventional_nll"] == min(scores)
    fits = plan(study, tmp_path, everything)
    assert {fit.key for fit in fits} == set(reported) and not any(fit.pending for fit in fits)
    assert {record.task_seed for record in reported.values()} == {0, 1}
    assert {record.details["search"] for record in reported.values()} == {"honest"}
    tuned = {record.task_seed for name, record in everything.items() if name not in reported}
    assert tuned == {900_000, 900_001}
    again = InlineEngine()
    assert run(study, tmp_path, again) == reported and not again.carried_out
    # Lines of text hold the choice too.
    write_records(tmp_path / "s.jsonl", [choice, *reported.values()])
    assert plan(study, tmp_path, read_records(tmp_path / "s.jsonl")) == fits


def test_an_interrupted_search_goes_on_as_if_nothing_had_been(write: Write, tmp_path: Path) -> None:
    study = searched(write)
    (tmp_path / "whole").mkdir()
    run(study, tmp_path / "whole", InlineEngine())
    for stop in (3, 4):
        with pytest.raises(KeyboardInterrupt):
            run(study, tmp_path, InlineEngine(stop))
        if stop == 3:  # Optuna's own file may be lost as well
            (tmp_path / "s.search.sqlite").unlink()
    run(study, tmp_path, InlineEngine())
    one, other = records_of(tmp_path), records_of(tmp_path / "whole")
    assert set(one) == set(other)
    (key,) = searches(study)
    assert one[key].details == other[key].details


def test_the_protocol_of_the_paper_is_marked(write: Write, tmp_path: Path) -> None:
    study = searched(write, PLAN + 'protocol = "paper"\n')
    reported = run(study, tmp_path, InlineEngine())
    assert {record.task_seed for record in records_of(tmp_path).values()} == {0, 1}
    assert {record.details["search"] for record in reported.values()} == {"paper"}
    assert {fit.protocol for fit in plan(study, tmp_path, records_of(tmp_path))} == {"paper"}


def test_a_search_in_which_all_fails(write: Write, tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match="No setting of 'error' gave a finite interventional_nll"):
        run(searched(write, error="ending = 'error'"), tmp_path, InlineEngine())


def test_a_storage_that_cannot_be_used(write: Write, tmp_path: Path) -> None:
    for url in ("nonsense", "sqlite:////no/such/folder/x.sqlite"):
        with pytest.raises(StoreError, match=r"The storage of the search .* cannot be used"):
            run(searched(write), tmp_path, InlineEngine(), url)


def test_a_search_that_another_runner_is_at_is_waited_for(write: Write, tmp_path: Path) -> None:
    study = searched(write)
    (key,) = searches(study)
    waited = []

    def listen(event: object) -> None:
        if not waited:
            waited.append(other.release([key]))

    with RecordStore(tmp_path / "s.sqlite") as store, RecordStore(tmp_path / "s.sqlite") as other:
        assert other.claim(key)
        reported = StudyRun(study, tmp_path, store, InlineEngine(), listen).go()
    assert waited and len(reported) == 2


def test_bad_ranges_are_refused_before_anything_runs(write: Write, tmp_path: Path) -> None:
    path = write(well="")
    path.write_text(path.read_text() + '[methods.search]\n"method.baseline.levle" = { type = "among", values = [1] }\n')
    with pytest.raises(BacadiError, match=r"'levle' .* is not known \(did you mean 'level'\?\)"):
        plan(read_study(path))
