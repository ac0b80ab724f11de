"""The Python client beside the C++ one as readers of the same rows.

    python compare_consumers.py localhost:50051 --headrace build/release/bin/headrace

Both run the same prompts on the same server and keep every row: `headrace trace`
writes them to /dev/null, run_with_cache() makes arrays. Seconds are wall time,
that of the model included; what a reader itself costs is processor time per
gigabyte, start-up taken off.
"""
from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from typing import List, Tuple

import headrace

READ = """
import sys, headrace
with headrace.Client(sys.argv[1]) as client:
    tokens = [int(token) for token in sys.argv[3].split(",")]
    client.run_with_cache(tokens, hooks=sys.argv[2].split(",")) if tokens[1:] else client.list_hook_points()
"""


def cost(command: List[str]) -> Tuple[float, float]:
    """Wall and processor seconds of a program."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.perf_counter() - start,
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--headrace", required=True, help="the C++ program")
    parser.add_argument("--hooks", default="resid_post")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with headrace.Client(arguments.address) as client:
        estimate = client.estimate_capture([100] * arguments.tokens, hooks=arguments.hooks.split(","))
    gigabytes = estimate.bytes_max / 1e9

    def commands(tokens: str) -> List[List[str]]:
        trace = [arguments.headrace, "trace", "--server", arguments.address, "--tokens", tokens, "--hooks",
                 arguments.hooks + ",logits", "--layers", "all", "--out", "/dev/null"]
        return [trace, [sys.executable, "-c", READ, arguments.address, arguments.hooks, tokens]]

    idle = [statistics.median(cost(command)[1] for _ in range(3)) for command in commands("100")]
    measured: List[List[Tuple[float, float]]] = [[], []]
    for run in range(arguments.repeat):
        tokens = ",".join(str(100 + (run * 7919 + i * 104729) % 20000) for i in range(arguments.tokens))
        for results, command in zip(measured, commands(tokens)):
            results.append(cost(command))
    for name, results, start_up in zip(("C++", "Python"), measured, idle):
        wall = statistics.median(seconds for seconds, _ in results)
        cpu = statistics.median(seconds for _, seconds in results) - start_up
        print(f"{name:7}{gigabytes * 1000:8.1f} MB  {wall:6.2f} s  {cpu / gigabytes:5.2f} processor seconds per GB")


if __name__ == "__main__":
    main()
