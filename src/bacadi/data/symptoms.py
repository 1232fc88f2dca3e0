"""What data show that the models do not expect, each with a remedy: shapes of columns, dependence of rows, change.

These checks look at arrays, as they will be fitted: on the scale of the transform, within contexts.
"""

from bacadi.data.checks import Findings
from bacadi.data.contexts import ContextData


def symptoms(data: ContextData) -> Findings:
    """Everything about the numbers that makes a posterior less certain than it will say."""
    yield from ()
