"""The whole network, and the one place where numbers meet classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mucon.model.backbone import Backbone, BackboneConfig, latent_index
from mucon.model.segment_branch import Decoded, SegmentBranch, SegmentBranchConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSize:
    """What the data decide about the network.

    Attributes:
        dim: D, features of a frame.
        n_actions: N.
        max_segments: most segments that decoding names; 1.5 x the longest training transcript + 5.
    """

    dim: int
    n_actions: int
    max_segments: int


class TeacherForced(NamedTuple):
    """Both branches' outputs on a video whose transcript is known.

    Attributes:
        latent_logits: `[T', N]`, of the frame branch before upsampling.
        latent_of_frame: `[T]` int64, the latent frame of each frame.
        transcript_logits: `[M+1, N+1]`.
        log_lengths: `[M]`, relative.
    """

    latent_logits: Tensor
    latent_of_frame: Tensor
    transcript_logits: Tensor
    log_lengths: Tensor


class MuConNetwork(nn.Module):
    """Backbone f_t, frame branch f_c and segment branch f_s.

    Classifying at the latent rate and then upsampling equals upsampling first, and costs a sixteenth.
    """

    def __init__(self, size: NetworkSize, backbone: BackboneConfig, segment_branch: SegmentBranchConfig) -> None:
        super().__init__()
        self.size = size
        self.backbone = Backbone(size.dim, backbone)
        self.frame_branch = nn.Linear(backbone.channels, size.n_actions)
        self.segment_branch = SegmentBranch(backbone.channels, size.n_actions, segment_branch)

    def forward(self, features: Tensor, transcript: Tensor) -> TeacherForced:
        """Both branches with teacher forcing.

        Args:
            features: `[T, D]`.
            transcript: `[M]` int64.
        """
        latent = self.backbone(features)
        start = transcript.new_full((1,), self.size.n_actions + 1)
        logits, log_lengths = self.segment_branch.teacher_forced(latent, torch.cat((start, transcript)))
        return TeacherForced(
            self.frame_branch(latent),
            latent_index(len(features), len(latent), device=features.device),
            logits,
            log_lengths,
        )

    @torch.no_grad()
    def predict(self, features: Tensor) -> tuple[Tensor, Decoded]:
        """Frame log-probabilities `[T, N]` and the greedily decoded segments of `[T, D]` features."""
        latent = self.backbone(features)
        log_probs = torch.log_softmax(self.frame_branch(latent), dim=1)
        frames = log_probs[latent_index(len(features), len(latent), device=features.device)]
        return frames, self.segment_branch.greedy(latent, self.size.max_segments)


def build_model(
    size: NetworkSize, backbone: BackboneConfig, segment_branch: SegmentBranchConfig, *, seed: int
) -> MuConNetwork:
    """A network with fresh weights that depend on the seed alone: made on the CPU in float32, whatever runs it.

    Deviation: the paper says Gaussian weights; torch's default initialisation is used, as in the published program,
    and Gaussian ones for the two attention tensors.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MuConNetwork(size, backbone, segment_branch)
