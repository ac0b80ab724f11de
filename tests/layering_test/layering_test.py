"""Fails on an include that points against the arrows between the rooms.

Every #include of engine/, server/ and client/ is compared with ARROWS, those of
third-party headers with EDGES, and the libraries that a room's CMakeLists.txt
links with the same arrows. Adding a room is one line in ARROWS.
"""

import os
import pathlib
import re
import tempfile
import unittest

STATUS = "engine/base/status_macros.h"
# What the engine shows: these headers and all of the engine that they include.
ENGINE_DOORS = (
    "engine/engine.h", "engine/batch.h", "engine/numerics_options.h",
    # To work with what the engine hands out and takes: text, rows, JSON.
    "engine/tokenizer/detokenizer.h", "engine/tokenizer/stop_matcher.h",
    "engine/tensor/half.h", "engine/weights/json_document.h", STATUS,
)
# Stands for the closure of ENGINE_DOORS in the table below.
ENGINE_PUBLIC = "engine's public headers"

# room: the rooms, or single headers, that its files may include beside its own.
# A file belongs to the longest name that its path starts with.
ARROWS = {
    "engine/base": (),
    "engine/checksum": (),
    "engine/tensor": ("engine/base",),
    "engine/weights": ("engine/tensor", "engine/base"),
    "engine/tokenizer": ("engine/base",),
    "engine/sampling": ("engine/base",),
    "engine/rope": ("engine/base",),
    "engine/position": ("engine/rope", "engine/tensor", "engine/base"),
    "engine/ops/kernels": ("engine/tensor", "engine/base"),
    "engine/ops": (
        "engine/ops/kernels", "engine/checksum", "engine/tensor", "engine/base",
    ),
    "engine/kv_cache": ("engine/tensor", "engine/base"),
    "engine/model": (
        "engine/position", "engine/ops", "engine/kv_cache", "engine/rope",
        "engine/tensor", "engine/base",
    ),
    # Captures and interventions know the hooks of the bus and how to read them
    # in tokens, not the model.
    "engine/capture": (
        "engine/model/hook_point.h", "engine/model/step_observer.h",
        "engine/model/unembedding.h", "engine/sampling", "engine/ops",
        "engine/tensor", "engine/base",
    ),
    "engine/architectures": (
        "engine/model", "engine/weights", "engine/ops", "engine/position",
        "engine/rope", "engine/tensor", "engine/base",
    ),
    "engine": (
        "engine/architectures", "engine/capture", "engine/sampling",
        "engine/tokenizer", "engine/weights", "engine/model", "engine/position",
        "engine/kv_cache", "engine/ops", "engine/checksum", "engine/rope",
        "engine/tensor", "engine/base",
    ),
    "server/vectors": (ENGINE_PUBLIC,),
    "server/batching": ("server/vectors", "engine/checksum", ENGINE_PUBLIC),
    # The values that go into and come out of the queue, not the loop.
    "server/convert": (
        "server/batching/request.h", "server/batching/events.h",
        "server/batching/retry_after.h", "server/vectors", "proto", ENGINE_PUBLIC,
    ),
    "server/auth": (STATUS,),
    "server/metrics": ("server/batching/batch_stats.h", "server/vectors/store_stats.h", STATUS),
    "server/rpc": (
        "server/batching", "server/convert", "server/auth", "server/metrics",
        "server/vectors", "proto", ENGINE_PUBLIC,
    ),
    "server": (
        "server/rpc", "server/batching", "server/vectors", "server/convert", "server/auth",
        "server/metrics", "proto", ENGINE_PUBLIC, "engine/base",
    ),
    "client/cpp/internal": ("client/cpp", "proto"),
    # The messages are the SDK's own types; the stub is not.
    "client/cpp": ("client/cpp/internal", "engine/checksum", "proto"),
    # The files of directions that it imports are those of models.
    "client/cli": ("client/cpp", "engine/weights", "engine/tensor", "proto"),
}

# Third-party headers that only some rooms may see: regular expression: rooms.
EDGES = {
    r"dnnl|oneapi/dnnl": ("engine/ops",),
    r"hwy/|immintrin\.h|x86intrin\.h|arm_neon\.h": ("engine/ops/kernels", "engine/checksum"),
    r"omp\.h": ("engine/ops", "engine/base"),
    r"grpc/|grpcpp/|.*\.grpc\.pb\.h": (
        "server", "server/rpc", "server/auth", "client/cpp/internal",
    ),
    r"google/|.*\.pb\.h": (
        "server", "server/rpc", "server/convert", "server/auth",
        "client/cpp", "client/cpp/internal", "client/cli",
    ),
    r"prometheus/": ("server", "server/metrics"),
}

