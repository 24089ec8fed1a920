"""What the first use of the package costs: it says that it compiles, and a plain join does not compile for relations."""

import subprocess
import sys

import thalweg


def test_a_plain_join_loads_nothing_of_relations():
    code = "import sys, thalweg.api; print(*(m for m in sys.modules if m.startswith('thalweg.relate')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_compiling_is_told_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(thalweg, "_told", False)
    _ = thalweg.Source  # needs no kernel
    assert capsys.readouterr().err == ""
    _ = thalweg.Engine
    _ = thalweg.Engine
    assert capsys.readouterr().err.count("compiling its kernels for this machine, once") == 1
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "join.join-195.py311.nbi").touch()
    monkeypatch.setattr(thalweg, "_told", False)
    _ = thalweg.Engine
    assert capsys.readouterr().err == ""
