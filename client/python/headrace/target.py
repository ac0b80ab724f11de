"""Which server a client speaks to, and how: what both clients are made from."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import grpc
import grpc.experimental

from headrace.checks import checked_text, checked_timeout
from headrace.retry import Attempts, RetryPolicy


class Target:
    def __init__(self, address: str, model: str, timeout: Optional[float],
                 credentials: Optional[grpc.ChannelCredentials], retry: Optional[RetryPolicy]) -> None:
        self.address = checked_text("address", address)
        self.model = checked_text("model", model)
        self.timeout = checked_timeout(timeout)
        self.credentials = credentials
        self.retry = RetryPolicy() if retry is None else retry

    def attempts(self) -> Attempts:
        return Attempts(self.retry, self.timeout)

    def open_channel(self, grpc_module: Any, one_reader: bool = False) -> Any:
        """A channel of grpc's or grpc.aio's. With `one_reader`, who iterates over a
        stream of grpc's is who takes its messages from the connection."""
        options: List[Tuple[str, int]] = []
        if one_reader:
            options.append((grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1))
        host = self.address.rsplit(":", 1)[0]
        if host in ("localhost", "[::1]") or host.startswith("127."):
            options.append(("grpc.enable_http_proxy", 0))
        if self.credentials is None:
            return grpc_module.insecure_channel(self.address, options)
        return grpc_module.secure_channel(self.address, self.credentials, options)