# A public header of the SDK must not show what internal/ hides.
HIDDEN = {r"client/cpp/[^/]+\.h": r"client/cpp/internal/"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)
LIBRARY = re.compile(r"headrace_library\(([^)]*)\)")
TREES = ("engine", "server", "client")


def room_of(path):
    """The room of a file by its path from the root, or None."""
    if path.startswith(("proto/", "headrace/v1/")):
        return "proto"
    fitting = [room for room in ARROWS if path.startswith(room + "/")]
    return max(fitting, key=len, default=None)


def read_includes(root):
    """{path of a source file: the paths it includes, as written}."""
    includes = {}
    for tree in TREES:
        for folder, _, names in os.walk(root / tree):
            for name in names:
                if name.endswith((".h", ".cc")):
                    path = pathlib.Path(folder, name)
                    text = path.read_text(encoding="utf-8")
                    includes[path.relative_to(root).as_posix()] = INCLUDE.findall(text)
    return includes


def closure(headers, includes):
    """The headers, and all of the project that they include in turn."""
    seen, waiting = set(), list(headers)
    while waiting:
        header = waiting.pop()
        if header in includes and header not in seen:
            seen.add(header)
            waiting += includes[header]
    return seen


def allowed(room, target, public):
    """Whether a file of `room` may include the project's file `target`."""
    if room_of(target) == room:
        return True
    for arrow in ARROWS[room]:
        if target == arrow or room_of(target) == arrow:
            return True
        if arrow == ENGINE_PUBLIC and target in public:
            return True
    return False


def check_file(path, targets, root, public):
    room = room_of(path)
    if room is None:
        return [f"{path}: its folder is in no room; add the room to ARROWS"]
    faults = []
    for target in targets:
        for pattern, rooms in EDGES.items():
            if re.match(pattern, target) and room not in rooms:
                faults.append(f"{path}: {target} may be included only in {', '.join(rooms)}")
        for pattern, hidden in HIDDEN.items():
            if re.fullmatch(pattern, path) and re.match(hidden, target):
                faults.append(f"{path}: a public header must not include {target}")
        ours = target.startswith(tuple(tree + "/" for tree in TREES + ("tests", "proto", "headrace")))
        if ours and not allowed(room, target, public):
            faults.append(f"{path}: {room} must not include {target}")
        elif not ours and (root / path).parent.joinpath(target).is_file():
            faults.append(f"{path}: write {target} with its path from the root")
    return faults


def find_cycle(includes):
    """A chain of headers that includes itself, or None."""
    done = set()

    def visit(path, chain):
        if path in chain:
            return chain[chain.index(path):] + [path]
        if path in done or path not in includes:
            return None
        for target in includes[path]:
            cycle = visit(target, chain + [path])
            if cycle:
                return cycle
        done.add(path)
        return None

    for path in sorted(includes):
        cycle = visit(path, [])
        if cycle:
            return cycle
    return None


def may_link(room, other):
    """Whether the library of `room` may link that of `other`."""
    arrows = ARROWS[room]
    return (
        other in (room, *arrows)
        or any(arrow.endswith(".h") and room_of(arrow) == other for arrow in arrows)
        or (ENGINE_PUBLIC in arrows and other.split("/")[0] == "engine")
    )


def check_links(root):
    """The link graph of the CMake targets against the same arrows."""
    rooms = {room.replace("/", "_"): room for room in (*ARROWS, "proto")}
    faults = []
    for tree in TREES:
        for file in sorted((root / tree).rglob("CMakeLists.txt")):
            for body in LIBRARY.findall(file.read_text(encoding="utf-8")):
                words = body.split()
                target = words[words.index("NAME") + 1]
                if target not in rooms:
                    continue
                for word in words:
                    if word in rooms and not may_link(rooms[target], rooms[word]):
                        faults.append(f"{file.relative_to(root)}: {target} must not link {word}")
    return faults


def check_tree(root):
    """All faults of the tree under `root`, as lines for a person."""
    includes = read_includes(root)
    public = closure(ENGINE_DOORS, includes)
    faults = []
    for path, targets in sorted(includes.items()):
        faults += check_file(path, targets, root, public)
    cycle = find_cycle(includes)
    if cycle:
        faults.append("include cycle: " + " → ".join(cycle))
    return faults + check_links(root)


