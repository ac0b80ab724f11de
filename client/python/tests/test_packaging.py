"""A wheel and an sdist from a clean tree, as a release makes them."""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
USE = """
import headrace, headrace.harvest
from headrace.v1 import inference_pb2_grpc, models_pb2
assert headrace.__file__.startswith({site!r}), headrace.__file__
print(headrace.__version__, headrace.rows(prompt="last").prompt.last)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind, folder, target):
    """build_wheel or build_sdist of PEP 517; the name of what was made."""
    target.mkdir(exist_ok=True)
    run(sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_{kind}({str(target)!r})", cwd=folder)
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """What is under version control, without what was built or installed since."""
    tree = tmp_path_factory.mktemp("clean")
    for folder in ("client/python", "proto"):
        shutil.copytree(ROOT / folder, tree / folder,
                        ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", ".mypy_cache"))
    return tree


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.startswith("headrace-")}


def test_wheel_and_sdist_hold_the_same_and_work(clean, tmp_path):
    wheel = build("wheel", clean / "client/python", tmp_path / "wheel")
    sdist = build("sdist", clean / "client/python", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = build("wheel", unpacked, tmp_path / "again")

    assert contents(wheel) == contents(again)
    sources = {str(path.relative_to(clean / "client/python"))
               for path in (clean / "client/python/headrace").rglob("*") if path.is_file()}
    generated = {f"headrace/v1/{path.stem}_pb2{end}" for path in (clean / "proto/headrace/v1").iterdir()
                 for end in (".py", ".pyi", "_grpc.py")}
    assert contents(wheel) == sources | generated | {"headrace/v1/__init__.py"}
    for number, package in enumerate((wheel, sdist)):
        site = tmp_path / f"site{number}"
        run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
            "--target", site, package)
        said = run(sys.executable, "-c", USE.format(site=str(site)), cwd=tmp_path,
                   env={**os.environ, "PYTHONPATH": str(site)})
        assert said == "0.1.0 True\n"
