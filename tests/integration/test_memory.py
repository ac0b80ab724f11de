"""What a server takes of the machine: memory, and time to be ready."""
import concurrent.futures
import contextlib
import pathlib
import re
import time

import headrace
from headrace import derived, requests


def mappings(pid):
    """(name, {"Size": bytes, "Rss": …, "Anonymous": …}) of each, as the system counts them."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    for entry in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text)[1:]:
        words = entry.split("\n", 1)[0].split(None, 5)
        sizes = {key: int(kib) << 10 for key, kib in re.findall(r"(?m)^(\w+):\s+(\d+) kB", entry)}
        yield (words[5] if len(words) == 6 else ""), sizes


def mapped(pid, name):
    """Bytes of files called so that are in the server's memory."""
    return sum(sizes["Rss"] for path, sizes in mappings(pid) if name in path)


def resident(pid, kind="Rss"):
    """All but the cache of keys and values, which is by far the largest mapping."""
    all_sizes = [sizes for _, sizes in mappings(pid)]
    kv_cache = max(all_sizes, key=lambda sizes: sizes["Size"])
    return sum(sizes[kind] for sizes in all_sizes) - kv_cache[kind]


def test_weights_take_memory_once(smollm2_path, start):
    # Packed, they are read from the file no more, but for rows of the embedding.
    with start(smollm2_path) as address, headrace.Client(address) as client:
        assert client.generate_text("Hello", max_tokens=4)
        assert 0 < mapped(address.pid, smollm2_path.name) < smollm2_path.stat().st_size / 8


def looks_during(stream, look):
    """What `look` says, asked all the time until the stream ends."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        ended = pool.submit(lambda: sum(1 for _ in stream))
        while not ended.done():
            yield look()
    assert ended.result()


def test_rows_of_the_embedding_do_not_pile_up(smollm2_path, start):
    # All over the vocabulary: each row brings 64 KiB of the file along.
    prompt = list(range(100, 49_100, 49))
    with start(smollm2_path) as address, headrace.Client(address) as client:
        stream = client.generate(prompt, max_tokens=16, temperature=0)
        assert max(looks_during(stream, lambda: mapped(address.pid, smollm2_path.name))) < 2 << 20


def test_projections_of_attribution_do_not_stay(smollm2_path, start):
    by_head = derived.logit_attribution([260], by_head=True)
    with start(smollm2_path) as address, headrace.Client(address) as client:
        stream = client.generate("Hello", max_tokens=8, temperature=0, capture=requests.derived_capture([by_head], None))
        assert max(mapped(address.pid, smollm2_path.name) for _ in stream) < 2 << 20


def test_a_quarter_of_the_file_is_enough_for_everything_else(smollm2_path, start):
    most = 1.25 * smollm2_path.stat().st_size
    with start(smollm2_path, "--kv_cache_bytes", "1000000000") as address, headrace.Client(address) as client:
        assert resident(address.pid) < most
        assert client.generate_text("The capital of France is", max_tokens=64)
        deadline = time.monotonic() + 30
        while resident(address.pid) >= most:
            assert time.monotonic() < deadline, "what the request took stays"
            time.sleep(0.1)


def code(pid):
    """Bytes of the program and its libraries that are in memory as they are in their files."""
    return sum(sizes["Rss"] - sizes["Anonymous"] for name, sizes in mappings(pid)
               if ".so" in name or name.endswith("headrace-server"))


def test_code_that_ran_once_does_not_stay_while_a_request_runs(smollm2_path, start):
    with start(smollm2_path) as address, headrace.Client(address) as client:
        stream = client.generate("Hello", max_tokens=2000, temperature=0, ignore_eos=True)
        looks = list(looks_during(stream, lambda: code(address.pid)))
        most = looks.index(max(looks))
        assert min(looks[most:]) < looks[most] - (1 << 20)


def test_onednn_is_there_for_products_in_float32_alone(smollm2_path, start):
    with start(smollm2_path) as address:
        assert mapped(address.pid, "/libdnnl") == 0
    with start(smollm2_path, "--numerics", "exact") as address:
        assert mapped(address.pid, "/libdnnl") > 0


def text_of(address):
    with headrace.Client(address) as client:
        return client.generate_text("The capital of France is", max_tokens=24, temperature=0)


def test_a_server_maps_what_another_one_packed(smollm2_path, start, tmp_path):
    flags = ("--packed_cache_dir", str(tmp_path / "packed"))
    with start(smollm2_path) as address:
        expected = text_of(address)
    with start(smollm2_path, *flags) as address:
        assert text_of(address) == expected
        assert mapped(address.pid, ".packed") == 0
    (image,) = (tmp_path / "packed").glob("*.packed")
    made = image.stat()
    with start(smollm2_path, *flags) as address:
        assert text_of(address) == expected
        # All of it, and memory of its own only for the rest.
        assert mapped(address.pid, ".packed") > 0.95 * made.st_size
        assert resident(address.pid, "Anonymous") < 0.15 * made.st_size
        assert mapped(address.pid, smollm2_path.name) < smollm2_path.stat().st_size / 8
    assert image.stat().st_ino == made.st_ino


def test_servers_that_start_at_once_share_what_they_packed(smollm2_path, start, tmp_path):
    flags = ("--packed_cache_dir", str(tmp_path))
    with contextlib.ExitStack() as servers:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            addresses = list(pool.map(lambda _: servers.enter_context(start(smollm2_path, *flags)), range(3)))
        assert len({text_of(address) for address in addresses}) == 1
    assert len(list(tmp_path.glob("*.packed"))) == 1
    assert not list(tmp_path.glob("*.unfinished"))
    with start(smollm2_path, *flags) as address:
        assert mapped(address.pid, ".packed")


def test_a_damaged_image_is_packed_again(smollm2_path, start, tmp_path):
    flags = ("--packed_cache_dir", str(tmp_path))
    with start(smollm2_path, *flags) as address:
        expected = text_of(address)
    (image,) = tmp_path.glob("*.packed")
    with image.open("r+b") as file:
        file.seek(image.stat().st_size // 2)
        file.write(b"damage")
    said = tmp_path / "said"
    with said.open("w") as errors, start(smollm2_path, *flags, stderr=errors) as address:
        assert text_of(address) == expected
    assert "check sum" in said.read_text() and image.name in said.read_text()
    with start(smollm2_path, *flags) as address:
        assert mapped(address.pid, ".packed")


def test_the_default_model_is_ready_in_a_second_and_a_half(smollm2_path, start, tmp_path):
    def seconds(*flags):
        began = time.monotonic()
        with start(smollm2_path, *flags):
            return time.monotonic() - began

    # The best of three: the machine may be busy with other tests.
    assert min(seconds() for _ in range(3)) < 1.5
    seconds("--packed_cache_dir", str(tmp_path))
    assert min(seconds("--packed_cache_dir", str(tmp_path)) for _ in range(3)) < 1
