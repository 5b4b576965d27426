"""A server from its start to its end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from polyseme.errors import ConfigError
from polyseme.machine import num_cores
from polyseme.serve.app import build
from polyseme.serve.batching import Worker
from polyseme.serve.calls import Service
from polyseme.serve.guard import Guard, Limits
from polyseme.serve.metrics import Metrics
from polyseme.serve.models import Models
from polyseme.serve.protocol import connection_with

_DRAIN_SECONDS = 18  # for what was accepted; two more to tell the rest, and to end the batch at hand
_LARGE = 20_000_000  # weights; two threads are hardly quicker with fewer, and wait for each other on a busy machine
_TURN_SECONDS = 0.001  # that the models' thread may keep Python to itself while a request waits to be read
_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens, and by which names it is asked."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Whether only this machine can ask."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def hosts(self) -> frozenset[str]:
        """What a request may call it."""
        own = () if self.local else (self.host.lower(), socket.gethostname().lower())
        return frozenset([*_NAMES, *own, *(name.lower() for name in self.names)])

    def bind(self) -> socket.socket:
        """Take the address, before anything slow is done."""
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind, protocol)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(place)
            except BaseException:
                listening.close()
                raise
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "no such address"
            raise ConfigError(
                f"{self.host}:{self.port} cannot be used ({why}); choose another --host or --port"
            ) from None
        return listening


class Server(uvicorn.Server):
    """Stops being ready at the first signal, answers what it has accepted, and then goes."""

    guard: Guard

    def handle_exit(self, sig: int, frame: object) -> None:
        # Kept to ourselves: uvicorn would raise the signal again once all is over.
        self.guard.stopping = True
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


@dataclass(kw_only=True)
class Serving:
    """Everything that runs while models are served."""

    models: Models
    worker: Worker
    guard: Guard
    server: Server
    listening: socket.socket

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self.listening.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, started: Callable[[], None] | None = None) -> None:
        """Serve until a signal says stop."""
        self.worker.start()
        self.models.start()
        before = sys.getswitchinterval()
        sys.setswitchinterval(_TURN_SECONDS)
        try:
            with asyncio.Runner(loop_factory=self.server.config.get_loop_factory()) as runner:
                runner.run(self._serve(started))
        finally:
            sys.setswitchinterval(before)
            self.models.stop()
            self.worker.stop()
            self.listening.close()

    async def _serve(self, started: Callable[[], None] | None) -> None:
        async def announce() -> None:
            while not self.server.started:
                await asyncio.sleep(0.01)
            if started:
                started()

        telling = asyncio.create_task(announce())
        await self.server.serve(sockets=[self.listening])
        telling.cancel()

    def stop(self) -> None:
        """Stop as a signal would, from another thread."""
        self.server.handle_exit(signal.SIGTERM, None)


def threads_for(models: Models) -> int:
    """One beside that of the event loop; for large models one a core, since these gain from sharing each product."""
    sizes = [served.entry.polyseme.parameters for served in models.open_ones]
    return num_cores() if max(sizes, default=0) >= _LARGE else 1


def prepare(
    models: Models,
    listening: socket.socket,
    *,
    address: Address | None = None,
    key: str = "",
    limits: Limits | None = None,
    num_threads: int = 0,
    reports: Mapping[str, Path] | None = None,
) -> Serving:
    """Put a server together over models that are opened."""
    address = address or Address()
    if not address.local and not key:
        raise ConfigError(f"{address.host} can be reached from other machines; give an --api-key, or leave --host away")
    metrics = Metrics()
    worker = Worker(num_threads=num_threads or threads_for(models), observer=metrics)
    service = Service(models=models, worker=worker)
    guard = build(service, hosts=address.hosts, key=key, limits=limits, metrics=metrics, reports=reports)
    config = uvicorn.Config(
        guard,
        http=connection_with(guard.limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = Server(config)
    server.guard = guard
    return Serving(models=models, worker=worker, guard=guard, server=server, listening=listening)
