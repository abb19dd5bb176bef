"""MS-TCN and MS-TCN++: full supervision of a labelled share of the training videos.

Unlabelled videos are never visited: the baseline "MS-TCN on the labelled share" for MuCon's mixed supervision.
Deviation: the published programs report the epoch that is best on the test part; here it is the last epoch.
"""

from mucon.method import Method
from mucon.methods.frames import FrameMethod
from mucon.methods.ms_tcn.config import MsTcnConfig, MsTcnPlusPlusConfig, demo, demo_plus_plus

MS_TCN: Method[MsTcnConfig] = FrameMethod(
    "ms_tcn", MsTcnConfig, {"full": MsTcnConfig, "demo": demo, "breakfast": MsTcnConfig}
)
MS_TCN_PP: Method[MsTcnPlusPlusConfig] = FrameMethod(
    "ms_tcn_pp",
    MsTcnPlusPlusConfig,
    {"full": MsTcnPlusPlusConfig, "demo": demo_plus_plus, "breakfast": MsTcnPlusPlusConfig},
)
