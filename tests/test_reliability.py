"""Pages of what was seen are what their commands write, and every test that they name is there."""

from __future__ import annotations

import re

from tests import faults


def test_the_page_is_the_command_s():
    assert faults.PAGE.read_text() == faults.page()


def test_the_services_shown_are_those_recorded(monkeypatch):
    monkeypatch.syspath_prepend(str(faults.ROOT / "tools"))
    import services

    assert services.PAGE.read_text() == services.page(services.PAGE.read_text())


def test_every_test_named_exists():
    for fault in faults.MATRIX:
        file, _, name = fault.test.partition("::")
        assert re.search(rf"^def {name}\(", (faults.ROOT / file).read_text(), re.MULTILINE), fault.test
