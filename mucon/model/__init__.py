"""The network: a temporal backbone shared by a frame branch and a segment branch (paper, sections 4.1 to 4.3)."""

from mucon.model.network import MuConNetwork, NetworkSize, TeacherForced, build_model
from mucon.model.segment_branch import Decoded

__all__ = [
    "Decoded",
    "MuConNetwork",
    "NetworkSize",
    "TeacherForced",
    "build_model",
]
