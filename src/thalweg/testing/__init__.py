"""For those who add to Thalweg: conformance checks for policies and aggregates, and random cases for filters and joins.

`checks` needs nothing but Thalweg. The Hypothesis strategies (`thalweg.testing.filters`, `thalweg.testing.joins`) need
the extra `thalweg[testing]`; their seeded twins do not.
"""

from thalweg.testing.aggregates import check_aggregate
from thalweg.testing.conformance import Check, checks

__all__ = ["Check", "check_aggregate", "checks"]
