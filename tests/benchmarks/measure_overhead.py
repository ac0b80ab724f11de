#!/usr/bin/env python3
"""What the server adds to a token: one client's stream through gRPC beside the engine alone.

    measure_overhead.py --model MODEL.gguf [--threads 2] [--generate 128] [--starts 10] [--rounds 5]

Rounds are interleaved: headrace-bench decodes, then `headrace bench` asks the server
for as many tokens, on the cores that the server uses too. Where in memory a process
happens to lie makes it some per cent faster or slower for all its life, so the server
is started anew for every few rounds; headrace-bench is, for each. Printed are the
time per token of both, the time between two tokens of the stream by the median, which
knows no outliers, and the mean over the starts with its standard error.
"""
import argparse
import os
import pathlib
import statistics
import sys

from programs import BIN, at_least, existing, require, run, run_main, serving


def engine_seconds(options):
    """Of one token, by the engine alone."""
    report = run(options.bin / "headrace-bench", "--model", options.model, "--prompt", 0, "--generate", options.generate,
                 "--threads", options.threads, "--repeat", 1, "--json")
    return 1 / report["decode_tokens_per_second"]["median"]


def stream_seconds(address, options):
    """(mean per token, median between two tokens) of one stream."""
    report = run(options.bin / "headrace", "bench", "--server", address, "--concurrency", 1, "--requests", 1,
                 "--prompt_tokens", 16, "--max_tokens", options.generate, "--temperature", 0, "--json")
    return report["time_per_output_token_seconds"]["p50"], report["inter_token_latency_seconds"]["p50"]


def one_start(options):
    """[(engine, stream, between)] of the rounds of one server."""
    # Drafts would make the stream faster than a token by a token.
    with serving(options, options.model, "--speculative_ngram", 0) as (address, _):
        stream_seconds(address, options)
        return [(engine_seconds(options), *stream_seconds(address, options)) for _ in range(options.rounds)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True, type=existing)
    parser.add_argument("--threads", type=at_least(1), default=len(os.sched_getaffinity(0)))
    parser.add_argument("--generate", type=at_least(2), default=128, help="tokens of a run; at least 2")
    parser.add_argument("--starts", type=at_least(2), default=10, help="servers, one after the other; at least 2")
    parser.add_argument("--rounds", type=at_least(1), default=5, help="of each server")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    return parser.parse_args()


def main():
    options = parse()
    require(options.bin, "headrace-bench", "headrace", "headrace-server")
    starts = []
    for number in range(options.starts):
        print(f"server {number + 1} of {options.starts}", file=sys.stderr)
        starts.append(one_start(options))
    rounds = [times for start in starts for times in start]
    engine, stream, between = (statistics.median(times[i] for times in rounds) for i in range(3))
    ratios = [statistics.median(times[1] / times[0] for times in start) for start in starts]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    print(f"engine {1e3 * engine:.3f} ms per token; stream {1e3 * stream:.3f} ({stream / engine - 1:+.1%}), "
          f"between two tokens {1e3 * between:.3f} ({between / engine - 1:+.1%}); mean over {len(starts)} starts "
          f"{statistics.mean(ratios) - 1:+.1%} with a standard error of {error:.1%}, from {min(ratios) - 1:+.1%} to "
          f"{max(ratios) - 1:+.1%}")


if __name__ == "__main__":
    run_main(main)
