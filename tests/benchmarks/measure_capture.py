#!/usr/bin/env python3
"""What capturing the residual stream costs: one run, interleaved rounds, medians.

    measure_capture.py --model MODEL.gguf [--threads 2] [--numerics fast] [--rounds 5] [--json FILE]
                       [--only prefill,decode,stream,slow,transformer_lens]

prefill           a prompt's resid_post of all layers, float32, streamed to a C++ client,
                  beside the same prompt without capture
decode            decoding with resid_post of one layer captured, beside none
stream            rows of a model that costs next to nothing to compute, read by a C++ client,
                  beside a bare gRPC stream of bytes in messages of the same size; and kept in
                  arrays, by the C++ client and by the Python one
slow              a minute of 200 clients that read 1 KiB/s each: the server's memory, and the
                  decoding speed of one more stream before and meanwhile
transformer_lens  run_with_cache() of TransformerLens, where this Python has it

Clients and server share the machine's cores, so every figure pays for both ends.
The C++ client is build/release/bin/capture_benchmark; the Python one is the
package headrace of this interpreter.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from programs import BIN, at_least, existing, require, run, run_main, serving, writable

PARTS = ("prefill", "decode", "stream", "slow", "transformer_lens")
# Eight rows of 8 KiB per position.
WIDE_HOOKS = "embed,resid_pre,attn_norm_out,attn_out,resid_mid,mlp_norm_out,mlp_out,resid_post"
WIDE_PROMPT = 2000


class Bench:
    def __init__(self, options):
        self.options = options
        self.seed = 0

    @contextlib.contextmanager
    def server(self, model, *flags):
        """(address, process id)"""
        with serving(self.options, model, "--numerics", self.options.numerics, *flags) as running:
            yield running

    def client(self, *flags):
        return run(self.options.bin / "capture_benchmark", *flags)

    def run(self, address, *flags):
        """One measurement of a prompt that no other one had."""
        self.seed += 1
        return self.client("--address", address, "--seed", self.seed, *flags)

    def rounds(self, **measures):
        """Values of measures that take turns."""
        values = Rounds((name, []) for name in measures)
        for round_number in range(self.options.rounds):
            for name, measure in measures.items():
                print(f"round {round_number + 1} of {self.options.rounds}: {name}", file=sys.stderr)
                values[name].append(measure())
        return values


class Rounds(dict):
    """{name: one value of each round}"""

    def median(self, name):
        return statistics.median(self[name])

    def ratio(self, name, other):
        """Of neighbours in time, so that what disturbs a round disturbs both."""
        return statistics.median(a / b for a, b in zip(self[name], self[other]))


def processor_seconds(process):
    with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
        user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def prefill(bench):
    with bench.server(bench.options.model) as (address, process):
        flags = ("--prompt", bench.options.prompt, "--vocabulary", 32000)
        processor = Rounds(plain=[], captured=[])

        def seconds(name, *hooks):
            before = processor_seconds(process)
            result = bench.run(address, *flags, *hooks)
            processor[name].append(processor_seconds(process) - before)
            return result["seconds"]

        found = bench.rounds(plain=lambda: seconds("plain"),
                             captured=lambda: seconds("captured", "--hooks", "resid_post"))
        size = bench.run(address, *flags, "--hooks", "resid_post")["bytes"]
    tokens = bench.options.prompt
    return {"tokens": tokens, "megabytes": size / 1e6, "plain_tokens_per_second": tokens / found.median("plain"),
            "captured_tokens_per_second": tokens / found.median("captured"), "ratio": found.ratio("plain", "captured"),
            "server_processor_ratio": processor.ratio("plain", "captured")}


def decode(bench):
    # Without guesses: how many of them come depends on the text.
    with bench.server(bench.options.model, "--speculative_ngram", "0") as (address, _):
        flags = ("--prompt", 32, "--generate", bench.options.generate, "--vocabulary", 32000)
        speed = "decode_tokens_per_second"
        found = bench.rounds(
            plain=lambda: bench.run(address, *flags)[speed],
            captured=lambda: bench.run(address, *flags, "--hooks", "resid_post", "--layer", 12)[speed])
    return {"plain_tokens_per_second": found.median("plain"), "captured_tokens_per_second": found.median("captured"),
            "ratio": found.ratio("captured", "plain")}


@contextlib.contextmanager
def bytes_server(bench):
    with subprocess.Popen([bench.options.bin / "capture_benchmark", "--mode", "serve_bytes"], stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def python_client(address):
    """A function that reads the same rows with the Python client; None without it."""
    try:
        import headrace
    except ImportError:
        return None
    client = headrace.Client(address)
    count = iter(range(1, 1 << 30))

    def read():
        first = next(count)
        tokens = [4 + (first * 7919 + i * 104729) % 240 for i in range(WIDE_PROMPT)]
        start = time.perf_counter()
        _, cache = client.run_with_cache(tokens, hooks=WIDE_HOOKS.split(","), cache={"use_prefix": False})
        return sum(array.nbytes for array in cache.values()) / (time.perf_counter() - start) / 1e9

    return read


def stream(bench):
    def speed(result):
        return result["bytes"] / result["seconds"] / 1e9

    with tempfile.TemporaryDirectory() as folder, bytes_server(bench) as bare:
        model = bench.client("--mode", "write_model", "--folder", folder)["path"]
        with bench.server(model) as (address, _):
            rows = ("--prompt", WIDE_PROMPT, "--hooks", WIDE_HOOKS)
            read = python_client(address)
            found = bench.rounds(
                bare=lambda: speed(bench.client("--mode", "read_bytes", "--address", bare, "--megabytes", 128)),
                compute=lambda: bench.run(address, "--prompt", WIDE_PROMPT)["seconds"],
                read=lambda: speed(bench.run(address, *rows)),
                kept=lambda: speed(bench.run(address, *rows, "--keep")),
                **({"python": read} if read else {}))
    report = {f"{name}_gigabytes_per_second": found.median(name) for name in found if name != "compute"}
    report.update(compute_seconds=found.median("compute"), read_of_bare=found.ratio("read", "bare"))
    if read:
        report["python_of_kept"] = found.ratio("python", "kept")
    return report


def resident_megabytes(process):
    with open(f"/proc/{process}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def slow(bench):
    flags = ("--prompt", 32, "--generate", 128, "--vocabulary", 32000)
    with bench.server(bench.options.model, "--speculative_ngram", "0", "--max_num_seqs", "256") as (address, process):
        def speed():
            return bench.run(address, *flags)["decode_tokens_per_second"]

        before = statistics.median(speed() for _ in range(2 * bench.options.rounds))
        command = [bench.options.bin / "capture_benchmark", "--mode", "slow", "--address", address, "--readers", "200",
                   "--prompt", "16", "--generate", "400", "--vocabulary", "32000", "--hooks", "resid_post",
                   "--chunk_bytes", "4096", "--duration", "10m"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as readers:
            try:
                assert json.loads(readers.stdout.readline())["event"] == "reading"
                wait_until_idle(process)  # all buffers are full
                end = time.monotonic() + bench.options.slow_seconds
                memory, meanwhile = [resident_megabytes(process)], []
                while time.monotonic() < end:
                    meanwhile.append(speed())
                    memory.append(resident_megabytes(process))
                assert readers.poll() is None, "a slow reader was ended"
            finally:
                readers.kill()
    return {"readers": 200, "memory_megabytes_first": memory[0], "memory_megabytes_last": memory[-1],
            "memory_megabytes_max": max(memory), "before_tokens_per_second": before,
            "meanwhile_tokens_per_second": statistics.median(meanwhile),
            "ratio": statistics.median(meanwhile) / before}


def wait_until_idle(process):
    busy = 1.0
    while busy > 0.05:
        before = processor_seconds(process)
        time.sleep(1)
        busy = processor_seconds(process) - before


def transformer_lens(bench):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformer_lens.model_bridge import TransformerBridge
    torch.set_num_threads(bench.options.threads)
    path = bench.options.model
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    model.config.architectures = ["LlamaForCausalLM"]
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    bridge = TransformerBridge.boot_transformers("SmolLM2", hf_model=model, device="cpu", dtype=torch.float32,
                                                 tokenizer=tokenizer)

    def cached(**options):
        bench.seed += 1
        ids = [(7919 * i + bench.seed) % 31000 + 500 for i in range(bench.options.prompt)]
        start = time.perf_counter()
        with torch.no_grad():
            bridge.run_with_cache(torch.tensor([ids]), **options)
        return time.perf_counter() - start

    cached()
    found = bench.rounds(resid_post=lambda: cached(names_filter=lambda name: name.endswith("hook_resid_post")),
                         everything=cached)
    tokens = bench.options.prompt
    return {"tokens": tokens, **{f"{name}_tokens_per_second": tokens / found.median(name) for name in found}}


def parts(text):
    names = text.split(",")
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return names


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=existing)
    parser.add_argument("--threads", type=at_least(1), default=len(os.sched_getaffinity(0)))
    parser.add_argument("--numerics", choices=("fast", "exact"), default="fast")
    parser.add_argument("--prompt", type=at_least(1), default=512)
    parser.add_argument("--generate", type=at_least(2), default=256)
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--slow_seconds", type=at_least(1), default=60)
    parser.add_argument("--only", type=parts, default=PARTS)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--json", type=writable)
    return parser.parse_args()


def main():
    options = parse()
    require(options.bin, "headrace-server", "capture_benchmark")
    bench, report = Bench(options), {}
    for part in options.only:
        try:
            report[part] = globals()[part](bench)
        except ImportError as error:
            print(f"left out: {part} ({error})", file=sys.stderr)
            continue
        print(part)
        for name, value in report[part].items():
            print(f"  {name:32}{value:12.3f}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    run_main(main)
