"""The published program's whole network (golden/network.npz, network_end.npz), every key of every case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from numpy.typing import NDArray

from mucon.config import BackboneConfig, SegmentBranchConfig
from mucon.methods.published_weights import from_published
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.recipes import published_program
from mucon.training.step import video_losses
from tests.helpers.factories import network_output
from tests.mucon.parity import golden

INPUTS = ("features", "transcript")
STEPS = 31
"""Step limit of its free running."""
TERMS = {
    "total": "total",
    "transcript": "transcript",
    "mucon": "mutual_consistency",
    "length": "length",
    "smoothing": "smoothing",
}


def build(weights: golden.Arrays) -> MuConNetwork:
    """A network with the sizes of the arrays and four channels per group, as in the default network."""
    channels, dim, _ = weights["ft.first_conv.weight"].shape
    n_layers = len({name.split(".")[1] for name in weights if name.startswith("ft.l_")})
    model = build_model(
        NetworkSize(dim=dim, n_actions=len(weights["conv_classifier.bias"]), max_segments=STEPS - 1),
        BackboneConfig(channels=channels, n_layers=n_layers, n_groups=channels // 4),
        SegmentBranchConfig(hidden=len(weights["fs_decoder_attention_V"])),
        seed=0,
    )
    model.load_state_dict(from_published(weights))
    return model.eval()


def free_running(model: MuConNetwork, features: torch.Tensor, theirs: NDArray[Any]) -> Iterator[tuple[str, Any]]:
    """Greedy decoding; without an end symbol it decodes a segment in its last step, where ours has stopped."""
    decoded = network_output(model, features)[1]
    symbols = list(decoded.transcript)
    if decoded.cut:
        assert len(theirs) == STEPS
        assert theirs[-1] != model.size.n_actions
        symbols.append(theirs[-1])
    else:
        symbols.append(model.size.n_actions)
    yield "free_running/transcript_with_end", symbols
    yield "free_running/relative_lengths", torch.softmax(decoded.log_lengths, 0)


def outputs(model: MuConNetwork, case: golden.Arrays) -> Iterator[tuple[str, Any]]:
    features, transcript = torch.tensor(case["features"]), torch.tensor(case["transcript"])
    forced = model(features, transcript)
    yield "latent", model.backbone(features)
    yield "frame_logits", forced.latent_logits[forced.latent_of_frame]
    yield "teacher_forced/transcript_log_probs", torch.log_softmax(forced.transcript_logits, 1)
    yield "teacher_forced/log_lengths", forced.log_lengths
    recipe = published_program()
    terms = video_losses(forced, transcript, recipe.mask, recipe.loss)
    yield from ((f"loss/{theirs}", terms[ours]) for theirs, ours in TERMS.items())
    yield from free_running(model, features, case["free_running/transcript_with_end"])


@pytest.mark.parity
@pytest.mark.parametrize("name", ["network.npz", "network_end.npz"])
def test_every_published_output_of_the_network_is_met(name: str):
    groups = golden.read(name)
    model = build(groups["weights"])
    compared = 0
    for place, case in golden.cases(groups).items():
        for key, ours in outputs(model, case):
            tolerance = 0.0 if "transcript_with_end" in key else golden.LOSS if "loss" in key else golden.NETWORK
            golden.assert_close(ours, case[key], tolerance, f"{name} {place}/{key}")
            compared += 1
    assert compared == golden.count_outputs(name, INPUTS) > 0


@pytest.mark.parity
def test_the_folder_shows_a_decoding_that_ends_by_itself():
    groups = golden.read("network_end.npz")
    end = len(groups["weights"]["conv_classifier.bias"])
    last = {int(case["free_running/transcript_with_end"][-1]) == end for case in golden.cases(groups).values()}
    assert True in last, "no decoding of the folder ends by itself"
