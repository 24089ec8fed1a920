"""State in files moves to other cells without a driver, and state of two attempts is refused: against DuckDB, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark import joinshapes
from tests.spark.joinshapes import SHAPES
from tests.spark.test_cell import Store
from tests.spark.test_moving import answers, begin, feed, made

from thalweg.engine.placing import ByShares
from thalweg.errors import CheckpointError
from thalweg.spark import pack
from thalweg.spark.cell import Cell
from thalweg.spark.checkpoints import check, read
from thalweg.spark.filemoves import FileMove, clean
from thalweg.spark.keys import cell_keys
from thalweg.spark.pack import PackTask, Retired
from thalweg.spark.packed import GONE
from thalweg.state.versions import Versions

TWO = "two streams"


class Drivers:
    """One query in files, run by one driver after another, each with cells of its own; a batch may be killed."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.number = name, folder, 0
        self.tables = feed(name)
        self.committed: list = []

    def start(self, cells: int):
        return made(self.name, cells, str(self.folder))

    def batch(self, driver, *, killed: bool = False, only: int | None = None) -> None:
        """Batch after batch of 80 rows; killed after its cells, or `only` some of them, had written their state."""
        rows = {s: t.slice(80 * self.number, 80) for s, t in self.tables.items()}
        packed = [r for g in driver.groups.values() for r in driver.pack(g, rows[driver.sources[g[0]]])]
        before, root = len(driver.results), self.folder / "state"
        for key in sorted({r.key for r in packed})[:only]:
            move = FileMove.of(root, self.number, driver.task)
            task, driver.task = driver.task, replace(driver.task, move=move)
            store = Versions(root / str(key), self.number, empty=move is not None)
            driver.results += driver.run(key, [r for r in packed if r.key == key], store)
            store.commit()
            driver.task = task
        if killed:
            del driver.results[before:]
        else:
            self.number += 1

    def all(self, *drivers) -> list[tuple]:
        return answers(self.name, *drivers)


@pytest.mark.parametrize("name", [TWO, "a clique of four"])
@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (2, 3)])
def test_cells_read_the_files_of_another_cut(name, before, after, tmp_path):
    drivers = Drivers(name, tmp_path)
    first, second = drivers.start(before), drivers.start(after)
    for driver in (first, first, first, second, second):
        drivers.batch(driver)
    assert drivers.all(first, second) == joinshapes.answer(SHAPES[name])
    assert "moved" in {r.loaded for r in second.reports}


@pytest.mark.parametrize("only", [1, 2, None])
def test_what_a_killed_batch_of_another_cut_left_is_never_read(only, tmp_path):
    drivers = Drivers(TWO, tmp_path)
    two, three, again, last = (drivers.start(cells) for cells in (2, 3, 2, 3))
    drivers.batch(two)
    drivers.batch(two)
    drivers.batch(three, killed=True, only=only)
    drivers.batch(again)
    for _ in range(2):
        drivers.batch(last)  # its cells find versions that the killed batch wrote
    assert drivers.all(two, again, last) == joinshapes.answer(SHAPES[TWO])


def late(drivers: Drivers, two: int, other: int, key: int) -> list:
    """Two batches, one that is killed under another cut and runs again; then a late task of the killed one commits."""
    old, killed, again = (drivers.start(cells) for cells in (two, other, two))
    drivers.batch(old)
    drivers.batch(old)
    drivers.batch(killed, killed=True)
    version = drivers.folder / "state" / str(key) / "2.json"
    content = version.read_bytes()
    drivers.batch(again)
    version.write_bytes(content)
    return [old, again]


@pytest.mark.parametrize(("two", "other", "key"), [(2, 4, 0), (2, 4, 2), (4, 2, 0), (4, 2, 2)])
def test_cells_of_two_cuts_are_refused_before_and_in_the_batch(two, other, key, tmp_path):
    drivers, last = Drivers(TWO, tmp_path), made(TWO, 5, str(tmp_path))
    late(drivers, two, other, key)
    committed(tmp_path, 2)
    verdict = check(None, replace(last.task, folder=str(tmp_path)), str(tmp_path))
    assert not verdict
    assert "part of one cut and part of another" in str(verdict)
    with pytest.raises(CheckpointError, match="part of one cut and part of another"):
        drivers.batch(last)


