"""A training step never reads a value back from the device: on `meta` tensors, which have none, that is an error."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from mucon.extensions.soft_alignment import soft_alignment_loss
from mucon.methods.cdfl.learner import CdflConfig, CdflLearner, CdflLossConfig
from mucon.methods.cdfl.loss import Discriminative
from mucon.methods.nnv import NnvConfig, NnvLearner
from mucon.methods.window_gru.config import AlignedConfig
from mucon.methods.window_gru.learner import Aligned, AlignedLearner
from mucon.model import NetworkSize, build_model
from mucon.training.extras import Extras
from mucon.training.mucon_learner import parameter_groups
from mucon.training.optimiser import Optimiser
from mucon.training.step import FrameLabels, loss_vector, video_losses
from tests.helpers.factories import VOCABULARY, make_video, small_config

SIZE = NetworkSize(dim=5, n_actions=4, max_segments=9)
RIVALS = get_args(Discriminative)
VARIANTS = {
    "weak": {},
    "labelled": {"labelled": True},
    "free running": {"free": True},
    "bell with overlap and wide ramps": {
        "mask__shape": "bell",
        "mask__overlap": 0.1,
        "mask__min_ramp_frames": 2,
        "loss__normalise": "mask_sum",
    },
    "published program's choices": {
        "mask__corner_aligned": True,
        "loss__smoothing_rule": "after_mean",
        "loss__supervised_length_rule": "share",
        "labelled": True,
    },
    "two dilations, true stride": {"backbone__kind": "dual_dilated", "backbone__upsampling": "stride"},
    "one convolution": {"backbone__kind": "single"},
    "adam": {"training__optimiser": "adam"},
    "options beyond the paper": {
        "video_level__weight": 1.0,
        "prototypes__weight": 0.1,
        "augmentation__stretch": 1.25,
        "augmentation__noise": 0.1,
    },
}


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_runs_on_tensors_that_have_no_values(variant: str, precision: torch.dtype) -> None:
    settings = dict(VARIANTS[variant])
    labelled, free = settings.pop("labelled", False), settings.pop("free", False)
    config = small_config(**settings)
    model = build_model(SIZE, config.backbone, config.segment_branch, seed=0).to("meta").train()
    optimiser = Optimiser(model, config.training, parameter_groups(model))
    extras = Extras(config, SIZE, torch.device("meta"))
    features = extras.features(torch.empty(40, 5, device="meta", dtype=precision))
    transcript = torch.empty(3, device="meta", dtype=torch.int64)
    labels = FrameLabels(torch.empty(40, device="meta", dtype=torch.int64), transcript) if labelled else None
    own = None
    if free:
        outputs, own = model.free_running(features, 3)
    else:
        outputs = model(features, transcript)
    outputs = extras.outputs(outputs, 40)
    terms = video_losses(outputs, transcript, config.mask, config.loss, labels=labels, own=own)
    terms = extras.with_terms(terms, outputs, transcript, config.training.epochs - 1)
    assert {term.dtype for term in terms.values()} == {torch.float32}
    terms["total"].backward()
    done = torch.cat((loss_vector(terms), optimiser.step(0.01)))
    assert done.device.type == "meta"


def test_the_loss_of_soft_alignments_runs_on_tensors_that_have_no_values() -> None:
    log_probs = torch.empty(40, 4, device="meta", requires_grad=True)
    transcript, places = (torch.empty(*shape, device="meta", dtype=torch.int64) for shape in ((3,), (4, 3)))
    exist = torch.empty(4, 3, device="meta", dtype=torch.bool)
    loss = soft_alignment_loss(log_probs, transcript, places, exist, 2.0)
    loss.backward()
    assert (loss.device.type, loss.dtype) == ("meta", torch.float32)


@pytest.mark.parametrize(
    ("learner", "config"),
    [(NnvLearner, NnvConfig()), *((CdflLearner, CdflConfig(loss=CdflLossConfig(discriminative=k))) for k in RIVALS)],
)
def test_a_step_from_an_alignment_runs_on_tensors_that_have_no_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: type[AlignedLearner], config: AlignedConfig
) -> None:
    """The alignment runs on the CPU and reads the posteriors back; nothing else does."""
    videos = [make_video("a", (0, 2, 1), (9, 12, 7)), make_video("b", (2, 1), (30, 9))]
    one = learner("name", config, videos, VOCABULARY, tmp_path, torch.device("meta"), 5)
    lengths = [np.array(video.lengths) for video in videos]
    aligned = [Aligned(np.repeat(video.transcript, n), n) for video, n in zip(videos, lengths, strict=True)]
    monkeypatch.setattr(one, "align", lambda index, *_: aligned[index])
    for index in (0, 1):
        features = torch.empty(videos[index].n_frames, 5, device="meta")
        done = one.step(index, features, epoch=0, step=index, rate=0.01)
        assert (done.device.type, done.shape) == ("meta", (len(learner.TERMS) + 1,))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_on_a_gpu_never_waits_for_it() -> None:
    config = small_config()
    model = build_model(SIZE, config.backbone, config.segment_branch, seed=0).to("cuda").train()
    optimiser = Optimiser(model, config.training, parameter_groups(model))
    features, transcript = torch.randn(40, 5, device="cuda"), torch.tensor([0, 2, 1], device="cuda")
    for watched in (False, True):
        torch.cuda.set_sync_debug_mode("error" if watched else "default")
        try:
            terms = video_losses(model(features, transcript), transcript, config.mask, config.loss)
            terms["total"].backward()
            optimiser.step(0.01)
        finally:
            torch.cuda.set_sync_debug_mode("default")
