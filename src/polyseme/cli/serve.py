"""polyseme serve"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.console import say, working, write_json
from polyseme.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from polyseme.serve.models import Models
    from polyseme.serve.run import Serving

_KEY = "POLYSEME_API_KEY"


def serve(
    model: Annotated[list[str], typer.Argument(help="Directories of models, runs or comparisons; files of vectors.")],
    host: Annotated[str, typer.Option(help="Address to listen on; another than this machine's needs a key.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    api_key: Annotated[str, typer.Option(help="Key that calls have to give; or POLYSEME_API_KEY.")] = "",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Name by which the server may be asked. May be repeated.")
    ] = None,
    quantize: Annotated[str, typer.Option(help="int8: weights in bytes, faster and smaller; none.")] = "none",
    queue: Annotated[int, typer.Option(min=1, max=4096, help="Requests that may wait; others get 429.")] = 128,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Threads of the models; 0: by their size.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Say where it is as a JSON object.")] = False,
) -> None:
    """Serve models over HTTP, to programs and to a page for people.

    Clients of OpenAI's API work unchanged for embeddings and completions. Directories that cannot be opened are told of
    and looked at again; a run that ends while it is served becomes a model.

    \b
    Examples:
      polyseme serve runs/*
      polyseme serve runs/bert runs/gpt2 --port 9000 --quantize int8
      polyseme serve runs/bert --host 0.0.0.0 --api-key "$(openssl rand -hex 24)"
    """
    if quantize not in ("none", "int8"):
        raise ConfigError(f"{quantize!r:.60} is no way to keep weights; say int8 or none")
    key = api_key or os.environ.get(_KEY, "")
    if key and not (key.isascii() and key.isprintable() and len(key) >= 8):
        raise ConfigError("the key is too short or not plain; take at least 8 letters and digits")
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError("serving needs more packages; say pip install 'polyseme[serve]'") from None
    from polyseme.serve.guard import Limits
    from polyseme.serve.models import Models
    from polyseme.serve.run import Address, prepare
    from polyseme.serve.runs import find_reports

    address = Address(host=host, port=port, names=tuple(allow_host or ()))
    if not address.local and not key:
        raise ConfigError(f"{host} can be reached from other machines; give an --api-key, or leave --host away")
    folders, reports = find_reports([Path(name) for name in model])
    models = Models(folders, weights="int8" if quantize == "int8" else "float32")
    with address.bind() as listening:
        with working("opening models"):
            models.open()
        for one in models.all:
            if one.problem:
                say(f"{one.name} is not served: {one.problem}")
        if not models.open_ones and not reports and not any(one.is_run for one in models.all):
            raise CheckpointError("none of these can be served; give the directory of a model or run")
        serving = prepare(
            models,
            listening,
            address=address,
            key=key,
            limits=Limits(requests=queue),
            num_threads=threads,
            reports=reports,
        )
        serving.run(started=lambda: _announce(serving, models, json, keyed=bool(key)))
    say("stopped")


def _announce(serving: "Serving", models: "Models", json: bool, *, keyed: bool) -> None:
    url, names = serving.url, [one.name for one in models.open_ones]
    if json:
        write_json({"url": url, "docs": f"{url}/docs", "models": names, "pid": os.getpid()})
        return
    say(f"serving {', '.join(names) or 'no model yet'}")
    say(f"  page  {url}")
    say(f"  docs  {url}/docs")
    if names:
        header = " -H 'Authorization: Bearer '$POLYSEME_API_KEY" if keyed else ""
        body = f'{{"model": "{names[0]}", "input": "The bank of the river."}}'
        say(f"  try   curl {url}/v1/embeddings{header} -H 'Content-Type: application/json' -d '{body}'")
    say("Ctrl-C stops it")
