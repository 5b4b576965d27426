"""Import and export of ELMo's original checkpoints."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import polyseme
from polyseme.batch import Batch
from polyseme.conversion import elmo_hdf5
from polyseme.conversion.registry import as_model_directory
from polyseme.errors import CheckpointError, ConfigError
from polyseme.inference.batching import padded_batch
from polyseme.models.elmo import Elmo, ElmoConfig, character_ids

FIXTURE = Path(__file__).parents[3] / "shared/fixtures/elmo"
SIZES = ElmoConfig(
    vocab_size=6, width=4, cell_width=5, character_width=3, filters=((1, 2), (3, 4)), num_highways=1, residual=False
)
WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "银行"]


@pytest.fixture
def original(tmp_path):
    """Random weights with the names of bilm-tf, in shapes that are written out, not computed."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    shapes = {"char_embed": (261, 3), "CNN/W_cnn_0": (1, 1, 3, 2), "CNN/W_cnn_1": (1, 3, 3, 4)}
    shapes |= {"CNN/b_cnn_0": (2,), "CNN/b_cnn_1": (4,), "CNN_proj/W_proj": (6, 4), "CNN_proj/b_proj": (4,)}
    for gate in ("carry", "transform"):
        shapes |= {f"CNN_high_0/W_{gate}": (6, 6), f"CNN_high_0/b_{gate}": (6,)}
    for direction in (0, 1):
        for layer in (0, 1):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{cell}/W_0": (8, 20), f"{cell}/B": (20,), f"{cell}/W_P_0": (5, 4)}
    folder = tmp_path / "original"
    folder.mkdir()
    with h5py.File(folder / "lm_weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            file[name] = rng.normal(size=shape).astype(np.float32)
    lstm = {"use_skip_connections": False, "projection_dim": 4, "cell_clip": 3, "proj_clip": 3, "dim": 5, "n_layers": 2}
    characters = {"activation": "relu", "filters": [[1, 2], [3, 4]], "n_highway": 1, "embedding": {"dim": 3}}
    characters |= {"n_characters": 262, "max_characters_per_token": 50}
    (folder / "options.json").write_text(json.dumps({"lstm": lstm, "char_cnn": characters}))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder


def imported(source: Path, target: Path) -> polyseme.Pretrained:
    with as_model_directory(source) as folder:
        polyseme.load(folder).save(target)
    return polyseme.load(target)


def contents(path: Path) -> dict[str, np.ndarray]:
    import h5py

    datasets = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: datasets.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
        )
    return datasets


def test_round_trip(original, tmp_path):
    model = imported(original, tmp_path / "ours")
    assert model.family == "elmo" and model.encoder.config == SIZES
    model.export(tmp_path / "back", to="bilm")
    before, after = (contents(folder / "lm_weights.hdf5") for folder in (original, tmp_path / "back"))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) and before[name].dtype == after[name].dtype for name in before)
    assert json.loads((original / "options.json").read_text()) == json.loads(
        (tmp_path / "back/options.json").read_text()
    )
    again = imported(tmp_path / "back", tmp_path / "again")
    for name, weight in model.encoder.state_dict().items():
        assert torch.equal(again.encoder.state_dict()[name], weight), name


def test_gates_are_reordered(original, tmp_path):
    theirs, ours = contents(original / "lm_weights.hdf5"), imported(original, tmp_path / "ours").encoder
    cell = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell"
    i, j, f, o = np.split(theirs[f"{cell}/W_0"], 4, axis=1)
    lstm = ours.layers[0][1]
    for gate, expected in zip(lstm.input.chunk(4), (i, f, o, j), strict=True):
        assert np.array_equal(gate.detach().numpy(), expected[:4].T)
    for gate, expected in zip(lstm.recurrent.chunk(4), (i, f, o, j), strict=True):
        assert np.array_equal(gate.detach().numpy(), expected[4:].T)
    assert np.array_equal(ours.tokens.filters[1].weight[2, 1].detach().numpy(), theirs["CNN/W_cnn_1"][0, :, 1, 2])


