"""Ensembles: the mean of log probabilities before decoding, for frames, segments, full and alignment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import saved_of
from mucon.checkpoint_files import Progress, Saved
from mucon.decoding.config import DecodingConfig
from mucon.export.ensemble import combined
from mucon.export.folder import write
from mucon.identity.trained_on import TrainedOn
from mucon.inference import MuConPredictor, align_transcript, predict
from mucon.library import load_predictor
from mucon.masks import absolute_lengths
from mucon.methods import method_named
from mucon.methods.frames.networks import build_network
from mucon.model.ensemble import MuConEnsemble
from mucon.videos import Source
from tests.helpers.exported import DIM, export, features, frame_log_probs, network
from tests.helpers.factories import VOCABULARY
from tests.helpers.refusals import refused

MEMBERS = [network(seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> checkpoints.Checkpoint:
    return checkpoints.load(export(tmp_path_factory.mktemp("export") / "model", MEMBERS))


def reference(T: int, seed: int) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Frame log probabilities, transcript and log lengths, from the members' own recurrences over the whole prefix."""
    given = features(T, seed)
    seen = [member.model.encode(given) for member in MEMBERS]
    frames = torch.log_softmax(sum(log_probs for _, log_probs in seen) / len(MEMBERS), dim=1)
    branches = [member.model.segment_branch for member in MEMBERS]
    encoded = [branch.encode(latent) for branch, (latent, _) in zip(branches, seen, strict=True)]
    transcript: list[int] = []
    lengths = np.zeros(0)
    while True:
        symbols = torch.tensor([branches[0].start_symbol, *transcript])
        outputs = [
            branch.heads(*branch.recur(one, branch.embed(symbols))[:2])
            for branch, one in zip(branches, encoded, strict=True)
        ]
        mean = sum(torch.log_softmax(logits[-1], dim=0) for logits, _ in outputs)
        symbol = int(mean.argmax())
        if symbol == branches[0].end_symbol or len(transcript) == MEMBERS[0].model.size.max_segments:
            return frames.numpy(), transcript, lengths
        lengths = np.mean([log_lengths.detach().numpy() for _, log_lengths in outputs], axis=0)
        transcript.append(symbol)


@pytest.mark.parametrize("T", [1, 2, 7, 40, 133])
def test_predictions_are_those_of_the_mean_of_the_log_probabilities(ensemble: checkpoints.Checkpoint, T: int):
    for seed in range(4):
        frames, transcript, log_lengths = reference(T, seed)
        found = predict(ensemble, features(T, seed))
        log_probs = ensemble.model.encode(features(T, seed))[1].numpy()
        np.testing.assert_allclose(log_probs, frames, atol=1e-5)
        np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, atol=1e-5)
        assert found.segmentations["frames"].to_frame_labels().tolist() == log_probs.argmax(axis=1).tolist()
        assert found.segmentations["full"].transcript.tolist() == transcript[:T]
        if transcript[:T]:
            shares = absolute_lengths(torch.from_numpy(log_lengths[:T].astype(float)), T).numpy()
            segments = found.segmentations["segments"]
            assert segments.transcript.tolist() == transcript[:T]
            assert abs(segments.lengths - np.maximum(shares, 1)).max() <= len(shares)
            assert segments.n_frames == T


def test_equal_members_predict_like_one(tmp_path: Path):
    one = network(5)
    twin = replace(one, config=one.config.override("seed", 6))
    twice = checkpoints.load(export(tmp_path / "model", [one, twin]))
    assert isinstance(twice.model, MuConEnsemble)
    for T in (3, 60):
        for decoding in (DecodingConfig(), DecodingConfig(beam=4), DecodingConfig(transcripts="training")):
            ours, theirs = (predict(model, features(T), decoding=decoding) for model in (twice, one))
            for name in ("frames", "segments", "full"):
                left, right = ours.segmentations[name], theirs.segmentations[name]
                assert (left.transcript.tolist(), left.lengths.tolist()) == (
                    right.transcript.tolist(),
                    right.lengths.tolist(),
                )