class LayeringTest(unittest.TestCase):

    def test_the_tree_follows_the_arrows(self):
        root = pathlib.Path(__file__).resolve().parents[2]

        self.assertGreater(len(read_includes(root)), 20, "no sources found")
        self.assertEqual(check_tree(root), [])

    def test_the_arrows_have_no_cycle(self):
        graph = {room: {room_of(a + "/x") for a in arrows if not a.endswith(".h")}
                 for room, arrows in ARROWS.items()}
        # Two rooms that are one for the linker: a library and its private half.
        graph["client/cpp/internal"].discard("client/cpp")

        self.assertIsNone(find_cycle({room: sorted(to - {room, None}) for room, to in graph.items()}))


class PlantedFaultTest(unittest.TestCase):
    """Each rule is seen failing on a small tree with one fault."""

    GOOD = {
        "engine/base/status_macros.h": "#pragma once\n",
        "engine/tensor/dtype.h": '#include "engine/base/status_macros.h"\n',
        "engine/model/hook_point.h": '#include "engine/tensor/dtype.h"\n',
        "engine/model/decoder.h": "#include <vector>\n",
        "engine/ops/linear.cc": '#include <dnnl.hpp>\n#include "engine/ops/kernels/gemv.h"\n',
        "engine/ops/kernels/gemv.h": '#include "hwy/highway.h"\n',
        "engine/engine.h": '#include "engine/batch.h"\n#include "engine/model/hook_point.h"\n',
        "engine/batch.h": "",
        "server/batching/scheduler.h": '#include "engine/engine.h"\n#include "engine/model/hook_point.h"\n',
        "server/rpc/generate.cc": '#include <grpcpp/grpcpp.h>\n#include "server/batching/scheduler.h"\n',
        "client/cpp/client.h": "",
        "client/cpp/client.cc": '#include "client/cpp/internal/stub.h"\n',
        "client/cpp/internal/stub.h": '#include "headrace/v1/inference.grpc.pb.h"\n',
        "client/cli/main.cc": '#include "client/cpp/client.h"\n',
        "engine/tensor/CMakeLists.txt": "headrace_library(NAME engine_tensor SRCS a.cc DEPS engine_base)\n",
    }

    def faults(self, added=None):
        """Faults of GOOD with a line added to each file of `added`."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            files = dict(self.GOOD)
            for path, text in (added or {}).items():
                files[path] = files.get(path, "") + text + "\n"
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            return check_tree(root)

    def check_one(self, path, line, expected):
        faults = self.faults({path: line})

        self.assertEqual(len(faults), 1, faults)
        self.assertIn(expected, faults[0])

    def test_a_good_tree_has_none(self):
        self.assertEqual(self.faults(), [])

    def test_an_arrow_upwards(self):
        self.check_one("engine/tensor/dtype.h", '#include "engine/ops/x.h"',
                       "engine/tensor must not include engine/ops/x.h")

    def test_the_engine_including_the_server(self):
        self.check_one("engine/base/status_macros.h", '#  include "server/server.h"',
                       "engine/base must not include server/server.h")

    def test_batching_behind_the_engines_door(self):
        self.check_one("server/batching/scheduler.h", '#include "engine/model/decoder.h"',
                       "server/batching must not include engine/model/decoder.h")

    def test_the_cli_behind_the_sdks_door(self):
        self.check_one("client/cli/main.cc", '#include "client/cpp/internal/stub.h"',
                       "client/cli must not include client/cpp/internal/stub.h")

    def test_a_public_header_showing_internals(self):
        self.check_one("client/cpp/client.h", '#include "client/cpp/internal/other.h"',
                       "public header must not include")

    def test_onednn_outside_ops(self):
        self.check_one("engine/model/decoder.h", "#include <dnnl.hpp>", "only in engine/ops")

    def test_highway_outside_kernels(self):
        self.check_one("engine/ops/linear.cc", '#include "hwy/highway.h"', "only in engine/ops/kernels")

    def test_grpc_in_batching(self):
        self.check_one("server/batching/scheduler.h", "#include <grpcpp/grpcpp.h>", "may be included only in")

    def test_a_test_in_the_product(self):
        self.check_one("engine/engine.h", '#include "tests/testing/fake_engine.h"', "must not include tests/")

    def test_a_cycle_of_headers(self):
        self.check_one("engine/batch.h", '#include "engine/engine.h"', "include cycle")

    def test_a_path_not_from_the_root(self):
        self.check_one("engine/model/decoder.h", '#include "hook_point.h"', "path from the root")

    def test_a_folder_that_is_no_room(self):
        self.check_one("client/games/chess.h", "", "in no room")

    def test_a_wrong_link(self):
        self.check_one("engine/ops/CMakeLists.txt", "headrace_library(NAME engine_ops SRCS a.cc DEPS engine_model)",
                       "engine_ops must not link engine_model")


if __name__ == "__main__":
    unittest.main()
