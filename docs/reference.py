"""Parts of the pages that are made and not written: the reference of all settings, and the comparison of the README.

`python docs/reference.py` writes both. In settings.md all below the marker is replaced, in the README what is between
its two.
"""

import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from bacadi.benchmark.study import SECTIONS_OF_STUDY
from bacadi.config.choices import hints_of, rules_of, without_none
from bacadi.config.codec import encode, group_of, load
from bacadi.config.names import COLUMNS, MODEL, NAMES

MARKER = "<!-- made by `python docs/reference.py`; do not edit below -->"
FROM_RESULTS = "<!-- made by `python docs/reference.py` from docs/results.md -->"
END = "<!-- end -->"
COMPARED = ("AP edges", "E-SHD", "AP targets", "CPU-seconds")
_TITLES = {
    "bacadi.model.mechanism:Mechanism": "`[model.mechanism]`",
    "bacadi.model.noise:AbstractNoise": "`noise` of mechanisms and of hard effects",
    "bacadi.model.kernels:AbstractKernel": "`kernels` of Gaussian processes",
    "bacadi.model.effects:Effect": "`[model.effect]`",
    "bacadi.model.priors:AbstractGraphPrior": "`[model.graph_prior]`",
    "bacadi.inference.method:AbstractMethod": "`[method]`",
    "bacadi.baselines.base:AbstractBaseline": "`[method.baseline]`, or its name as the type of `[method]`",
    "bacadi.baselines.bootstrap:AbstractWeights": "`weights` of `bootstrap`",
    "bacadi.inference.svgd.estimators:AbstractEstimator": "`[method.estimator]` of `svgd`",
    "bacadi.inference.svgd.estimators:AbstractReader": "`[method.reader]` of `svgd`",
    "bacadi.relaxed.latent:AbstractExpectedAcyclicity": "`[method.expected_acyclicity]` of `svgd`",
    "schedule": "`alpha` and `beta` of `svgd`",
    "optimizer": "`[method.optimizer]` of `svgd`",
    "weighting": "`weighting` of `svgd`",
}


def reference() -> str:
    """Tables of every choice of a model and a method: keys, defaults and what they may be."""
    parts = ["### `[data]`\n", _table(load(COLUMNS)), "### `[model]`\n", _table(load(MODEL))]
    for group, title in _TITLES.items():
        parts.append(f"### {title}\n")
        for name, path in NAMES[group].items():
            thing = load(path)
            sentence = (thing.__doc__ or "").split("\n\n")[0].replace("\n    ", " ").strip()
            parts.append(f'**`type = "{name}"`** {sentence}\n')
            if is_dataclass(thing) and fields(thing):
                parts.append(_table(thing))
    return "\n".join([*parts, *_studies()])


def _studies() -> list[str]:
    """The keys of the files of studies."""
    parts = ["### Studies\n", "[studies.md](studies.md) says how they are written and run.\n"]
    for section, cls in SECTIONS_OF_STUDY.items():
        sentence, _, about = (cls.__doc__ or "").partition("\n\n    Args:\n")
        meanings = dict(re.findall(r"^        (\w+): (.*?)(?=^        \w|\Z)", about, re.M | re.S))
        parts.append(f"**`{section}`** {' '.join(sentence.split())}\n")
        rows = ["| key | default | what it may be | what it is |", "|---|---|---|---|"]
        for entry in fields(cls):
            rule = rules_of(cls).get(entry.name)
            kind, meaning = _kind(cls, entry) if rule is None else rule.words, meanings.get(entry.name, "")
            rows.append(f"| `{entry.name}` | {_default(entry)} | {kind} | {' '.join(meaning.split())} |")
        parts.append("\n".join(rows) + "\n")
    return parts


def _table(cls: Any) -> str:
    rows = ["| key | default | what it may be |", "|---|---|---|"]
    for entry in fields(cls):
        rule, default = rules_of(cls).get(entry.name), _default(entry)
        rows.append(f"| `{entry.name}` | {default} | {_kind(cls, entry) if rule is None else rule.words} |")
    nested = [without_none(hints_of(cls)[entry.name])[0] for entry in fields(cls)]
    inner: list[Any] = [hint for hint in nested if is_dataclass(hint) and group_of(hint) is None]
    return "\n".join(rows) + "\n" + "".join(f"\nKeys of `{hint.__name__}`:\n\n{_table(hint)}" for hint in inner)


def _default(entry: Any) -> str:
    if entry.default is MISSING:
        return "" if entry.default_factory is MISSING else f"`{encode(entry.default_factory())}`"
    value = encode(entry.default, entry.metadata.get("none", "auto"), entry.metadata.get("names"))
    if isinstance(value, dict):
        return f'`"{value["type"]}"`' if "type" in value else "its defaults"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "; ".join(f'`"{item["type"]}"`' for item in value)
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value!r}`".replace("'", '"')


def _kind(cls: Any, entry: Any) -> str:
    hint = without_none(hints_of(cls)[entry.name])[0]
    group, within = entry.metadata.get("names") or group_of(hint), (get_args(hint) or (None,))
    if group is None and get_origin(hint) is dict:
        return "a table" if group_of(within[1]) is None else "a table of ranges by path"
    if group is None and get_origin(hint) is tuple and group_of(within[0]) is None:
        return "a list of tables, below" if is_dataclass(within[0]) else "a list"
    if group is None:
        return "a table, below" if is_dataclass(hint) else "a list of tables with a `type`"
    return "one of " + ", ".join(f"`{name}`" for name in NAMES[group])


def comparison(results: str) -> str:
    """Medians of every method, ours and published, on the first set of tasks of the first study of docs/results.md."""
    lines = [line for line in results.partition("\n## ")[2].splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip().strip("*") for cell in line.split("|")[1:-1]] for line in lines]
    columns = [header.index(name) for name in COMPARED]
    found, method = [], ""
    for number, row in enumerate(rows):
        if row[0] and number:
            break  # the next set of tasks
        published = row[1] == "published"
        method = method if published else row[1]
        values = [row[column].partition(" (")[0] for column in columns]
        if "–" not in values and not (published and method == "svgd"):  # published is one value for both of ours
            name = ("BaCaDI (the paper)" if method == "mcmc" else f"`{method}`") if published else f"`{method}`"
            found.append(f"| {name} | {'published' if published else 'here'} | {row[2]} | {' | '.join(values)} |")
    top = ["| method | | tasks | " + " | ".join(COMPARED) + " |", "|---|---|" + "---:|" * (1 + len(COMPARED))]
    return "\n".join([*top, *found]) + "\n"


def main() -> None:
    """Replace what is made in settings.md and in the README."""
    folder = Path(__file__).parent
    file, readme = folder / "settings.md", folder.parent / "README.md"
    above = file.read_text(encoding="utf-8").partition(MARKER)[0]
    file.write_text(f"{above}{MARKER}\n\n{reference()}", encoding="utf-8")
    above, _, rest = readme.read_text(encoding="utf-8").partition(FROM_RESULTS)
    table = comparison((folder / "results.md").read_text(encoding="utf-8"))
    readme.write_text(f"{above}{FROM_RESULTS}\n\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
