"""Writing on, by Polyseme and by transformers, side by side.

GPT-2 with random weights, the same files on both sides; the likeliest token each time. In float32 both write the same
tokens, or the figure is refused. A token takes at least as long as reading the weights once: `limit` is the share of
that speed which was reached. The rounds alternate, and the best of each counts.

With --long, or with --model and --dev, also what bytes cost: the nats of a text under int8 against float32, read at
once as `score` reads it, and a token at a time as it is written.

    python benchmarks/generation.py [--only "L4 H256, 1"] [--model runs/gpt2 --dev dev.txt] [--json out.json]
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers

import polyseme as ps
from bench import Row, arguments, best_of, read_bandwidth, report
from polyseme.generation import Sampling, generate_together
from polyseme.layers.linear import Linear
from polyseme.models.base import Encoder
from polyseme.models.directory import write_model
from polyseme.models.gpt2 import Gpt2, Gpt2Config
from polyseme.objectives import Together
from polyseme.objectives.next_token import NextToken
from polyseme.scoring import total
from polyseme.tensors import Batch
from polyseme.text.samples import sample_text

SIZES = {"L4 H256": {"num_layers": 4, "width": 256, "num_heads": 4}, "L12 H768": {}}
NUM_PROMPT = 16
NUM_TOKENS = 128


def random_model(folder: Path, size: dict[str, int]) -> None:
    """A model directory whose likeliest tokens are not always the same: positions weigh as much as tokens."""
    torch.manual_seed(1)
    encoder = Gpt2(Gpt2Config.parse(size, group="model"))
    torch.nn.init.normal_(encoder.positions.weight, std=0.02)
    for name, weight in encoder.blocks.named_parameters():
        if name.endswith("weight") and weight.dim() == 2:
            torch.nn.init.normal_(weight, std=2 / weight.shape[1] ** 0.5)
    heads = Together({"next_token": NextToken()})
    write_model(folder, family="gpt2", encoder=encoder, heads=heads, extra={})


def ours(model: ps.Pretrained, prompts: torch.Tensor) -> Callable[[], list[list[int]]]:
    """Prompts with what Polyseme writes after them."""
    head = model.objective.parts[0]
    assert isinstance(head, NextToken)

    def write() -> list[list[int]]:
        rows = prompts.tolist()
        for tokens in generate_together(model.encoder, head, rows, Sampling(max_tokens=NUM_TOKENS), None):
            for row, token in zip(rows, tokens, strict=True):
                row.append(token)
        return rows

    return write


def theirs(folder: Path, prompts: torch.Tensor) -> Callable[[], list[list[int]]]:
    """The same by transformers."""
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)  # ready for use, not for training
    model.generation_config.eos_token_id = None  # write all
    mask = torch.ones_like(prompts)

    def write() -> list[list[int]]:
        with torch.inference_mode():
            rows = model.generate(
                prompts, attention_mask=mask, do_sample=False, max_new_tokens=NUM_TOKENS, pad_token_id=0
            )
        return rows.tolist()  # type: ignore[no-any-return]

    return write


def bytes_read(encoder: Encoder) -> int:
    """What a step has to read at least: every matrix, and the embedding of tokens as the output layer."""
    matrices = [module.weight for module in encoder.modules() if isinstance(module, Linear)]
    weights = [*matrices, encoder.tokens.weight]
    return sum(w.numel() * 4 if isinstance(w, torch.Tensor) else w.values.numel() for w in weights)


def compare(size: str, num_rows: int, rounds: int, bandwidth: float) -> list[Row]:
    """All sides in turns."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        random_model(folder, SIZES[size])
        prompts = torch.randint(50257, (num_rows, NUM_PROMPT), generator=torch.Generator().manual_seed(0))
        models = {weights: ps.load(folder, weights=weights) for weights in ("float32", "int8")}
        sides = {"transformers": theirs(folder, prompts)} | {name: ours(models[name], prompts) for name in models}
        written = {name: side() for name, side in sides.items()}
    if written["float32"] != written["transformers"]:
        raise SystemExit(f"{size}, {num_rows}: not the tokens of transformers")
    best = best_of(sides, rounds, warmup=0)
    return [
        {
            "workload": f"{size}, {num_rows}",
            "weights": name,
            "transformers": num_rows * NUM_TOKENS / best["transformers"],
            "polyseme": num_rows * NUM_TOKENS / best[name],
            "ratio": best["transformers"] / best[name],
            "limit": bytes_read(models[name].encoder) * NUM_TOKENS / best[name] / bandwidth,
            "tokens": len({token for row in written[name] for token in row[NUM_PROMPT:]}),
        }
        for name in models
    ]


def cost_of_bytes(folder: Path, text: str) -> list[Row]:
    """Nats a token of a text, in floats and in bytes."""
    models = {weights: ps.load(folder, weights=weights) for weights in ("float32", "int8")}
    nats = {}
    for name, model in models.items():
        score = total(model.score([text]))
        nats[name] = {"read at once": score.nats / score.num_tokens, "token by token": _stepwise(model, text)}
    rows: list[Row] = []
    for way, floats in nats["float32"].items():
        row: Row = {"workload": f"nats, {way}", **{name: nats[name][way] for name in nats}}
        rows.append(row | {"ratio": f"{nats['int8'][way] / floats:.4f}"})
    return rows


def _stepwise(model: ps.Pretrained, text: str, num_rows: int = 8) -> float:
    """Read as generation reads, with the tokens given."""
    head = model.objective.parts[0]
    assert model.tokenizer is not None and isinstance(head, NextToken)
    length: int = min(model.encoder.config.max_length, 128)
    ids = torch.tensor(model.tokenizer.encode(text, specials=False).ids)
    num_groups = min(8, len(ids) // (num_rows * length))
    nats = torch.zeros(())
    with torch.inference_mode():
        for group in ids[: num_groups * num_rows * length].view(num_groups, num_rows, length):
            state = model.encoder.begin(num_rows, length)
            for column, target in zip(group[:, :-1].T, group[:, 1:].T, strict=True):
                encoded = model.encoder(Batch.of(column[:, None].contiguous()), state)
                state = encoded.state
                logits = head.logits(model.encoder, encoded.layers[-1][:, -1])
                nats += F.cross_entropy(logits, target, reduction="sum")
    return float(nats) / (num_groups * num_rows * (length - 1))


def main() -> None:
    """Print the table, and write it as JSON where asked."""
    parser, read = arguments(__doc__, rounds=3, long_rounds=6)
    parser.add_argument("--only", default="", help="the workloads whose name holds this")
    parser.add_argument("--model", type=Path, help="a left-to-right model for the cost of bytes")
    parser.add_argument("--dev", type=Path, help="a text for it")
    given = read()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    bandwidth = read_bandwidth()
    rows: list[Row] = []
    for size in SIZES:
        for num_rows in (1, 8):
            if given.only in f"{size}, {num_rows}":
                rows += compare(size, num_rows, given.rounds, bandwidth)
    if given.model and given.dev:
        rows += cost_of_bytes(given.model, given.dev.read_text(encoding="utf-8"))
    elif given.long:
        sample = sample_text("docstrings")
        with tempfile.TemporaryDirectory() as place:
            ps.pretrain("gpt2", corpus=sample.train, out=place, budget="60s")
            rows += cost_of_bytes(Path(place), "\n".join(path.read_text(encoding="utf-8") for path in sample.dev))
    report(rows, given.json, bytes_per_second=bandwidth)


if __name__ == "__main__":
    main()
