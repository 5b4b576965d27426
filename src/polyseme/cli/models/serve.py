"""polyseme serve"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.console import print_json, report
from polyseme.cli.options import Json
from polyseme.cli.progress import spinner
from polyseme.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from polyseme.server.lifecycle import Server
    from polyseme.server.model_registry import ModelRegistry

_KEY_VARIABLE = "POLYSEME_API_KEY"


def serve(
    model: Annotated[list[str], typer.Argument(help="Directories of models, runs or comparisons; word-vector files.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; access from other machines requires a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8000,
    api_key: Annotated[str, typer.Option(help="API key that clients must send; by default POLYSEME_API_KEY.")] = "",
    allow_host: Annotated[list[str] | None, typer.Option(help="Accepted Host header. Repeatable.")] = None,
    quantize: Annotated[str, typer.Option(help="int8: quantized weights, smaller and faster; none.")] = "none",
    queue: Annotated[
        int, typer.Option(min=1, max=4096, help="Maximum number of admitted requests; more get status 429.")
    ] = 128,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Threads for the models; 0: chosen by their size.")] = 0,
    json: Json = False,
) -> None:
    """Serve models over HTTP, with an API and a playground.

    OpenAI clients work unchanged for embeddings and completions. Directories that cannot be opened are reported and
    checked again; a run that finishes is then served as a model.

    \b
    Examples:
      polyseme serve runs/*
      polyseme serve runs/bert runs/gpt2 --port 9000 --quantize int8
      polyseme serve runs/bert --host 0.0.0.0 --api-key "$(openssl rand -hex 24)"
    """
    if quantize not in ("none", "int8"):
        raise ConfigError(f"{quantize!r:.60} is not a quantization; choose int8 or none")
    key = api_key or os.environ.get(_KEY_VARIABLE, "")
    if key and not (key.isascii() and key.isprintable() and len(key) >= 8):
        raise ConfigError("the API key must have at least 8 printable ASCII characters; choose another --api-key")
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError("serving needs more packages; run pip install 'polyseme[serve]'") from None
    from polyseme.server.gateway import Limits
    from polyseme.server.lifecycle import Address, create_server
    from polyseme.server.model_registry import ModelRegistry
    from polyseme.server.run_registry import find_reports

    address = Address(host=host, port=port, names=tuple(allow_host or ()))
    if not address.is_local and not key:
        raise ConfigError(f"{host} is reachable from other machines; set an --api-key, or omit --host")
    folders, reports = find_reports([Path(name) for name in model])
    models = ModelRegistry(folders, weights="int8" if quantize == "int8" else "float32")
    with address.bind() as listening:
        with spinner("loading models"):
            models.refresh()
        for one in models.models:
            if one.problem:
                report(f"{one.name} is not served: {one.problem}")
        if not models.loaded and not reports and not any(one.is_run for one in models.models):
            raise CheckpointError("nothing to serve; pass the directory of a model or run")
        server = create_server(
            models,
            listening,
            address=address,
            key=key,
            limits=Limits(requests=queue),
            num_threads=threads,
            reports=reports,
        )
        server.run(on_started=lambda: _announce(server, models, json, keyed=bool(key)))
    report("stopped")


def _announce(server: "Server", models: "ModelRegistry", json: bool, *, keyed: bool) -> None:
    url, names = server.url, [one.name for one in models.loaded]
    if json:
        print_json({"url": url, "docs": f"{url}/docs", "models": names, "pid": os.getpid()})
        return
    report(f"serving {', '.join(names) or 'no model yet'}")
    report(f"  page  {url}")
    report(f"  docs  {url}/docs")
    if names:
        header = " -H 'Authorization: Bearer '$POLYSEME_API_KEY" if keyed else ""
        body = f'{{"model": "{names[0]}", "input": "The bank of the river."}}'
        report(f"  try   curl {url}/v1/embeddings{header} -H 'Content-Type: application/json' -d '{body}'")
    report("press Ctrl-C to stop")
