"""A second opinion on calls: botocore's models name which parameters an operation takes and which
members, values and errors its answer may have.

It is on where `REPORT_VARIABLE` is set, as in this project's tests.
"""

from __future__ import annotations

__all__ = ["MODELS_VARIABLE", "REPORT_VARIABLE"]

#: The file that gets a line of JSON for each problem.
REPORT_VARIABLE = "TERRADASK_SIM_SHAPES_REPORT"

#: A ``data`` folder of another release of botocore: its models are read as well.
MODELS_VARIABLE = "TERRADASK_SIM_SHAPES_MODELS"
