"""CoVe against the equations of the paper."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from polyseme.batch import Batch
from polyseme.errors import ConfigError
from polyseme.models.cove import Cove, CoveConfig

SIZES = {"vocab_size": 30, "target_size": 12, "width": 6, "inner_width": 4, "dropout": 0.0}


def build():
    torch.manual_seed(0)
    encoder = Cove(CoveConfig(**SIZES)).eval()
    return encoder, encoder.new_decoder().eval()


def some_batch():
    ids = torch.randint(30, (3, 7), generator=torch.Generator().manual_seed(1))
    return Batch(ids=ids, mask=torch.arange(7) < torch.tensor([[4], [7], [1]]))


def test_the_encoder_equals_a_two_layer_lstm_of_torch():
    encoder, _ = build()
    peer = nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True)
    peer.load_state_dict(
        {
            name.replace("_l0", f"_l{layer}"): weight
            for layer, lstm in enumerate(encoder.lstms)
            for name, weight in lstm.state_dict().items()
        }
    )
    batch = some_batch()
    words = encoder.tokens(batch.ids)
    packed = pack_padded_sequence(words, batch.mask.sum(1), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(peer(packed)[0], batch_first=True)
    layers = encoder(batch).layers
    assert [layer.shape[-1] for layer in layers] == [6, 8, 14]
    torch.testing.assert_close(layers[-1][..., :6], words)  # [vectors; CoVe]
    torch.testing.assert_close(layers[-1][..., 6:], expected)


def test_decoder_equations():
    encoder, decoder = build()
    batch = some_batch()
    targets = torch.randint(12, (3, 5), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        encoded = encoder(batch)
        decoded = decoder(encoder, targets, decoder.new_state(encoded))
        weight, bias = decoder.output(encoder)
        assert weight.shape == (12, 8) and bias.shape == (12,)
        for row, length in enumerate([4, 7, 1]):
            memory = encoded.layers[-1][row, :length, 6:]  # H
            ends = [encoded.layers[1][row, :length], memory]
            states = [(torch.cat([end[-1, :4], end[0, 4:]]), torch.zeros(8)) for end in ends]
            attended = torch.zeros(8)
            for step in range(5):
                x = torch.cat([decoder.tokens.weight[targets[row, step]], attended])
                for number, cell in enumerate(decoder.cells):
                    states[number] = cell(x, states[number])
                    x = states[number][0]
                weights = (memory @ (decoder.query.weight @ x + decoder.query.bias)).softmax(0)
                attended = torch.tanh(decoder.attend.weight @ torch.cat([memory.T @ weights, x]) + decoder.attend.bias)
                torch.testing.assert_close(decoded.hidden[row, step], attended, atol=1e-5, rtol=1e-5)
                torch.testing.assert_close(decoded.attention[row, step, :length], weights, atol=1e-5, rtol=1e-5)
                assert decoded.attention[row, step, length:].abs().sum() == 0


def test_incremental_decoding_and_row_selection():
    encoder, decoder = build()
    targets = torch.randint(12, (3, 6), generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        encoded = encoder(some_batch())
        whole = decoder(encoder, targets, decoder.new_state(encoded)).hidden
        state = decoder.new_state(encoded, 6)
        first = [decoder(encoder, token, state).hidden for token in targets[:, :3].split(1, 1)]
        state.select(rows)
        rest = [decoder(encoder, token[rows], state).hidden for token in targets[:, 3:].split(1, 1)]
    torch.testing.assert_close(torch.cat(first, 1), whole[:, :3], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(torch.cat(rest, 1), whole[rows, 3:], atol=1e-5, rtol=1e-5)


def test_word_embeddings_are_frozen():
    encoder, _ = build()
    encoder(some_batch()).layers[-1].sum().backward()
    assert encoder.tokens.weight.grad is None
    assert all(weight.grad is not None for weight in encoder.lstms.parameters())


def test_target_size_is_at_most_the_vocabulary():
    with pytest.raises(ConfigError, match="target_size = 31 exceeds vocab_size = 30"):
        CoveConfig.parse({**SIZES, "target_size": 31}, group="model")
