"""What the programs load at run time, against the [runtime] section of
deploy/packages.txt: nothing is missing from the image and nothing is extra."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = pathlib.Path(os.environ.get("HEADRACE_SERVER_BINARY", ROOT / "build/release/bin/headrace-server"))
# In every Debian, or needed by no library: certificates for TLS clients.
BEYOND_LIBRARIES = {"libc6", "libgcc-s1", "ca-certificates"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def needed():
    """Packages of the libraries that the programs load."""
    programs = [SERVER, SERVER.parent / "headrace"]
    if not all(program.exists() for program in programs):
        pytest.skip(f"the programs are not built in {SERVER.parent}")
    if not shutil.which("dpkg-query"):
        pytest.skip("not a Debian system")
    sonames = set()
    for program in programs:
        sonames.update(re.findall(r"NEEDED\s+(\S+)", output("objdump", "-p", program)))
        # Loaded when it is needed, by the name that is in the program.
        sonames.update(name.decode() for name in re.findall(rb"libdnnl\.so\.[0-9.]+", program.read_bytes()))
    owners = set()
    for soname in sonames - {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}:
        # Not those of another word size: "libc6-i386: /lib32/libc.so.6".
        found = [line for line in output("dpkg-query", "-S", f"*/{soname}").splitlines() if "/lib/" in line]
        owners.add(found[0].split(":")[0])
    return owners


def test_the_runtime_section_is_what_the_programs_load(needed):
    listed = set(output(ROOT / "deploy/packages", "runtime").split())

    assert needed - BEYOND_LIBRARIES == listed - BEYOND_LIBRARIES
