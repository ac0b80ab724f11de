"""The programs that benchmarks run: what is missing or fails is said in one line, and nothing stays behind."""
import argparse
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"


class Failed(Exception):
    """A measurement that cannot be made; the text says why."""


def at_least(lowest):
    """A whole number for argparse."""
    def number(text):
        if int(text) < lowest:
            raise argparse.ArgumentTypeError(f"must be at least {lowest}; is {text}")
        return int(text)
    number.__name__ = "whole number"  # argparse names it where int() refuses
    return number


def existing(text):
    """A path for argparse."""
    path = pathlib.Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    return path


def writable(text):
    """The path of a file to be written, for argparse: to know it after all rounds is late."""
    path = pathlib.Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"cannot write {path}")
    return path


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def require(folder, *names):
    for name in names:
        if not (folder / name).is_file():
            raise Failed(f"{folder / name} is not built")


def run(*command):
    """What a program prints as JSON."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{pathlib.Path(command[0]).name} ended with {done.returncode}: {last_line(done.stderr)}")
    return json.loads(done.stdout)


@contextlib.contextmanager
def serving(options, model, *flags):
    """(address, process id) of a server; it is gone afterwards."""
    command = [options.bin / "headrace-server", "--model", model, "--listen", "127.0.0.1:0", "--threads",
               options.threads, *flags]
    # A pipe that nobody reads would fill.
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=said, text=True) as server:
        try:
            ready = server.stdout.readline()
            if not ready:
                status = server.wait()
                said.seek(0)
                raise Failed(f"headrace-server ended with {status}: {last_line(said.read())}")
            yield json.loads(ready)["listen"][0], server.pid
        finally:
            server.terminate()


@contextlib.contextmanager
def stopping_when_terminated():
    """SIGTERM works as Ctrl-C does, by way of everything that has a server to stop. Afterwards there is nothing to
    stop, and it ends the process at once: an exception while the interpreter shuts down would only be printed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run_main(main):
    """main() of a script."""
    try:
        with stopping_when_terminated():
            main()
    except Failed as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