def test_import_without_a_vocabulary(original, tmp_path):
    listed = imported(original, tmp_path / "listed")
    (original / "vocab.txt").unlink()
    bare = imported(original, tmp_path / "bare")
    text = ["the bank, the 银行"]
    assert bare.encoder.config.vocab_size == 3
    np.testing.assert_allclose(bare.embed(text), listed.embed(text), atol=1e-6)
    assert not np.allclose(bare.embed(["the bunk, the 银行"]), bare.embed(text), atol=1e-4)
    assert [layer.shape[1] for layer in bare.encode(text)[0].layers] == [8, 8, 8]
    with pytest.raises(ConfigError, match="cannot generate"):
        bare.generate("the")
    with pytest.raises(ConfigError, match="cannot score"):
        bare.score(["the"])


def test_invalid_files_are_reported(original, tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match="polyseme import"):
        polyseme.load(original)
    options = json.loads((original / "options.json").read_text())
    for changes, message in [
        ({"lstm": {**options["lstm"], "dim": 6}}, "do not belong together"),
        ({"lstm": {**options["lstm"], "dim": -1}}, "cell_width"),
        ({"char_cnn": {**options["char_cnn"], "activation": "tanh"}}, "only 'relu'"),
        ({"char_cnn": {}}, "only 'relu'"),
        ({"lstm": {}}, "character-based ELMo"),
    ]:
        (original / "options.json").write_text(json.dumps({**options, **changes}))
        with pytest.raises(CheckpointError, match=message):
            imported(original, tmp_path / "ours")
    (original / "options.json").write_text(json.dumps(options))
    whole = (original / "lm_weights.hdf5").read_bytes()
    (original / "lm_weights.hdf5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="damaged HDF5 file"):
        imported(original, tmp_path / "ours")
    monkeypatch.setattr(elmo_hdf5, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install h5py"):
        imported(original, tmp_path / "ours")


@pytest.fixture(scope="module")
def fixture(tmp_path_factory):
    pytest.importorskip("h5py")
    if not FIXTURE.is_dir():
        pytest.skip("AllenNLP's test fixtures are not available")
    return imported(FIXTURE, tmp_path_factory.mktemp("fixture") / "ours")


def test_top_layer_matches_the_original_code(fixture):
    import h5py

    columns = [[line.split() for line in column] for column in json.loads((FIXTURE / "sentences.json").read_text())]
    words = sorted({word for column in columns for line in column for word in line})
    encoder, specials = fixture.encoder, fixture.tokenizer.specials
    ids = {word: encoder.config.vocab_size + number for number, word in enumerate(words)}
    expected = [h5py.File(FIXTURE / f"lm_embeddings_{number}.hdf5") for number in range(3)]
    state, num_compared = None, 0
    for number, lines in enumerate(zip(*columns, strict=True)):
        rows = [[specials.start, *(ids[word] for word in line), specials.end] for line in lines]
        batch = padded_batch(rows, encoder.device)
        with torch.inference_mode():
            encoded = encoder(
                Batch(ids=batch.ids, mask=batch.mask, oov_characters=encoder.oov_characters(words)), state
            )
        state = encoded.state
        for row, layer, file in zip(rows, encoded.layers[-1].numpy(), expected, strict=True):
            forward, backward = file[str(number)][...]
            np.testing.assert_allclose(layer[1 : len(row) - 1], np.concatenate([forward, backward], 1), atol=1e-5)
            num_compared += 1
    assert num_compared == 30


def test_token_embeddings_match_the_original_code(fixture):
    import h5py

    words = (FIXTURE / "vocab_test.txt").read_text().split()
    with h5py.File(FIXTURE / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    ids = [fixture.tokenizer.id(word) for word in words]
    np.testing.assert_allclose(fixture.encoder.tokens.weight[ids].numpy(), expected, atol=1e-5)


def test_fixture_round_trip_is_exact(fixture, tmp_path):
    fixture.export(tmp_path / "back", to="bilm")
    before, after = contents(FIXTURE / "lm_weights.hdf5"), contents(tmp_path / "back/lm_weights.hdf5")
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_character_ids_of_oov_words():
    encoder = Elmo(SIZES)
    assert torch.equal(encoder.oov_characters(["a"]), character_ids(["a"], 50))
