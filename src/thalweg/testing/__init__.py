"""For those who add to Thalweg: conformance checks for policies, aggregates and operators, and random cases.

`checks` needs nothing but Thalweg. The Hypothesis strategies (`thalweg.testing.filters`, `thalweg.testing.joins`) need
the extra `thalweg[testing]`; their seeded twins do not.
"""

from thalweg.testing.aggregates import check_aggregate
from thalweg.testing.conformance import Check, checks
from thalweg.testing.operators import check_operator

__all__ = ["Check", "check_aggregate", "check_operator", "checks"]
