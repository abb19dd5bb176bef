"""The whole network, and its construction from a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mucon.config import BackboneConfig, SegmentBranchConfig
from mucon.model.backbone import Backbone, latent_index
from mucon.model.segment_branch import Decoded, Encoded, SegmentBranch


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSize:
    """Sizes of the network that depend on the data.

    Attributes:
        dim: D, features per frame.
        n_actions: N.
        max_segments: limit of decoded segments; 1.5 x the longest training transcript + 5.
        members: networks of an ensemble, see `mucon.model.ensemble`; 1 for a single network.
    """

    dim: int
    n_actions: int
    max_segments: int
    members: int = 1

    def to_dict(self) -> dict[str, int]:
        """The sizes as checkpoints record them: `members` only of an ensemble."""
        sizes = {"dim": self.dim, "n_actions": self.n_actions, "max_segments": self.max_segments}
        return sizes if self.members == 1 else {**sizes, "members": self.members}


class TeacherForced(NamedTuple):
    """Outputs of both branches for a given transcript.

    Attributes:
        latent_logits: `[T', N]`, output of the frame branch before upsampling.
        latent_of_frame: `[T]` int64, latent frame of each frame.
        transcript_logits: `[M+1, N+1]`.
        log_lengths: `[M]`, relative.
        latent: `[T', D']`, input of both branches; None of an ensemble, which has several.
    """

    latent_logits: Tensor
    latent_of_frame: Tensor
    transcript_logits: Tensor
    log_lengths: Tensor
    latent: Tensor | None = None


class MuConNetwork(nn.Module):
    """Backbone f_t, frame branch f_c and segment branch f_s.

    Classifying at the latent rate and then upsampling gives the same logits as upsampling first, at a sixteenth of the
    cost.
    """

    def __init__(self, size: NetworkSize, backbone: BackboneConfig, segment_branch: SegmentBranchConfig) -> None:
        super().__init__()
        self.size = size
        self.stride = backbone.pooling if backbone.upsampling == "stride" else None
        self.backbone = Backbone(size.dim, backbone)
        self.frame_branch = nn.Linear(backbone.channels, size.n_actions)
        self.segment_branch = SegmentBranch(backbone.channels, size.n_actions, segment_branch)

    def forward(self, features: Tensor, transcript: Tensor) -> TeacherForced:
        """Runs both branches with teacher forcing.

        Args:
            features: `[T, D]`.
            transcript: `[M]` int64.
        """
        latent = self.backbone(features)
        start = transcript.new_full((1,), self.segment_branch.start_symbol)
        logits, log_lengths = self.segment_branch.teacher_forced(latent, torch.cat((start, transcript)))
        return self._outputs(features, latent, logits, log_lengths)

    def free_running(self, features: Tensor, n_segments: int) -> tuple[TeacherForced, Tensor]:
        """Runs both branches with the segment branch's own last action as input of each step.

        It decodes the true number of segments M. Deviation: the end symbol is excluded from the choice of an action
        (the published program replaces it by action 0).

        Args:
            features: `[T, D]`.
            n_segments: M, at least 1.

        Returns:
            The outputs, and the decoded actions `[M]` int64.
        """
        latent = self.backbone(features)
        logits, log_lengths, own = self.segment_branch.free_running(latent, n_segments)
        return self._outputs(features, latent, logits, log_lengths), own

    def _outputs(self, features: Tensor, latent: Tensor, logits: Tensor, log_lengths: Tensor) -> TeacherForced:
        latent_of_frame = self._latent_of_frame(features, latent)
        return TeacherForced(self.frame_branch(latent), latent_of_frame, logits, log_lengths, latent)

    def _latent_of_frame(self, features: Tensor, latent: Tensor) -> Tensor:
        return latent_index(len(features), len(latent), stride=self.stride, device=features.device)

    @torch.no_grad()
    def encode(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Latent sequence `[T', D']` and frame log probabilities `[T, N]` of features `[T, D]`."""
        latent = self.backbone(features)
        log_probs = torch.log_softmax(self.frame_branch(latent), dim=1)
        return latent, log_probs[self._latent_of_frame(features, latent)]

    @torch.no_grad()
    def name_segments(self, latent: Tensor) -> tuple[Decoded, Encoded]:
        """Decodes the segments of a latent sequence `[T', D']` greedily; also returns the encoded sequence."""
        encoded = self.segment_branch.encode(latent)
        return self.segment_branch.greedy(encoded, self.size.max_segments), encoded

    def likeliest_segments(self, encoded: Encoded, width: int) -> tuple[Decoded, ...]:
        """Decodes an encoded sequence with a beam of `width`; the most likely transcript first."""
        return self.segment_branch.beam(encoded, self.size.max_segments, width)


def build_model(
    size: NetworkSize, backbone: BackboneConfig, segment_branch: SegmentBranchConfig, *, seed: int
) -> MuConNetwork:
    """A network with initial weights that depend only on the seed; created on the CPU in float32 for every device.

    Deviation: the paper uses Gaussian weights; here torch's default initialisation, as in the published program, and
    Gaussian weights for the two attention tensors.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MuConNetwork(size, backbone, segment_branch)
