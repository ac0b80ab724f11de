"""The tests that need packages Debian does not have, in a virtual environment with
those of PyPI."""
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[1]


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("packages, tests", [
    (["ray", "pyarrow", "pandas", "fsspec"], ["test_ray.py"]),
    (["ml_dtypes"], ["test_client.py", "-k", "bf16 and not torch"]),
])
def test_with_packages_of_pypi(tmp_path, packages, tests):
    python = tmp_path / "venv/bin/python"
    assert run(sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv")[0] == 0
    status, said = run(python, "-m", "pip", "install", "--quiet", *packages)
    if status:
        pytest.skip(f"PyPI does not give {', '.join(packages)} here: {said[-300:]}")
    status, said = run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                       "--ignore-installed", FOLDER)
    assert status == 0, said
    status, said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib",
                       FOLDER / "tests" / tests[0], *tests[1:], cwd=tmp_path)
    assert status == 0, said
    assert "skipped" not in said.splitlines()[-1], said
