"""The network: a temporal backbone shared by a frame branch and a segment branch (paper, sections 4.1 to 4.3)."""

from mucon.model.backbone import BackboneConfig
from mucon.model.network import MuConNetwork, NetworkSize, TeacherForced, build_model
from mucon.model.segment_branch import Decoded, SegmentBranchConfig

__all__ = [
    "BackboneConfig",
    "Decoded",
    "MuConNetwork",
    "NetworkSize",
    "SegmentBranchConfig",
    "TeacherForced",
    "build_model",
]
