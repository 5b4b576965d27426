"""The Transformer against torch's own."""

import math

import pytest
import torch
from torch import nn

from polyseme.batch import Batch
from polyseme.models.transformer import Transformer, TransformerConfig, sinusoids
from polyseme.training.storage.model_dir import meta_device

SIZES = {"vocab_size": 30, "width": 16, "num_layers": 2, "num_heads": 4, "inner_width": 24, "dropout": 0.0}


def build():
    torch.manual_seed(0)
    encoder = Transformer(TransformerConfig(**SIZES)).eval()
    decoder = encoder.new_decoder().eval()
    for weight in [*encoder.parameters(), *decoder.parameters()]:  # zero biases and unit norms would hide mistakes
        nn.init.normal_(weight, std=0.3)
    return encoder, decoder


def copy_attention(theirs, weights, biases, output):
    theirs.in_proj_weight.copy_(weights)
    theirs.in_proj_bias.copy_(biases)
    theirs.out_proj.load_state_dict(output.state_dict())


@torch.no_grad()
def peer_of(encoder, decoder):
    """The same layers in torch's own Transformer."""
    options = {"d_model": 16, "nhead": 4, "dim_feedforward": 24, "dropout": 0.0, "batch_first": True}
    encoding = nn.ModuleList(nn.TransformerEncoderLayer(**options) for _ in encoder.blocks).eval()
    decoding = nn.ModuleList(nn.TransformerDecoderLayer(**options) for _ in decoder.blocks).eval()
    for ours, theirs in [*zip(encoder.blocks, encoding, strict=True), *zip(decoder.blocks, decoding, strict=True)]:
        projection = ours.attention.query_key_value
        copy_attention(theirs.self_attn, projection.weight, projection.bias, ours.attention.output)
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
        norms = [ours.attention_norm, ours.feed_forward_norm]
        if hasattr(ours, "cross_attention"):
            cross = ours.cross_attention
            weights, biases = (
                torch.cat([getattr(cross.query, part), getattr(cross.key_value, part)]) for part in ("weight", "bias")
            )
            copy_attention(theirs.multihead_attn, weights, biases, cross.output)
            norms.insert(1, ours.cross_attention_norm)
        for number, norm in enumerate(norms, 1):
            getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    return encoding, decoding


def padded_batch():
    ids = torch.randint(30, (3, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    return Batch(ids=ids, mask=mask)


def test_equals_the_transformer_of_torch():
    encoder, decoder = build()
    encoding, decoding = peer_of(encoder, decoder)
    batch = padded_batch()
    targets = torch.randint(30, (3, 5), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        x = encoder.tokens(batch.ids) * 4 + sinusoids(torch.arange(7), 16)
        y = encoder.tokens(targets) * 4 + sinusoids(torch.arange(5), 16)
        for layer in encoding:
            x = layer(x, src_key_padding_mask=~batch.mask)
        causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
        for layer in decoding:
            y = layer(y, x, tgt_mask=causal, memory_key_padding_mask=~batch.mask)
        encoded = encoder(batch)
        decoded = decoder(encoder, targets, decoder.new_state(encoded))
    torch.testing.assert_close(encoded.layers[-1][batch.mask], x[batch.mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(decoded.hidden, y, atol=1e-5, rtol=1e-5)
    assert decoded.attention.shape == (3, 5, 7)
    torch.testing.assert_close(decoded.attention.sum(-1), torch.ones(3, 5))
    assert decoded.attention[1, :, 4:].abs().max() == 0


def test_incremental_decoding_and_row_selection():
    encoder, decoder = build()
    batch = padded_batch()
    targets = torch.randint(30, (3, 6), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        encoded = encoder(batch)
        whole = decoder(encoder, targets, decoder.new_state(encoded))
        state = decoder.new_state(encoded, 6)
        first = [decoder(encoder, token, state) for token in targets[:, :3].split(1, 1)]
        rows = torch.tensor([2, 0, 0, 1])
        state.select(rows)
        rest = [decoder(encoder, token[rows], state) for token in targets[:, 3:].split(1, 1)]
    for name in ("hidden", "attention"):
        expected = getattr(whole, name)
        torch.testing.assert_close(
            torch.cat([getattr(d, name) for d in first], 1), expected[:, :3], atol=1e-5, rtol=1e-5
        )
        torch.testing.assert_close(
            torch.cat([getattr(d, name) for d in rest], 1), expected[rows, 3:], atol=1e-5, rtol=1e-5
        )


def test_sinusoidal_positions():
    found = sinusoids(torch.tensor([0, 3, 50]), 8)
    for row, position in enumerate([0, 3, 50]):
        for i in range(4):
            angle = position / 10_000 ** (2 * i / 8)
            assert float(found[row, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-5)
            assert float(found[row, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-5)


def test_base_has_the_published_number_of_parameters():
    with meta_device():
        encoder = Transformer(TransformerConfig())
        decoder = encoder.new_decoder()
    layer = 4 * (512 * 512 + 512) + 2 * 512 * 2048 + 2048 + 512 + 2 * 2 * 512
    cross = 4 * (512 * 512 + 512) + 2 * 512
    number = sum(weight.numel() for weight in [*encoder.parameters(), *decoder.parameters()])
    assert number == 37_000 * 512 + 12 * layer + 6 * cross == 63_082_496  # published: 65M
