"""The whole network: its size, its start, and that classifying before upsampling changes nothing."""

from __future__ import annotations

import pytest
import torch

from mucon.config import BackboneConfig, SegmentBranchConfig, TrainConfig
from mucon.methods import method_named
from mucon.methods.published_weights import UNUSED, from_published
from mucon.model import NetworkSize, build_model
from mucon.training.mucon_learner import network_size
from tests.helpers.factories import VOCABULARY, network_output, small_videos
from tests.helpers.refusals import refused

SMALL = {
    "backbone": BackboneConfig(channels=8, n_layers=4, pool_after=(1, 2), n_groups=4),
    "segment_branch": SegmentBranchConfig(hidden=6),
}
SIZE = NetworkSize(dim=5, n_actions=3, max_segments=7)


def test_the_default_network_has_the_published_number_of_parameters_without_the_unused_ones():
    size = NetworkSize(dim=2048, n_actions=48, max_segments=30)
    model = build_model(size, BackboneConfig(), SegmentBranchConfig(), seed=0)
    assert sum(p.numel() for p in model.parameters()) == 1_643_298 - 32_896


@pytest.mark.parametrize("kind", ["dilated", "dual_dilated", "single"])
def test_the_parameters_are_counted_without_the_network(kind):
    config = TrainConfig().with_values({"backbone.kind": kind, "backbone.channels": 96, "segment_branch.hidden": 7})
    videos = small_videos(1)
    model = build_model(network_size(videos, VOCABULARY, 5), config.backbone, config.segment_branch, seed=0)
    assert method_named("mucon").n_parameters(config, videos, VOCABULARY) == sum(p.numel() for p in model.parameters())


def test_classifying_latent_frames_and_upsampling_is_upsampling_and_classifying():
    model = build_model(SIZE, **SMALL, seed=0).eval()
    features = torch.randn(23, 5)
    outputs = model(features, torch.tensor([0, 2]))
    latent = model.backbone(features)
    upsampled = torch.nn.functional.interpolate(latent.t()[None], 23)[0].t()
    torch.testing.assert_close(outputs.latent_logits[outputs.latent_of_frame], model.frame_branch(upsampled))
    frames, decoded = network_output(model, features)
    torch.testing.assert_close(frames, torch.log_softmax(model.frame_branch(upsampled), 1))
    assert len(decoded.transcript) <= SIZE.max_segments
    assert not frames.requires_grad


@pytest.mark.parametrize(("T", "M"), [(1, 1), (2, 5), (3, 3), (50, 1)])
def test_outputs_have_one_row_per_latent_frame_and_per_symbol(T, M):
    model = build_model(SIZE, **SMALL, seed=0)
    outputs = model(torch.randn(T, 5), torch.zeros(M, dtype=torch.long))
    n_latent = max(1, T // 4)
    assert outputs.latent_logits.shape == (n_latent, 3)
    assert outputs.latent_of_frame.shape == (T,)
    assert outputs.transcript_logits.shape == (M + 1, 4)
    assert outputs.log_lengths.shape == (M,)


def test_fresh_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = build_model(SIZE, **SMALL, seed=4).state_dict()
    torch.manual_seed(2)
    second = build_model(SIZE, **SMALL, seed=4).state_dict()
    other = build_model(SIZE, **SMALL, seed=5).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_building_a_network_leaves_the_global_generator_alone():
    state = torch.get_rng_state()
    build_model(SIZE, **SMALL, seed=4)
    assert torch.equal(torch.get_rng_state(), state)


def published(model) -> dict[str, torch.Tensor]:
    """A state under the published program's names, shaped as it shapes them."""
    ours = model.state_dict()
    state = {
        "ft.first_conv.weight": ours["backbone.first.weight"][:, :, None],
        "fs_decoder_attention_l3.weight": torch.zeros(6, 12),
        "conv_classifier.weight": ours["frame_branch.weight"][:, :, None],
        "ft.l_2.dilated_conv.weight": ours["backbone.layers.2.dilated_weight"].permute(2, 1, 0),
        "fs_decoder_lstm.weight_ih_l0": ours["segment_branch.decoder.weight_ih"],
        "fs_decoder_length.2.bias": ours["segment_branch.length_head.3.bias"],
    }
    assert set(UNUSED) & set(state)
    return state


def test_published_parameters_get_our_names_and_shapes():
    model = build_model(SIZE, **SMALL, seed=1)
    state = from_published(published(model))
    assert sorted(state) == [
        "backbone.first.weight",
        "backbone.layers.2.dilated_weight",
        "frame_branch.weight",
        "segment_branch.decoder.weight_ih",
        "segment_branch.length_head.3.bias",
    ]
    for name, tensor in state.items():
        assert torch.equal(tensor, model.state_dict()[name])
        assert tensor.is_contiguous()


def test_parameters_that_the_published_program_does_not_have_are_all_named():
    with refused("unknown", n=2) as refusal:
        from_published({"ft.l_0.conv.weight": torch.zeros(1), "classifier.bias": torch.zeros(1)})
    assert refusal.places == refusal.values == ["ft.l_0.conv.weight", "classifier.bias"]