def test_a_late_task_after_which_all_cells_are_of_its_cut_does_no_harm(tmp_path):
    """The killed attempt had taken up the same state and the same rows."""
    drivers, last = Drivers(TWO, tmp_path), made(TWO, 5, str(tmp_path))
    before = late(drivers, 2, 3, 0)
    drivers.batch(last)
    drivers.batch(last)
    assert drivers.all(*before, last) == joinshapes.answer(SHAPES[TWO])


def test_a_check_reads_the_cells_of_the_committed_cut_alone(tmp_path):
    drivers = Drivers(TWO, tmp_path)
    two, three = drivers.start(2), drivers.start(3)
    drivers.batch(two)
    drivers.batch(three, killed=True)
    drivers.batch(two)
    committed(tmp_path, 1)
    found = read(None, str(tmp_path), str(tmp_path))
    assert list(found.grids) == cell_keys(2)
    (tmp_path / "state" / str(cell_keys(2)[1]) / "1.json").unlink()
    with pytest.raises(CheckpointError, match="needs the state that batch 1 left"):
        read(None, str(tmp_path), str(tmp_path))


def committed(folder: Path, batch: int) -> None:
    """Logs as Spark writes them, of a query whose id is the name of the drivers' folder."""
    (folder / "commits").mkdir()
    (folder / "commits" / str(batch)).touch()
    (folder / "metadata").write_text('{"id": "state"}')


def test_a_row_window_does_not_move(tmp_path):
    drivers = Drivers("the last rows of each key", tmp_path)
    drivers.batch(drivers.start(2))
    with pytest.raises(CheckpointError, match="row windows can't be moved"):
        drivers.batch(drivers.start(3))


def test_folders_of_cells_that_are_no_more_go_as_they_grow_old(tmp_path):
    for key, batch in ((0, 7), (1, 3)):
        store = Versions(tmp_path / str(key), batch, empty=True)
        store.updateValue(("part",), (b"x",))
        store.commit()
    clean(tmp_path, 3)
    assert {p.name for p in tmp_path.iterdir()} == {"0", "1"}
    clean(tmp_path, 4)
    assert {p.name for p in tmp_path.iterdir()} == {"0"}


def test_state_of_two_attempts_is_refused(tmp_path):
    old, tables = begin(TWO, 1, tmp_path)
    (key,) = old.stores
    parts = dict(old.stores[key].parts)
    old.batch({s: t.slice(240, 80) for s, t in tables.items()})
    mixed = old.stores[key].parts | {n: c for n, c in parts.items() if n.startswith("slice/") or n == "record"}
    new = made(TWO, 1, str(tmp_path))
    with pytest.raises(CheckpointError, match="part of one attempt at a batch and part of another"):
        list(Cell(new.task, Store(mixed)).run(key, []))
    assert list(Cell(new.task, Store(parts)).run(key, [])), "one attempt is whole"


@pytest.mark.parametrize(("batch", "keys"), [(3, {0, 9}), (4, set())])
def test_a_batch_without_rows_moves_state_too(monkeypatch, batch, keys, tmp_path):
    """Cells that are no more drop their state in it; the others must take it up."""
    monkeypatch.setattr(pack, "batch_number", lambda: batch)
    cluster = made(TWO, 1, str(tmp_path))
    division = ByShares(cluster.shares)
    task = PackTask(cluster.query, ("a",), "us", division, "auto", 1, str(tmp_path), "q", retired=Retired(3, (9,)))
    lines = [line for packed in task.run(iter(())) for line in packed.to_pylist()]
    assert {line["key"] for line in lines} == keys
    assert {line["key"] for line in lines if line["input"] == GONE} == keys - {0}