def test_a_wide_beam_finds_a_transcript_that_is_at_least_as_likely_as_the_greedy_one(
    ensemble: checkpoints.Checkpoint,
):
    for seed in range(5):
        latent, _ = ensemble.model.encode(features(50, seed))
        greedy, encoded = ensemble.model.name_segments(latent)
        best = ensemble.model.likeliest_segments(encoded, 8)[0]
        assert greedy.cut or best.log_prob >= greedy.log_prob - 1e-5


def test_a_known_transcript_is_aligned_by_all_members(ensemble: checkpoints.Checkpoint):
    given = features(40)
    found = align_transcript(ensemble, given, [0, 1, 2], predictions=("segments", "full"))
    symbols = torch.tensor([0, 1, 2])
    log_lengths = torch.stack([member.model(given, symbols).log_lengths for member in MEMBERS]).mean(dim=0)
    shares = absolute_lengths(log_lengths.detach().double(), 40).numpy()
    assert abs(found.segmentations["segments"].lengths - shares).max() < 1
    assert found.segmentations["full"].transcript.tolist() == [0, 1, 2]


def test_an_ensemble_of_frame_classifiers_is_the_mean_of_their_log_probabilities(tmp_path: Path):
    method = method_named("ms_tcn")
    config = method.config().with_values({"network.maps": 4, "network.layers": 3, "network.stages": 2})
    networks = [build_network(config.network, DIM, 4, seed=seed).eval() for seed in (1, 2)]
    trainings = {
        f"run_{seed}": Saved(
            method="ms_tcn", config=config.override("seed", seed).to_dict(), vocabulary=VOCABULARY,
            size={"dim": DIM, "n_actions": 4}, progress=Progress(finished=True), weights=one.state_dict(),
        )
        for seed, one in enumerate(networks)
    }  # fmt: skip
    write(tmp_path / "model", trainings, name="two", scores=lambda _: [])
    predictor = load_predictor(tmp_path / "model", "cpu")
    mean = sum(one.frame_log_probs(features(30)) for one in networks) / 2
    torch.testing.assert_close(frame_log_probs(predictor, features(30)), torch.log_softmax(mean, dim=1))
    assert predictor.to(torch.device("cpu")).weights_sha256() == predictor.weights_sha256()


def test_members_of_other_settings_splits_or_actions_are_refused():
    first = saved_of(network(1))
    data = {
        split: TrainedOn(fingerprint="0", recordings={f"v{split}": None}, source=Source(split=split))
        for split in ("1", "2")
    }
    others = {
        "setting": saved_of(network(2, backbone__channels=8)),
        "decoding": saved_of(network(2, decoding__beam=3)),
        "vocabulary": replace(first, vocabulary=replace(VOCABULARY, background=())),
        "size": saved_of(network(2, max_segments=9)),
        "split": replace(first, trained_on=data["2"]),
    }
    for name, other in others.items():
        with refused("mismatch", name, n=1):
            combined({"first": replace(first, trained_on=data["1"] if name == "split" else None), name: other})
    with refused("missing", "--ensemble", 1):
        combined({"first": first})
    with refused("mismatch", "other", ("method",), n=1):
        combined({"first": first, "other": replace(saved_of(network(2)), method="ms_tcn")})
    with refused("duplicate", "third", 2, n=1):
        combined({"first": first, "second": saved_of(network(2)), "third": saved_of(network(2))})
    both = replace(first, size={**first.size, "members": 2})
    with refused("unsupported", "second", 2):
        combined({"first": both, "second": replace(both, config=saved_of(network(2)).config)})


def test_an_ensemble_has_seen_the_recordings_of_all_members():
    trainings = {
        f"run_{i}": replace(
            saved_of(network(i)), trained_on=TrainedOn(fingerprint=str(i), recordings={"a": None, f"v{i}": None})
        )
        for i in (1, 2)
    }
    seen = combined(trainings).trained_on
    assert seen is not None
    assert sorted(seen.seen) == ["a", "v1", "v2"]


def test_a_copy_of_an_ensemble_is_independent(ensemble: checkpoints.Checkpoint):
    predictor = MuConPredictor(ensemble)
    copy = predictor.to(torch.device("cpu"))
    with torch.no_grad():
        next(copy.checkpoint.model.parameters()).add_(1)
    assert copy.weights_sha256() != predictor.weights_sha256()
    assert predict(ensemble, features(20)).segmentations.keys() == {"frames", "segments", "full"}
