"""What this version of gRPC needs around fork(). Imported before gRPC is."""
import os
from importlib import metadata

_VERSION = tuple(int(part) for part in metadata.version("grpcio").split(".")[:2])

# Versions that wait in fork() for ever while a channel is open (grpc/grpc#31885).
FORK_HANGS_WITH_CHANNELS = (1, 50) <= _VERSION < (1, 54)

if not FORK_HANGS_WITH_CHANNELS:
    # Without, the child hangs or fails. The others' handlers wait for threads that
    # in turn wait for what Python 3.13 holds while it forks.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")
