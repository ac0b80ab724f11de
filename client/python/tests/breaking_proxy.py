"""A relay to a server that loses the connection when it is told to."""
import contextlib
import socket
import threading


class Proxy:
    """Takes the next of `cuts` for each connection: the bytes from the server
    after which it breaks; none are left: it lasts."""

    def __init__(self, server):
        host, port = server.rsplit(":", 1)
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = []
        self.broken = 0
        self.may_break = threading.Event()  # a connection waits for it, silently
        self.may_break.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        # What only closes a socket does not wake who waits in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                cut = self.cuts.pop(0) if self.cuts else None
                threading.Thread(target=self._relay, args=(client, server, None), daemon=True).start()
                threading.Thread(target=self._relay, args=(server, client, cut), daemon=True).start()

    def _relay(self, source, sink, left):
        with contextlib.suppress(OSError):
            while data := source.recv(4096 if left is None else min(4096, left)):
                sink.sendall(data)
                if left is not None:
                    left -= len(data)
                    if left == 0:
                        self.may_break.wait(60)
                        self.broken += 1
                        break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def breaking(server):
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
