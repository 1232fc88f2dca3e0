"""The edge: tables in, arrays out, and a doctor that says in plain words what is wrong with a table."""

from bacadi.data.arrays import from_arrays
from bacadi.data.context import ContextData, Scaling
from bacadi.data.doctor import diagnose
from bacadi.data.files import from_file, read_table
from bacadi.data.findings import Diagnosis, Finding, Severity
from bacadi.data.frame import from_dataframe

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
