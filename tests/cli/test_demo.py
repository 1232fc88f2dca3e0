"""`demo`: files, tables against the truth, picture."""

from pathlib import Path

from .conftest import Run


def test_demo(run: Run, tmp_path: Path) -> None:
    for _ in range(2):  # the second run replaces the first
        result = run("demo", "--out", tmp_path / "demo")
        assert result.exit_code == 0, result.output
    for text in (
        "Edges",
        "Intervention targets",
        "probability",
        "truth",
        "4 of 4 found",
        "5 of 5 found, 0 wrong",
        "report.html",
    ):
        assert text in result.stdout
    expected = {"data.csv", "edges.csv", "targets.csv", "posterior.nc", "particles.png", "config.json", "log.jsonl"}
    expected |= {"report.html"}
    assert {path.name for path in (tmp_path / "demo").iterdir()} == expected
    assert (tmp_path / "demo" / "particles.png").read_bytes().startswith(b"\x89PNG")


def test_demo_refuses_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = run("demo", "--out", tmp_path / "taken")
    assert result.exit_code == 2 and "is a file" in result.stderr
