"""Fine-tuned checkpoints loaded in transformers give the same predictions."""

from pathlib import Path

import pytest
import torch
from tests.tasks.synthetic_examples import parse_task

from polyseme.batch import Batch
from polyseme.families import FAMILIES
from polyseme.tasks import FineTuningConfig, build_finetuning_objective
from polyseme.training.storage.model_dir import open_model, write_model

SIZES = {"vocab_size": 97, "max_length": 40, "width": 32, "num_layers": 1, "num_heads": 2, "dropout": 0.0}
CLASSES = {
    "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "choice": "AutoModelForMultipleChoice",
}
PAIRS = [(family, kind) for family in ("bert", "roberta", "albert", "ernie") for kind in CLASSES]
PAIRS += [("gpt", "classify"), ("gpt2", "classify"), ("gpt2", "tag"), ("gpt2", "span")]


@pytest.mark.parametrize(("family", "kind"), PAIRS)
def test_heads(family, kind, tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    encoder = FAMILIES[family](FAMILIES[family].Config(**SIZES)).eval()
    settings = {"labels": ["a", "b", "c"]} if kind in ("classify", "tag") else {}
    task, config = parse_task(kind, **settings), FineTuningConfig(language_model=0.0)
    tuning = build_finetuning_objective({"mine": task}, config, encoder).eval()
    with torch.no_grad():
        for weight in [*encoder.parameters(), *tuning.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.1)
    extra = {"num_labels": 3, "pad_token_id": 1} if kind in ("classify", "tag") else {"pad_token_id": 1}
    write_model(tmp_path, family=family, encoder=encoder, heads=tuning, extra=extra)

    theirs, report = getattr(transformers, CLASSES[kind]).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report.get("mismatched_keys")
    assert type(theirs).__name__ in (theirs.config.architectures or [])
    ids = torch.randint(5, 97, (4, 11))
    group = 2 if kind == "choice" else 1
    batch = Batch.of(ids, rows_per_example=group)
    with torch.no_grad():
        ours = tuning.tasks["mine"].scores(encoder, encoder(batch), batch)
        found = theirs.eval()(input_ids=ids.view(-1, group, 11) if group > 1 else ids)
    if kind == "span":
        ours, logits = ours.flatten(0, 1), torch.stack([found.start_logits, found.end_logits], 1).flatten(0, 1)
    else:
        logits = found.logits
    torch.testing.assert_close(ours, logits, atol=2e-5, rtol=1e-4)

    again = open_model(tmp_path, family=family)
    fresh = build_finetuning_objective({"mine": task}, config, again.encoder)
    assert again.load(fresh)[1] == set(tuning.state_dict())
    assert all(torch.equal(weight, fresh.state_dict()[name]) for name, weight in tuning.state_dict().items())
