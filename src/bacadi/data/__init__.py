"""The edge: tables in, arrays out, and a doctor that says in plain words what is wrong with a table."""

from bacadi.data.checks import Diagnosis, Finding, Severity
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.doctor import diagnose
from bacadi.data.tables import from_arrays, from_dataframe, from_file, read_table

__all__ = [
    "ContextData",
    "Diagnosis",
    "Finding",
    "Scaling",
    "Severity",
    "diagnose",
    "from_arrays",
    "from_dataframe",
    "from_file",
    "read_table",
]
