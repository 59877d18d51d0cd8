"""Build of the compiled engines; everything else about the package is in pyproject.toml.

Switches, all from the environment:
  VCS_NATIVE=1        add -march=native (never in wheels: they must run on any machine)
  VCS_PGO=1           compile the hard machine twice (GCC), the second time for the way a training run went
                      (vcs/_hard/train.py, which needs an environment where vcs runs)
  VCS_PGO=try         the same; where it cannot be done, compile once and say so (`make install`)
  VCS_SANITIZE=1      AddressSanitizer and UndefinedBehaviorSanitizer
  VCS_SANITIZE=thread ThreadSanitizer
  VCS_COVERAGE=1      count the lines that run, for gcov (`python -m tests.fuzz coverage`)
  VCS_ANNOTATE=1      Cython's annotated HTML beside the source, to see where Python objects slip in

An engine whose source is not in the tree is skipped, so that any state of the tree builds.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)  # setuptools wants relative source paths

# -ffp-contract=off: with -march=native a fused multiply-add would round differently from one machine to the
# next.
# -g0: Python asks for debug information, which costs build time and size; the sanitizers want it.
COMPILE = ["-O3", "-g0", "-fwrapv", "-ffp-contract=off", "-fno-math-errno"]
LINK: list[str] = []
if os.environ.get("VCS_NATIVE") == "1":
    COMPILE.append("-march=native")
sanitize = {"1": "address,undefined", "thread": "thread"}.get(os.environ.get("VCS_SANITIZE", ""), "")
if sanitize:
    flags = [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer"]
    COMPILE += [*flags, "-O1", "-g1"]
    LINK += flags
COVERAGE = os.environ.get("VCS_COVERAGE") == "1"
if COVERAGE:
    # the pool's threads count too, so the counters must be atomic
    COMPILE += ["--coverage", "-fprofile-update=atomic", "-O1", "-g1"]
    LINK.append("--coverage")
BUILD = {"parallel": os.cpu_count() or 1} | ({"cython_line_directives": 1} if COVERAGE else {})


def found(pattern: str) -> list[str]:
    return sorted(str(p.relative_to(ROOT)) for p in ROOT.glob(pattern))


def hard() -> list[Extension]:
    """The hard machine. Its CPU loop is generated from the opcode table, then included by machine.pyx, which
    setuptools hands to Cython when it builds it: beside the compiler of the other engines."""
    if not (ROOT / "vcs/_hard/machine.pyx").exists():
        return []
    import numpy

    if os.environ.get("VCS_ANNOTATE") == "1":
        from Cython.Compiler import Options

        Options.annotate = True
    subprocess.run([sys.executable, "vcs/_hard/gen_cpu.py"], check=True)
    return [Extension(
        "vcs._hard.machine", ["vcs/_hard/machine.pyx"],
        depends=found("vcs/_hard/*.pxi") + found("vcs/_hard/*.pxd") + found("vcs/_hard/*.h"),
        include_dirs=["vcs/_hard", numpy.get_include()],
        extra_compile_args=[*COMPILE, "-Wno-unused-function"], extra_link_args=LINK,
    )]


def native(name: str, pattern: str) -> list[Extension]:
    """A C++ engine bound by pybind11."""
    sources = found(pattern)
    if not sources:
        return []
    import pybind11

    folder = str(Path(sources[0]).parent)
    return [Extension(
        name, sources, language="c++", include_dirs=[pybind11.get_include(), folder],
        depends=found(f"{folder}/*.h") + found(f"{folder}/*.hpp"),
        extra_compile_args=[*COMPILE, "-std=c++17", "-fvisibility=hidden", "-pthread"],
        extra_link_args=[*LINK, "-pthread"],
    )]


class Trained(build_ext):
    """Profile-guided build of the hard machine, if VCS_PGO asks for it; anything else as ever."""

    def build_extension(self, ext: Extension) -> None:
        asked = os.environ.get("VCS_PGO", "0")
        if ext.name != "vcs._hard.machine" or asked not in ("1", "try") or sanitize or COVERAGE:
            super().build_extension(ext)
            return
        compiled, linked = ext.extra_compile_args, ext.extra_link_args
        try:
            self.build_trained(ext)
        except (CompileError, LinkError, subprocess.CalledProcessError, OSError) as error:
            if asked == "1":
                raise
            print(f"no profile-guided build ({error}); compiling the hard machine once", file=sys.stderr)
            ext.extra_compile_args, ext.extra_link_args = compiled, linked
            super().build_extension(ext)

    def build_trained(self, ext: Extension) -> None:
        compiled, linked = ext.extra_compile_args, ext.extra_link_args
        with tempfile.TemporaryDirectory() as folder:
            profile = f"{folder}/profile"
            ext.extra_compile_args = [*compiled, f"-fprofile-generate={profile}", "-fprofile-update=single"]
            ext.extra_link_args = [*linked, "-fprofile-generate"]
            super().build_extension(ext)
            built = Path(self.get_ext_fullpath(ext.name))
            # a copy of the package with the instrumented engine: the tree keeps its own until all went well
            others = shutil.ignore_patterns("machine.*.so", "__pycache__")
            shutil.copytree("vcs", f"{folder}/vcs", ignore=others)
            shutil.copy(built, f"{folder}/vcs/_hard/{built.name}")
            subprocess.run([sys.executable, "-m", "vcs._hard.train"], check=True, cwd=folder)
            # partial: what the training did not reach is compiled as it would be without
            ext.extra_compile_args = [*compiled, f"-fprofile-use={profile}", "-fprofile-partial-training",
                                      "-Wno-missing-profile"]
            ext.extra_link_args = linked
            built.unlink()
            super().build_extension(ext)


setup(
    cmdclass={"build_ext": Trained},
    ext_modules=[
        *hard(),
        *native("vcs._adjoint._adjoint", "vcs/_adjoint/*.cpp"),
        *native("vcs._hard._pool", "vcs/_hard/pool.cpp"),
    ],
    options={"build_ext": BUILD},
)
