"""What is installed: every data file, and a wheel that needs neither the repository nor a compiler."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# sources of the engines, and what building them leaves behind: not in a wheel
BUILT_FROM = {".pyx", ".pxd", ".pxi", ".cpp", ".c", ".h", ".hpp", ".so", ".pyc", ".html.tmp"}


def wanted() -> set[str]:
    """Files of the package that must be installed: all but the engines' sources."""
    return {
        str(path.relative_to(ROOT)) for path in (ROOT / "vcs").rglob("*")
        if path.is_file() and path.suffix not in BUILT_FROM and "__pycache__" not in path.parts
        and not (path.suffix == ".html" and path.parent.name in ("_hard", "_adjoint"))
    }


def test_every_data_file_is_installed(tmp_path: Path) -> None:
    """By the step of the build that copies; it takes a second, a wheel takes minutes."""
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)], cwd=ROOT, check=True,
        capture_output=True, timeout=300,
    )
    copied = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert wanted() <= copied, sorted(wanted() - copied)
    assert "vcs/py.typed" in copied and "vcs/_hard/machine.pyi" in copied


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_wheel_from_the_sdist_runs_without_a_compiler(tmp_path: Path) -> None:
    """sdist, the wheel built from it, an empty environment, and a PATH with nothing else on it."""
    pytest.importorskip("build")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)],
        check=True, capture_output=True, timeout=2000,
    )
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "CITATION.cff", "mkdocs.yml", "docs/index.md", "vcs/_hard/state.pxd"} <= names
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert wanted() <= names and sum(name.endswith(".so") for name in names) == 3
    assert not any(name.startswith(("tests/", "conformance/", "bench/", "docs/")) for name in names)

    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", f"{wheel}[cli,fig,env]"], check=True, timeout=900
    )
    bare = {"PATH": str(home / "bin"), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    for words in (["info"], ["info", "glass"], ["demo", "--out", str(tmp_path / "demo.png")]):
        done = subprocess.run([home / "bin" / "vcs", *words], cwd=tmp_path, env=bare, text=True,
                              capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    done = subprocess.run(
        [python, "-c", "import vcs; print(vcs.__file__)"], cwd=tmp_path, env=bare, text=True,
        capture_output=True, check=True,
    )
    assert done.stdout.startswith(str(home))
