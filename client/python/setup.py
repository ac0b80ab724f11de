"""Generates messages, their types (.pyi) and gRPC stubs from the project's .proto
files while building.

The files are those of the repository (proto/ at its top), copied into an sdist
under protos/; nothing generated is kept in version control.
"""
import glob
import os
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))


def proto_root():
    for root in (os.path.join(HERE, "protos"), os.path.join(HERE, "..", "..", "proto")):
        if os.path.isdir(os.path.join(root, "headrace", "v1")):
            return os.path.normpath(root)
    raise RuntimeError("the .proto files are missing: build from the repository or from an sdist")


def proto_files():
    """Every message and service: the folder is the list."""
    return sorted(os.path.basename(path)
                  for path in glob.glob(os.path.join(proto_root(), "headrace", "v1", "*.proto")))


def run_protoc(arguments):
    """Debian's protoc with its Python plugin where both are, else PyPI's grpcio-tools."""
    protoc, plugin = shutil.which("protoc"), shutil.which("grpc_python_plugin")
    if protoc and plugin:
        return subprocess.call([protoc, f"--plugin=protoc-gen-grpc_python={plugin}", *arguments])
    from grpc_tools import protoc as grpcio_tools

    return grpcio_tools.main(["protoc", *arguments])


def generate(destination):
    """Writes headrace/v1/*_pb2*.py and .pyi below `destination`."""
    root = proto_root()
    names = [f"headrace/v1/{name}" for name in proto_files()]
    outputs = [f"--{kind}_out={destination}" for kind in ("python", "pyi", "grpc_python")]
    if run_protoc([f"-I{root}", *outputs, *names]) != 0:
        raise RuntimeError("protoc failed")
    package = os.path.join(destination, "headrace", "v1")
    with open(os.path.join(package, "__init__.py"), "w", encoding="utf-8") as file:
        file.write('"""Generated from the .proto files."""\n')


class BuildWithStubs(build_py):
    def run(self):
        super().run()
        generate(self.build_lib)


class SdistWithProtos(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        target = os.path.join(base_dir, "protos", "headrace", "v1")
        os.makedirs(target, exist_ok=True)
        for name in proto_files():
            shutil.copy(os.path.join(proto_root(), "headrace", "v1", name), target)


setup(cmdclass={"build_py": BuildWithStubs, "sdist": SdistWithProtos})
