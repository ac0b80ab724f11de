"""A build that cannot be is stopped by CMake with the command that mends it."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("missing, package", [
    (["-DCMAKE_DISABLE_FIND_PACKAGE_absl=ON"], "libabsl-dev"),
    (["-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"], "libgtest-dev libgmock-dev"),
    (["-DPKG_CONFIG_EXECUTABLE=/nonexistent"], "pkg-config"),
])
def test_a_missing_dependency_is_named_with_its_package(tmp_path, missing, package):
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", *missing], capture_output=True, text=True)

    assert done.returncode != 0
    assert f"sudo apt-get install {package}" in " ".join(done.stderr.split()), done.stderr
