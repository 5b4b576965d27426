"""Start, run and stop a server."""

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
from polyseme.server.app import build_app
from polyseme.server.connection import connection_class
from polyseme.server.endpoint import Service
from polyseme.server.gateway import LOCAL_HOSTS, Gateway, Limits
from polyseme.server.metrics import Metrics
from polyseme.server.model_registry import ModelRegistry
from polyseme.server.run_registry import RunRegistry
from polyseme.server.scheduler import BatchScheduler
from polyseme.system.hardware import is_large_model, num_cores

_DRAIN_SECONDS = 18  # for admitted requests; two more seconds for error responses and the current batch
_SWITCH_SECONDS = 0.001  # for which the model thread may hold the interpreter while a request waits to be read


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens, and the host names it accepts."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether only this machine has access."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """Accepted values of the Host header."""
        own = () if self.is_local else (self.host.lower(), socket.gethostname().lower())
        return frozenset([*LOCAL_HOSTS, *own, *(name.lower() for name in self.names)])

    def bind(self) -> socket.socket:
        """Bind a socket, before anything slow is done."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind, protocol)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(address)
            except BaseException:
                listening.close()
                raise
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "unknown address"
            raise ConfigError(
                f"cannot listen on {self.host}:{self.port} ({reason}); choose another --host or --port"
            ) from None
        return listening


class HttpServer(uvicorn.Server):
    """Stops being ready at the first signal, answers admitted requests, and exits."""

    service: Service

    def handle_exit(self, sig: int, frame: object) -> None:
        # Without the method of the superclass, which raises the signal again after the shutdown.
        self.service.stopping = True
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


@dataclass(kw_only=True)
class Server:
    """A server and the threads behind it."""

    service: Service
    gateway: Gateway
    http: HttpServer
    listening: socket.socket

    @property
    def url(self) -> str:
        """Base URL."""
        host, port = self.listening.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, on_started: Callable[[], None] | None = None) -> None:
        """Serve until a signal arrives."""
        self.service.scheduler.start()
        self.service.models.start()
        previous = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=self.http.config.get_loop_factory()) as runner:
                runner.run(self._serve(on_started))
        finally:
            sys.setswitchinterval(previous)
            self.service.models.stop()
            self.service.scheduler.stop()
            self.listening.close()

    async def _serve(self, on_started: Callable[[], None] | None) -> None:
        async def announce() -> None:
            while not self.http.started:
                await asyncio.sleep(0.01)
            if on_started:
                on_started()

        announcement = asyncio.create_task(announce())
        await self.http.serve(sockets=[self.listening])
        announcement.cancel()

    def stop(self) -> None:
        """Stop as a signal would, from another thread."""
        self.http.handle_exit(signal.SIGTERM, None)


def choose_num_threads(models: ModelRegistry) -> int:
    """One thread besides the event loop's; for large models one per core, since these gain from parallel products."""
    sizes = [served.entry.polyseme.parameters for served in models.loaded]
    return num_cores() if is_large_model(max(sizes, default=0)) else 1


def create_server(
    models: ModelRegistry,
    listening: socket.socket,
    *,
    address: Address | None = None,
    key: str = "",
    limits: Limits | None = None,
    num_threads: int = 0,
    reports: Mapping[str, Path] | None = None,
) -> Server:
    """A server of loaded models on a bound socket."""
    address = address or Address()
    if not address.is_local and not key:
        raise ConfigError(f"{address.host} is reachable from other machines; give an --api-key, or omit --host")
    metrics = Metrics()
    service = Service(
        models=models,
        runs=RunRegistry(models, dict(reports or {})),
        scheduler=BatchScheduler(num_threads=num_threads or choose_num_threads(models), observer=metrics),
        metrics=metrics,
        requires_key=bool(key),
    )
    gateway = build_app(service, allowed_hosts=address.allowed_hosts, key=key, limits=limits)
    config = uvicorn.Config(
        gateway,
        http=connection_class(gateway.limits),
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
    http = HttpServer(config)
    http.service = service
    return Server(service=service, gateway=gateway, http=http, listening=listening)
