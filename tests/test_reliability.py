"""The page of faults is what its command writes, and every test that it names is there."""

from __future__ import annotations

import re

from tests import faults


def test_the_page_is_the_command_s():
    assert faults.PAGE.read_text() == faults.page()


def test_every_test_named_exists():
    for fault in faults.MATRIX:
        file, _, name = fault.test.partition("::")
        assert re.search(rf"^def {name}\(", (faults.ROOT / file).read_text(), re.MULTILINE), fault.test
