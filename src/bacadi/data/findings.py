"""What the doctor says about a table: findings with a severity, and the summary that holds them."""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """An error refuses the table, a warning informs of a risk, a note mentions something expected."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One statement about a table: how bad, a stable code for scripts, and a sentence for people."""

    severity: Severity
    code: str
    message: str


def error(code: str, message: str) -> Finding:
    return Finding(Severity.ERROR, code, message)


def warning(code: str, message: str) -> Finding:
    return Finding(Severity.WARNING, code, message)


def note(code: str, message: str) -> Finding:
    return Finding(Severity.NOTE, code, message)


@dataclass(frozen=True)
class Diagnosis:
    """What a table holds and everything that is wrong or risky about it, errors first.

    `contexts` pairs each label with its number of rows, in order of first appearance; `observational` is the label
    that was asked for, whether or not it occurs.
    """

    rows: int
    variables: tuple[str, ...]
    contexts: tuple[tuple[str, int], ...]
    observational: str | None
    problems: tuple[Finding, ...]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity, in the order in which they were made."""
        return tuple(finding for finding in self.problems if finding.severity is severity)

    @property
    def ok(self) -> bool:
        """Whether the table can be used: no finding is an error."""
        return not self.of(Severity.ERROR)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain lists and dicts, ready for JSON."""
        return {
            "ok": self.ok,
            "rows": self.rows,
            "variables": list(self.variables),
            "contexts": [
                {"context": label, "rows": rows, "observational": label == self.observational}
                for label, rows in self.contexts
            ],
            "problems": [
                {"severity": finding.severity.value, "code": finding.code, "message": finding.message}
                for finding in self.problems
            ],
        }
