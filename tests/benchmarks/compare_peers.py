#!/usr/bin/env python3
"""Headrace beside its peers: same weights, same prompt, same threads, one run.

    compare_peers.py --model MODEL.gguf [--threads 2] [--prompt 512] [--generate 128]
                     [--rounds 5] [--html FILE] [--json FILE] [--skip_precision]

Builds nothing. Peers are taken where they are found: llama.cpp as PyPI's
llama-cpp-python, transformers (float32, the file's weights dequantised),
OpenVINO GenAI, from the file itself or an export with --openvino FOLDER. Rounds are interleaved: every peer once,
then every peer again, so that a busy neighbour slows all of them; the table has
medians and the ratio of headrace to each peer. Each peer has a process of its own:
threads that one library leaves spinning would slow down another's. The roofs of
the machine are measured in the same run by build/release/bin/measure_roofs.

Speed without equal precision says nothing: perplexity of a public-domain text
and the mean KL divergence from transformers' float32 distributions stand beside
it (Lewis Carroll, Alice's Adventures in Wonderland, 1865, chapter I).
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import pathlib
import platform
import statistics
import sys
import time
from dataclasses import dataclass, field

from programs import (BIN, Failed, at_least, existing, require, run, run_main, serving, stopping_when_terminated,
                      writable)

TEXT = """Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do:
once or twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, "and
what is the use of a book," thought Alice "without pictures or conversations?" So she was considering in her own mind
(as well as she could, for the hot day made her feel very sleepy and stupid), whether the pleasure of making a
daisy-chain would be worth the trouble of getting up and picking the daisies, when suddenly a White Rabbit with pink
eyes ran close by her. There was nothing so very remarkable in that; nor did Alice think it so very much out of the way
to hear the Rabbit say to itself, "Oh dear! Oh dear! I shall be late!" (when she thought it over afterwards, it occurred
to her that she ought to have wondered at this, but at the time it all seemed quite natural); but when the Rabbit
actually took a watch out of its waistcoat-pocket, and looked at it, and then hurried on, Alice started to her feet."""


@dataclass
class Result:
    prefill: list = field(default_factory=list)  # tokens per second, one per round
    decode: list = field(default_factory=list)
    operations: int = 0  # of the blocks' weights for each prompt token; by headrace
    log_probabilities: object = None  # [positions, vocabulary] of TEXT, natural logs


def tokens_of_prompt(count, vocab_size, first=13):
    """Ids that no tokenizer made: speed does not depend on them. Another `first`, another prompt."""
    return [(7919 * i + first) % (vocab_size - 1000) + 500 for i in range(count)]


class Headrace:
    """The engine alone (headrace-bench); logits through the server."""

    def __init__(self, options, numerics):
        self.name = f"headrace {numerics}"
        self.options = options
        self.numerics = numerics

    def measure(self, result):
        report = run(self.options.bin / "headrace-bench", "--model", self.options.model, "--prompt",
                     self.options.prompt, "--generate", self.options.generate, "--depth", self.options.depth,
                     "--repeat", 1, "--threads", self.options.threads, "--numerics", self.numerics, "--json")
        result.prefill.append(report["prefill_tokens_per_second"]["median"])
        result.decode.append(report["decode_tokens_per_second"]["median"])
        result.operations = report["operations_per_prompt_token"]

    def log_probabilities(self, ids):
        import headrace
        import numpy as np
        with serving(self.options, self.options.model, "--numerics", self.numerics) as (address, _):
            with headrace.Client(address) as client:
                logits, _ = client.run_with_cache(ids, hooks=[])
        return log_softmax(np.asarray(logits, np.float64))


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, options):
        import llama_cpp
        self.options = options
        self.llama = llama_cpp.Llama(
            str(options.model), n_ctx=options.depth + options.prompt + options.generate + 8, n_batch=512, n_ubatch=512,
            n_threads=options.threads, n_threads_batch=options.threads, logits_all=False, verbose=False)
        self.name = f"llama.cpp (llama-cpp-python {llama_cpp.__version__})"

    def measure(self, result):
        vocab_size = self.llama.n_vocab()
        prompt = tokens_of_prompt(self.options.depth + self.options.prompt, vocab_size)
        self.llama.reset()
        if self.options.depth:
            self.llama.eval(prompt[:self.options.depth])
        start = time.perf_counter()
        self.llama.eval(prompt[self.options.depth:])
        result.prefill.append(self.options.prompt / (time.perf_counter() - start))
        start = time.perf_counter()
        for token in tokens_of_prompt(self.options.generate, vocab_size):
            self.llama.eval([token])
        result.decode.append(self.options.generate / (time.perf_counter() - start))

    def log_probabilities(self, ids):
        import llama_cpp
        import numpy as np
        llama = llama_cpp.Llama(str(self.options.model), n_ctx=len(ids) + 8, n_batch=512,
                                n_threads=self.options.threads, logits_all=True, verbose=False)
        llama.eval(list(ids))
        return log_softmax(np.array(llama.scores[:len(ids)], np.float64))


class Transformers:
    def __init__(self, options):
        import torch
        import transformers
        torch.set_num_threads(options.threads)
        self.torch = torch
        self.options = options
        path = pathlib.Path(options.model)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            str(path.parent), gguf_file=path.name, torch_dtype=torch.float32).eval()
        self.name = f"transformers {transformers.__version__} float32"

    def measure(self, result):
        torch, vocab_size = self.torch, self.model.config.vocab_size
        prompt = torch.tensor([tokens_of_prompt(self.options.depth + self.options.prompt, vocab_size)])
        with torch.no_grad():
            past = None
            if self.options.depth:
                past = self.model(prompt[:, :self.options.depth], use_cache=True).past_key_values
            start = time.perf_counter()
            step = self.model(prompt[:, self.options.depth:], past_key_values=past, use_cache=True, logits_to_keep=1)
            result.prefill.append(self.options.prompt / (time.perf_counter() - start))
            start = time.perf_counter()
            for token in tokens_of_prompt(self.options.generate, vocab_size):
                step = self.model(torch.tensor([[token]]), past_key_values=step.past_key_values, use_cache=True)
            result.decode.append(self.options.generate / (time.perf_counter() - start))

    def log_probabilities(self, ids):
        import numpy as np
        with self.torch.no_grad():
            logits = self.model(self.torch.tensor([list(ids)])).logits[0]
        return log_softmax(logits.numpy().astype(np.float64))


class OpenVino:
    def __init__(self, options):
        import openvino_genai
        if options.depth:
            raise ImportError("no way to tell the prompt's speed from that of the context before it")
        self.options = options
        self.genai = openvino_genai
        self.pipeline = openvino_genai.LLMPipeline(
            str(options.openvino or options.model), "CPU", INFERENCE_NUM_THREADS=options.threads)
        self.name = f"OpenVINO GenAI {getattr(openvino_genai, '__version__', '')}".strip()
        self.runs = 0
        self.measure(Result())  # its first run compiles

    def measure(self, result):
        import numpy as np
        import openvino as ov
        # Its prefix cache would know a prompt that it has seen.
        ids = np.array([tokens_of_prompt(self.options.prompt, 32000, first=self.runs)], np.int64)
        self.runs += 1
        inputs = self.genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        config = self.genai.GenerationConfig(max_new_tokens=self.options.generate, ignore_eos=True, do_sample=False)
        metrics = self.pipeline.generate(inputs, config).perf_metrics
        result.prefill.append(self.options.prompt / (metrics.get_ttft().mean / 1000))
        result.decode.append(1000 / metrics.get_tpot().mean)

    def log_probabilities(self, ids):
        return None  # it gives out no distributions


def log_softmax(logits):
    import numpy as np
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


class Process:
    """A peer in a process of its own, asked over a pipe. What is raised there is raised here."""

    def __init__(self, kind, *arguments):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, kind, arguments), daemon=True)
        self.process.start()
        theirs.close()  # or a peer that crashed would not be the end of the pipe
        self.name = kind.__name__
        self.is_reference = kind is Transformers
        self.name = self.answer()

    def answer(self):
        try:
            answer = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise Failed(f"{self.name} ended with {self.process.exitcode}") from None
        if isinstance(answer, Exception):
            raise Failed(f"{self.name}: {answer}") from answer
        return answer

    def measure(self, result):
        self.pipe.send(("measure", Result()))
        one = self.answer()
        result.prefill += one.prefill
        result.decode += one.decode
        result.operations = one.operations

    def log_probabilities(self, ids):
        self.pipe.send(("log_probabilities", ids))
        return self.answer()


def serve(pipe, kind, arguments):
    """The other end of a Process."""
    try:
        with stopping_when_terminated():
            peer = kind(*arguments)
            pipe.send(peer.name)
            while True:
                method, argument = pipe.recv()
                answer = getattr(peer, method)(argument)
                pipe.send(argument if method == "measure" else answer)
    except EOFError:
        pass
    except Exception as error:  # pylint: disable=broad-except
        pipe.send(Failed(str(error) or repr(error)))  # theirs may not cross a pipe


def open_peers(options):
    peers = [Process(Headrace, options, "fast"), Process(Headrace, options, "exact")]
    for kind in (LlamaCpp, Transformers, OpenVino):
        try:
            peers.append(Process(kind, options))
        except Failed as error:
            # Not installed, or it does not know this kind of file; each says so in its own way.
            print(f"left out: {error}", file=sys.stderr)
    return peers


def ids_of_text(options):
    """TEXT in the model's own tokens, by headrace's tokenizer."""
    import headrace
    with serving(options, options.model) as (address, _), headrace.Client(address) as client:
        return client.tokenize(TEXT.replace("\n", " "))


def precision(peers, results, options):
    """[(perplexity, mean KL from transformers' float32)] in the peers' order."""
    import numpy as np
    ids = ids_of_text(options)
    rows = []
    for peer, result in zip(peers, results):
        print(f"precision: {peer.name}", file=sys.stderr)
        result.log_probabilities = peer.log_probabilities(ids)
    reference = next((r.log_probabilities for p, r in zip(peers, results) if p.is_reference), None)
    for result in results:
        logs = result.log_probabilities
        if logs is None:
            rows.append((None, None))
            continue
        next_tokens = logs[np.arange(len(ids) - 1), ids[1:]]
        divergence = None
        if reference is not None:
            width = min(reference.shape[-1], logs.shape[-1])
            p, q = reference[:, :width], logs[:, :width]
            divergence = float((np.exp(p) * (p - q)).sum(-1).mean())
        rows.append((math.exp(-float(next_tokens.mean())), divergence))
    return rows


def cpu_name():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def roofs(options):
    program = options.bin / "measure_roofs"
    if not program.exists():
        print(f"no roofs: {program} is not built", file=sys.stderr)
        return None
    return run(program, "--threads", options.threads)


def table(report):
    head = ("", "prefill t/s", "headrace ×", "decode t/s", "headrace ×", "perplexity", "KL to float32")
    rows = [head]
    for row in report["peers"]:
        rows.append((row["name"], f"{row['prefill']:.1f}", f"{row['prefill_ratio']:.2f}", f"{row['decode']:.1f}",
                     f"{row['decode_ratio']:.2f}",
                     "–" if row["perplexity"] is None else f"{row['perplexity']:.4f}",
                     "–" if row["kl"] is None else f"{row['kl']:.2e}"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
             for row in rows]
    if report["roofs"]:
        roof = report["roofs"]
        lines.append(f"roofs: read {roof['read_bytes_per_second'] / 1e9:.1f} GB/s, float32 "
                     f"{roof['float_operations_per_second'] / 1e9:.0f} GFLOP/s, int8 "
                     f"{roof['int8_operations_per_second'] / 1e9:.0f} GOP/s; headrace fast decode reads "
                     f"{100 * report['read_fraction']:.0f} % of the read roof")
    return "\n".join(lines)


def roof_rates(roof, operations, weight_bytes):
    """Tokens per second that the machine could do at the most, if weights alone cost anything."""
    return {"prefill": [{"name": "roof of int8", "prefill": roof["int8_operations_per_second"] / operations},
                        {"name": "roof of float32", "prefill": roof["float_operations_per_second"] / operations}],
            "decode": [{"name": "roof of memory", "decode": roof["read_bytes_per_second"] / weight_bytes}]}


def chart(report):
    """Bars of both speeds, and of the roofs, as one self-contained page."""
    def bars(key, title):
        rows = [(row["name"], row[key], "") for row in report["peers"]]
        if report["roofs"]:
            rows += [(row["name"], row[key], ' class="roof"') for row in report["roof_rates"][key]]
        best = max(value for _, value, _ in rows)
        lines = [f"<h2>{title}</h2>"]
        for name, value, kind in rows:
            lines.append(f'<div class="row"><span>{name}</span><i{kind} style="width:{60 * value / best:.2f}%"></i>'
                         f"<b>{value:.1f}</b></div>")
        return "\n".join(lines)
    style = ("body{font:15px system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
             ".row{display:flex;align-items:center;gap:.5rem;margin:.2rem 0}.row span{width:17rem;text-align:right}"
             ".row i{background:#3a86b8;height:1.1rem}.row i.roof{background:#999}pre{overflow:auto}")
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>headrace and its peers</title><style>{style}'
            f"</style><h1>{report['model']}</h1><p>{report['cpu']}, {report['threads']} threads, prompt "
            f"{report['prompt']}, generate {report['generate']}, depth {report['depth']}, median of {report['rounds']}"
            f" interleaved rounds; tokens per second</p>{bars('prefill', 'Prefill')}{bars('decode', 'Decode')}"
            f"<pre>{table(report)}</pre></html>")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, type=existing)
    parser.add_argument("--threads", type=at_least(1), default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt", type=at_least(1), default=512)
    parser.add_argument("--generate", type=at_least(2), default=128)
    parser.add_argument("--depth", type=at_least(0), default=0, help="tokens in the context before a run begins")
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--openvino", type=existing, help="a folder that optimum-cli exported, in place of the file")
    parser.add_argument("--skip_precision", action="store_true")
    parser.add_argument("--json", type=writable)
    parser.add_argument("--html", type=writable)
    return parser.parse_args()


def main():
    options = parse()
    require(options.bin, "headrace-bench", *(() if options.skip_precision else ("headrace-server",)))
    for module in () if options.skip_precision else ("headrace", "numpy"):
        if importlib.util.find_spec(module) is None:
            raise Failed(f"precision needs the Python package {module}; --skip_precision does without")
    peers = open_peers(options)
    results = [Result() for _ in peers]
    roof = roofs(options)
    for round_number in range(options.rounds):
        for peer, result in zip(peers, results):
            print(f"round {round_number + 1} of {options.rounds}: {peer.name}", file=sys.stderr)
            peer.measure(result)
    quality = [(None, None)] * len(peers) if options.skip_precision else precision(peers, results, options)
    ours = results[0]
    rows = []
    for peer, result, (perplexity, divergence) in zip(peers, results, quality):
        rows.append({
            "name": peer.name, "prefill": statistics.median(result.prefill), "decode": statistics.median(result.decode),
            "prefill_ratio": statistics.median(a / b for a, b in zip(ours.prefill, result.prefill)),
            "decode_ratio": statistics.median(a / b for a, b in zip(ours.decode, result.decode)),
            "perplexity": perplexity, "kl": divergence})
    report = {"model": options.model.name, "cpu": cpu_name(), "threads": options.threads, "prompt": options.prompt,
              "generate": options.generate, "depth": options.depth, "rounds": options.rounds, "peers": rows,
              "roofs": roof}
    if roof:
        weights = options.model.stat().st_size
        report["read_fraction"] = rows[0]["decode"] * weights / roof["read_bytes_per_second"]
        report["roof_rates"] = roof_rates(roof, ours.operations, weights)
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    if options.html:
        options.html.write_text(chart(report), encoding="utf-8")


if __name__ == "__main__":
    run_main(main)
