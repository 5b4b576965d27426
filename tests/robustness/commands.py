"""Functions that tests run in a fork: a command line, a run that is paused, and a server with a few requests."""

import json
import sys
from pathlib import Path

from tests.server.client import serving

from polyseme.api import open_finetuning, open_pretraining, plan_finetuning_runs
from polyseme.cli import run
from polyseme.server.run_registry import find_reports


def run_command_line(arguments):
    """A command line of the program."""
    return run(arguments)


def start_pretraining(arguments):
    """Start a pretraining of 40 steps, and pause after some of them; none for a run without a checkpoint."""
    family, corpus, out, step, *settings = arguments
    options = {"corpus": corpus, "dev": corpus, "size": "tiny", "budget": "40steps", "settings": settings}
    return _pause(open_pretraining(family, out=out, **options), int(step))


def start_finetuning(arguments):
    """Start a fine-tuning of 40 steps, and pause after some of them."""
    model, train, out, step, *settings = arguments
    options = {"train": train, "dev": train, "budget": "40steps", "settings": settings}
    (session,) = open_finetuning(model, plan_finetuning_runs(out), **options)
    return _pause(session, int(step))


def _pause(session, last):
    if not last:
        session.run.close()
        return 0
    for progress in session.steps():
        if progress.step.number == last < session.total_steps:
            session.pause()
            return 0
    session.finish()
    return 0


def serve(arguments):
    """Serve a directory, and print the replies to GET requests and to a POST request as a JSON object."""
    folder, endpoint, body = arguments
    found, reports = find_reports([Path(folder)])
    with serving(*found, reports=reports) as server:
        paths = ["/ready", "/v1/models", "/v1/runs", "/v1/reports"]
        for kind in ("models", "runs", "reports"):
            names = [one.name for one in server.server.service.models.models] if kind != "reports" else reports
            paths += [f"/v1/{kind}/{name}" for name in names]
        replies = {path: server.get(path) for path in paths}
        replies[endpoint] = server.request("POST", f"/v1/{endpoint}", body, {"content-type": "application/json"})
    json.dump({path: [reply.status, reply.body.decode()] for path, reply in replies.items()}, sys.stdout)
    return 0


def save_with_transformers(arguments):
    """Save a model as transformers does."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model, out = arguments
    AutoModelForMaskedLM.from_pretrained(model).save_pretrained(out)
    AutoTokenizer.from_pretrained(model).save_pretrained(out)
    return 0
