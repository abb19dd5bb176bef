"""Numbers that papers report, for the tables of `comparison`; in percent, with the convention of each."""

from sweeps.api import quoted_rows

OF_MUCON = "paper of MuCon, comparison with the state of the art"
OF_HAL = "paper of HAL (CVPR 2026), table 1"
POOLED = "MoF over all frames of a split, mean over the splits; SIL counts"
OF_VIDEOS = "MoF as the mean over the videos, on every 15th frame"
EITHER = f"{POOLED}; IoU and IoD by segment or by class, the source does not say which"
WITHOUT_BACKGROUND = "MoF over the frames whose true label is not background"
DETECTED = "IoD with the transcripts of the test videos, computed with the program of ISBA"


SEGMENTATION = (
    *quoted_rows(
        "breakfast",
        OF_MUCON,
        POOLED,
        {
            "ECTC": {"mof": 27.7},
            "HMM/RNN": {"mof": 33.3},
            "NNV": {"mof": 43.0},
            "D3TW": {"mof": 45.7},
            "CDFL": {"mof": 50.2},
            "MuCon": {"mof": 48.5},
        },
    ),
    *quoted_rows("breakfast", OF_MUCON, OF_VIDEOS, {"ISBA": {"mof": 38.4}}),
    *quoted_rows(
        "breakfast",
        f"{OF_MUCON}: the released programs run again, 5 runs",
        POOLED,
        {
            "ISBA, run by the authors of MuCon": {"mof": (36.4, 1.0)},
            "NNV, run by the authors of MuCon": {"mof": (39.7, 2.4)},
            "CDFL, run by the authors of MuCon": {"mof": (48.1, 2.5)},
        },
    ),
    *quoted_rows(
        "breakfast",
        OF_HAL,
        EITHER,
        {
            "ATBA": {"mof": (53.9, 1.2), "mof_without_background": 54.4, "iou": (41.1, 0.7), "iod": (61.7, 1.1)},
            "HAL": {"mof": (56.3, 1.3), "mof_without_background": 57.2, "iou": (42.6, 1.9), "iod": (62.4, 2.5)},
        },
    ),
    *quoted_rows(
        "breakfast",
        OF_MUCON,
        f"{POOLED}, also in F1 and Edit",
        {
            "ED-TCN": {"mof": 43.3},
            "TCFPN": {"mof": 52.0},
            "MS-TCN": {"mof": 66.3, "f1_at_10": 52.6, "f1_at_25": 48.1, "f1_at_50": 37.9, "edit": 61.7},
            "MS-TCN++": {"mof": 67.6, "f1_at_10": 64.1, "f1_at_25": 58.6, "f1_at_50": 45.9, "edit": 65.6},
        },
        supervision="frame labels",
    ),
    *quoted_rows(
        "hollywood",
        OF_MUCON,
        WITHOUT_BACKGROUND,
        {
            "ISBA": {"mof_without_background": 34.5},
            "D3TW": {"mof_without_background": 33.6},
            "CDFL": {"mof_without_background": 40.6},
            "MuCon": {"mof_without_background": 41.6},
        },
    ),
)
_DETECTED = {
    "breakfast": {"ECTC": 45.0, "HMM/RNN": 47.3, "ISBA": 52.3, "D3TW": 56.3, "CDFL": 63.9, "MuCon": 66.2},
    "hollywood": {"ECTC": 41.0, "HMM/RNN": 46.3, "ISBA": 39.6, "NNV": 48.7, "D3TW": 50.9, "CDFL": 52.9, "MuCon": 52.3},
}
ALIGNMENT = tuple(
    row
    for data, values in _DETECTED.items()
    for row in quoted_rows(data, OF_MUCON, DETECTED, {name: {"iod_by_index": value} for name, value in values.items()})
)
