"""What the first use of the package costs: it says that it compiles, and a plain join does not compile for relations."""

import os
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


def test_a_cache_that_others_can_write_to_is_not_used(tmp_path):
    """Numba unpickles and runs what lies there: a kernel in it would be anybody's code."""
    code = "import os, sys, thalweg; print(os.environ.get('NUMBA_CACHE_DIR'), 'numba' in sys.modules and numba.config.CACHE_DIR)"

    def told(folder, first=""):
        given = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", first + code], env=given, capture_output=True, text=True, check=True
        )
        return done.stdout, done.stderr

    mine, open_to_all, link = tmp_path / "mine", tmp_path / "open", tmp_path / "link"
    mine.mkdir(mode=0o700)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link.symlink_to(mine)
    out, err = told(mine)
    assert str(mine) in out
    assert err == ""
    for folder in (open_to_all, link):
        out, err = told(folder)
        assert str(tmp_path) not in out
        assert f"NUMBA_CACHE_DIR={folder} is not used" in err
    out, _ = told(open_to_all, "import numba; ")  # which has read the variable by then
    assert str(tmp_path) not in out
