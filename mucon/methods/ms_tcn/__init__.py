"""MS-TCN and MS-TCN++: full supervision of a labelled share of the training videos.

Unlabelled videos are never visited: the baseline "MS-TCN on the labelled share" for MuCon's mixed supervision.
Deviation: the published programs report the epoch that is best on the test part; here it is the last epoch.
"""

from mucon.methods.ms_tcn.method import MS_TCN, MS_TCN_PP

__all__ = ["MS_TCN", "MS_TCN_PP"]
