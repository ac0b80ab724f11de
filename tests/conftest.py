"""What tests of several folders use."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def install():
    """install(section, *programs): the section's packages, unless the programs are there already."""

    def run(section, *programs):
        if all(shutil.which(name) for name in programs):
            return
        packages = subprocess.check_output([ROOT / "deploy/packages", section], text=True).split()
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            pytest.skip("needs " + ", ".join(packages))
        subprocess.run(["apt-get", "update"], check=True)
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *packages], check=True)

    return run
