"""Servers for the integration tests: HEADRACE_SERVER_BINARY names the program
(build/release/bin/headrace-server), HEADRACE_TEST_MODEL the default model."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import headrace

# What stands beside the tests is theirs to import.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from servers import program, serving  # noqa: E402  pylint: disable=wrong-import-position

STORIES = pathlib.Path(__file__).resolve().parents[3] / "shared/data/stories260k/stories260K.bin"


@pytest.fixture(scope="session")
def start():
    return serving


@pytest.fixture(scope="session")
def refusal():
    """What a server says that cannot be started."""

    def run(model, *flags):
        done = subprocess.run([program("headrace-server"), "--model", str(model), "--listen", "127.0.0.1:0", *flags],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1, done
        return done.stderr

    return run


@pytest.fixture(scope="session")
def command_line():
    """Runs `headrace COMMAND --server ADDRESS …`; the result as subprocess.run has it."""

    def run(address, command, *flags, **options):
        return subprocess.run([program("headrace"), command, "--server", address, *flags],
                              **{"capture_output": True, "timeout": 120, **options})

    return run


@pytest.fixture(scope="session")
def smollm2_path():
    model = os.environ.get("HEADRACE_TEST_MODEL")
    if not model or "SmolLM2-135M-Instruct.Q4_1" not in model:
        pytest.skip("HEADRACE_TEST_MODEL is not SmolLM2-135M-Instruct.Q4_1.gguf")
    return pathlib.Path(model)


@pytest.fixture(scope="session")
def smollm2_address(smollm2_path):
    """SmolLM2-135M-Instruct Q4_1 in exact numerics."""
    with serving(smollm2_path, "--numerics", "exact", "--kv_cache_bytes", "600000000", metrics=True) as address:
        yield address


@pytest.fixture(scope="session")
def smollm2(smollm2_address):
    with headrace.Client(smollm2_address) as client:
        yield client


@pytest.fixture(scope="session")
def stories_path():
    if not STORIES.exists():
        pytest.skip("stories260K is not here")
    return STORIES


@pytest.fixture(scope="session")
def stories_address(stories_path):
    """stories260K (window 512) in exact numerics."""
    with serving(stories_path, "--numerics", "exact", metrics=True) as address:
        yield address


@pytest.fixture(scope="session")
def stories(stories_address):
    with headrace.Client(stories_address) as client:
        yield client


@pytest.fixture()
def in_browser(tmp_path):
    """What a page is once its script ran."""

    def run(page):
        source = page.read_text(encoding="utf-8")
        assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", source), "the page needs a network"
        chromium = shutil.which("chromium")
        assert chromium, "chromium is missing: it is in deploy/packages.txt"
        return subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
             f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
            check=True, capture_output=True, text=True, timeout=120).stdout

    return run
