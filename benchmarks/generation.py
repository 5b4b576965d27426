"""Greedy text generation by Polyseme and transformers.

Both load the same GPT-2 with random weights. In float32 they must generate identical tokens, otherwise the benchmark
fails. A token takes at least as long as reading the weights once from memory: `of limit` is the fraction of that speed
that is reached. The systems run in turn, and the best time of each counts.

With --long, or with --model and --dev, the cross-entropy of a text in float32 and in int8 is compared as well, in one
forward pass as in `score`, and token by token as in generation.

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
from polyseme.batch import Batch
from polyseme.datasets.builtin import sample_text
from polyseme.inference.generation import GenerationConfig, LanguageModel, generate_batch
from polyseme.inference.scores import total
from polyseme.layers.linear import Linear
from polyseme.models.base import Encoder
from polyseme.models.gpt2 import Gpt2, Gpt2Config
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.joint import JointObjective
from polyseme.training.storage.model_dir import write_model

SIZES = {"L4 H256": {"num_layers": 4, "width": 256, "num_heads": 4}, "L12 H768": {}}
PROMPT_LENGTH = 16
NUM_TOKENS = 128


def random_model(folder: Path, size: dict[str, int]) -> None:
    """Save a model with large random weights, so that greedy decoding does not repeat a single token."""
    torch.manual_seed(1)
    encoder = Gpt2(Gpt2Config.parse(size, group="model"))
    torch.nn.init.normal_(encoder.positions.weight, std=0.02)
    for name, weight in encoder.blocks.named_parameters():
        if name.endswith("weight") and weight.dim() == 2:
            torch.nn.init.normal_(weight, std=2 / weight.shape[1] ** 0.5)
    heads = JointObjective({"causal_lm": CausalLm()})
    write_model(folder, family="gpt2", encoder=encoder, heads=heads, extra={})


def generate_polyseme(model: ps.Pretrained, prompts: torch.Tensor) -> Callable[[], list[list[int]]]:
    """A function that generates continuations with Polyseme."""
    head = model.objective.parts[0]
    assert isinstance(head, CausalLm)
    language_model = LanguageModel(encoder=model.encoder, head=head, end=None)

    def generate() -> list[list[int]]:
        rows = prompts.tolist()
        for tokens in generate_batch(language_model, rows, GenerationConfig(max_tokens=NUM_TOKENS)):
            for row, token in zip(rows, tokens, strict=True):
                row.append(token)
        return rows

    return generate


def generate_transformers(folder: Path, prompts: torch.Tensor) -> Callable[[], list[list[int]]]:
    """A function that generates continuations with transformers."""
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model.generation_config.eos_token_id = None  # never stop early
    mask = torch.ones_like(prompts)

    def generate() -> list[list[int]]:
        with torch.inference_mode():
            rows = model.generate(
                prompts, attention_mask=mask, do_sample=False, max_new_tokens=NUM_TOKENS, pad_token_id=0
            )
        return rows.tolist()  # type: ignore[no-any-return]

    return generate


def bytes_read(encoder: Encoder) -> int:
    """The bytes that a step has to read: all matrices, and the token embeddings as output layer."""
    matrices = [module.weight for module in encoder.modules() if isinstance(module, Linear)]
    weights = [*matrices, encoder.tokens.weight]
    return sum(w.numel() * 4 if isinstance(w, torch.Tensor) else w.values.numel() for w in weights)


def compare(size: str, num_rows: int, rounds: int, bandwidth: float) -> list[Row]:
    """Run all systems in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        random_model(folder, SIZES[size])
        prompts = torch.randint(50257, (num_rows, PROMPT_LENGTH), generator=torch.Generator().manual_seed(0))
        models = {weights: ps.load(folder, weights=weights) for weights in ("float32", "int8")}
        functions = {"transformers": generate_transformers(folder, prompts)}
        functions |= {name: generate_polyseme(models[name], prompts) for name in models}
        generated = {name: function() for name, function in functions.items()}
    if generated["float32"] != generated["transformers"]:
        raise SystemExit(f"{size}, {num_rows}: the tokens differ from those of transformers")
    best = best_of(functions, rounds, warmup=0)
    return [
        {
            "workload": f"{size}, {num_rows}",
            "weights": name,
            "transformers": num_rows * NUM_TOKENS / best["transformers"],
            "polyseme": num_rows * NUM_TOKENS / best[name],
            "ratio": best["transformers"] / best[name],
            "of limit": bytes_read(models[name].encoder) * NUM_TOKENS / best[name] / bandwidth,
            "distinct tokens": len({token for row in generated[name] for token in row[PROMPT_LENGTH:]}),
        }
        for name in models
    ]


def cross_entropies(folder: Path, text: str) -> list[Row]:
    """The cross-entropy of a text in nats/token, in float32 and int8."""
    models = {weights: ps.load(folder, weights=weights) for weights in ("float32", "int8")}
    nats = {}
    for name, model in models.items():
        score = total(model.score([text]))
        nats[name] = {"one pass": score.nats / score.num_tokens, "token by token": _token_by_token(model, text)}
    rows: list[Row] = []
    for mode, reference in nats["float32"].items():
        row: Row = {"workload": f"nats/token, {mode}", **{name: nats[name][mode] for name in nats}}
        rows.append(row | {"ratio": f"{nats['int8'][mode] / reference:.4f}"})
    return rows


def _token_by_token(model: ps.Pretrained, text: str, num_rows: int = 8) -> float:
    """The cross-entropy when the text is processed like generated tokens."""
    head = model.objective.parts[0]
    assert model.tokenizer is not None and isinstance(head, CausalLm)
    length: int = min(model.encoder.config.max_length, 128)
    ids = torch.tensor(model.tokenizer.encode(text, specials=False).ids)
    num_groups = min(8, len(ids) // (num_rows * length))
    nats = torch.zeros(())
    with torch.inference_mode():
        for group in ids[: num_groups * num_rows * length].view(num_groups, num_rows, length):
            state = model.encoder.new_state(num_rows, length)
            for column, target in zip(group[:, :-1].T, group[:, 1:].T, strict=True):
                encoded = model.encoder(Batch.of(column[:, None].contiguous()), state)
                state = encoded.state
                logits = head.logits(model.encoder, encoded.layers[-1][:, -1])
                nats += F.cross_entropy(logits, target, reduction="sum")
    return float(nats) / (num_groups * num_rows * (length - 1))


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=3, long_rounds=6)
    parser.add_argument("--only", default="", help="run the workloads whose name contains this")
    parser.add_argument("--model", type=Path, help="causal language model for the int8 comparison")
    parser.add_argument("--dev", type=Path, help="text for the int8 comparison")
    args = parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    bandwidth = read_bandwidth()
    rows: list[Row] = []
    for size in SIZES:
        for num_rows in (1, 8):
            if args.only in f"{size}, {num_rows}":
                rows += compare(size, num_rows, args.rounds, bandwidth)
    if args.model and args.dev:
        rows += cross_entropies(args.model, args.dev.read_text(encoding="utf-8"))
    elif args.long:
        sample = sample_text("docstrings")
        with tempfile.TemporaryDirectory() as scratch:
            ps.pretrain("gpt2", corpus=sample.train, out=scratch, budget="60s")
            rows += cross_entropies(Path(scratch), "\n".join(path.read_text(encoding="utf-8") for path in sample.dev))
    report(rows, args.json, bytes_per_second=bandwidth)


if __name__ == "__main__":
    main()
