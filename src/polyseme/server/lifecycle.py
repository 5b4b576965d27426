"""Start, run and stop a server."""

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
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = found[0]
            listening = socket.socket(family, kind, protocol)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(address)
            except BaseException:
                listening.close()
                raise
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "unknown address"
            place = f"{self.host}:{self.port} ({reason})"
            raise ConfigError(f"cannot listen on {place}; choose another --host or --port") from None
        return listening


class HttpServer(uvicorn.Server):
    """Stops being ready at the first signal, answers admitted requests, and exits."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self.on_started: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.on_started:
            asyncio.get_running_loop().call_soon(self.on_started)  # its errors do not end the server

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
        host, port = self.listening.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, on_started: Callable[[], None] | None = None) -> None:
        """Serve until a signal arrives."""
        self.http.on_started = on_started
        self.service.scheduler.start()
        self.service.models.start()
        previous = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=self.http.config.get_loop_factory()) as runner:
                runner.run(self.http.serve(sockets=[self.listening]))
        finally:
            sys.setswitchinterval(previous)
            self.service.models.stop()
            self.service.scheduler.stop()
            self.listening.close()

    def stop(self) -> None:
        """Stop as a signal would, from another thread."""
        self.http.handle_exit(signal.SIGTERM, None)


def create_server(
    models: ModelRegistry,
    listening: socket.socket,
    *,
    address: Address,
    key: str = "",
    limits: Limits | None = None,
    num_threads: int = 0,
    reports: Mapping[str, Path] | None = None,
) -> Server:
    """A server of loaded models on a bound socket.

    With `num_threads=0`, the models run in one thread, or in one per core if there is a large model, which gains from
    parallel matrix products.
    """
    if not address.is_local and not key:
        raise ConfigError(f"{address.host} is reachable from other machines; give an --api-key, or omit --host")
    if not num_threads:
        sizes = [served.entry.polyseme.parameters for served in models.loaded]
        num_threads = num_cores() if is_large_model(max(sizes, default=0)) else 1
    metrics = Metrics()
    service = Service(
        models=models,
        runs=RunRegistry(models, dict(reports or {})),
        scheduler=BatchScheduler(num_threads=num_threads, metrics=metrics),
        metrics=metrics,
        requires_key=bool(key),
    )
    gateway = build_app(service, allowed_hosts=address.allowed_hosts, key=key, limits=limits or Limits())
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
    return Server(service=service, gateway=gateway, http=HttpServer(config, service), listening=listening)
