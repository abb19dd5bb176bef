"""The network that classifies each frame from a short window around it, and the windows of many recordings.

NNV, CDFL and the HMM/RNN train it; the methods differ in their targets.
"""

from mucon.methods.window_gru.buffer import LabelBuffer
from mucon.methods.window_gru.network import WindowGru, WindowGruConfig
from mucon.methods.window_gru.windows import Windows

__all__ = ["LabelBuffer", "WindowGru", "WindowGruConfig", "Windows"]
