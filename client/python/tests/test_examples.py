"""The examples run, and show what they say."""
import pathlib
import re
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def test_a_probe_is_trained_and_steers(client, address):
    done = subprocess.run([sys.executable, EXAMPLES / "linear_probe.py", address], timeout=120, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    trained, unseen = map(float, re.search(r"([\d.]+)% right on them, ([\d.]+)% on 72", done.stdout).groups())
    odds = [float(value) for value in re.findall(r"^steered by .*odds of praise ([+-][\d.]+)", done.stdout, re.M)]
    random = [float(value) for value in re.search(r"\+0.4: ([+-][\d.]+) and ([+-][\d.]+)", done.stdout).groups()]

    assert trained == 100 and unseen > 90 and len(odds) == 5
    # Log odds: a factor of e^3 to each side, where a random direction does little.
    assert odds == sorted(odds) and odds[0] < odds[2] - 3 and odds[4] > odds[2] + 3
    assert all(abs(value - odds[2]) < 1.5 for value in random)
