"""What a server takes of the machine: memory, and time to be ready."""
import pathlib
import re

import headrace


def mappings(pid):
    """(name, {"Size": bytes, "Rss": …, "Anonymous": …}) of each, as the system counts them."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    for entry in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text)[1:]:
        words = entry.split("\n", 1)[0].split(None, 5)
        sizes = {key: int(kib) << 10 for key, kib in re.findall(r"(?m)^(\w+):\s+(\d+) kB", entry)}
        yield (words[5] if len(words) == 6 else ""), sizes


def mapped(pid, name):
    """Bytes of files called so that are in the server's memory."""
    return sum(sizes["Rss"] for path, sizes in mappings(pid) if path.endswith(name))


def own_memory(pid):
    """All but files and the cache of keys and values, which is by far the largest mapping."""
    all_sizes = [sizes for _, sizes in mappings(pid)]
    kv_cache = max(all_sizes, key=lambda sizes: sizes["Size"])
    return sum(sizes["Anonymous"] for sizes in all_sizes) - kv_cache["Anonymous"]


def test_weights_take_memory_once(smollm2_path, start):
    # Packed, they are read from the file no more, but for rows of the embedding.
    with start(smollm2_path) as address, headrace.Client(address) as client:
        assert client.generate_text("Hello", max_tokens=4)
        assert 0 < mapped(address.pid, smollm2_path.name) < smollm2_path.stat().st_size / 8


def test_a_quarter_of_the_file_is_enough_for_everything_else(smollm2_path, start):
    with start(smollm2_path, "--kv_cache_bytes", "1000000000") as address:
        assert own_memory(address.pid) < 1.25 * smollm2_path.stat().st_size
