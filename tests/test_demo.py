"""The demo is neither trivial nor hopeless: a table of it shows what has been learned."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mucon import checkpoint
from mucon.baselines import blind_baseline, nearest_centroid
from mucon.evaluation import evaluate
from mucon.inference import MuConPredictor
from mucon.metrics.scores import score
from mucon.recipes import demo
from mucon.segments import Segmentation
from mucon.synthetic.grammar import SyntheticData, synthesize
from mucon.synthetic.grammar_config import SyntheticConfig
from mucon.training import train


@cache
def data() -> SyntheticData:
    return synthesize(SyntheticConfig())


def mof(predictions: list[Segmentation]) -> float:
    truths = [Segmentation.of(video.transcript, video.lengths or ()) for video in data().part("test")]
    return score(truths, predictions, data().vocabulary.background_ids).values["mof"]


def blind_mof() -> float:
    return mof(blind_baseline(data().part("train"), data().part("test")))


def test_a_nearest_centroid_classifier_with_all_labels_is_right_in_most_frames_but_not_in_all() -> None:
    assert 0.6 <= mof(nearest_centroid(data().part("train"), data().part("test"))) <= 0.85


def test_the_transcript_prior_with_equal_lengths_leaves_room_above_it() -> None:
    assert blind_mof() <= 0.45


def test_the_demo_is_small() -> None:
    frames = [video.n_frames for video in data().videos]
    assert (len(data().part("train")), len(data().part("test"))) == (60, 30)
    assert len({video.transcript for video in data().part("train")}) >= 15
    assert max(frames) <= 400
    assert data().videos[0].dim == 32


def test_the_demos_box_row_is_fifteen_points_above_the_feature_free_baseline(tmp_path: Path) -> None:
    train(demo(), data().part("train"), data().vocabulary, folder=tmp_path, device="cpu")
    found = evaluate(MuConPredictor(checkpoint.load(tmp_path / "checkpoint")), data().part("test"))
    assert found.scores["full"]["mof"] >= blind_mof() + 0.15
    assert found.scores["frames"]["mof"] >= blind_mof() + 0.15
    assert found.n_empty == 0
