"""Facts about the training videos, and the decoding choices that use them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint, TrainingFacts
from mucon.decoding.alignment import best_lengths
from mucon.decoding.bigram import best_under_bigram, bigram_of
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import best_candidate, evidence
from mucon.decoding.length_priors import Flat, Poisson, PoissonPerClass
from mucon.decoding.published import published_lengths
from mucon.decoding.spread_priors import NegativeBinomial
from mucon.errors import Interrupted
from mucon.evaluation import evaluate
from mucon.inference import MuConPredictor, align_transcript, predict
from mucon.inference.predictions import see_given
from mucon.inference.training_facts import training_facts
from mucon.masks import absolute_lengths
from mucon.model import Decoded
from tests.helpers.factories import VOCABULARY, network_output, small_config, small_videos
from tests.helpers.refusals import refused
from tests.mucon.inference.test_predictions import checkpoint, features
from tests.mucon.test_evaluation import without_seconds
from tests.mucon.training.test_loop import StopAfter, train_small

TRAINING = DecodingConfig(transcripts="training")
VIDEOS = small_videos(4)
N = VOCABULARY.n_actions


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    config = small_config(training__epochs=10, training__learning_rate=0.05)
    with pytest.raises(Interrupted):
        train_small(folder, config, VIDEOS, should_stop=StopAfter(5))
    assert checkpoints.load(folder / "checkpoint").facts is None
    assert not (folder / "checkpoint" / "training.json").exists()
    train_small(folder, config, VIDEOS)
    return folder


@pytest.fixture(scope="module")
def trained(run: Path) -> Checkpoint:
    return checkpoints.load(run / "checkpoint")


def test_a_trained_model_knows_the_transcripts_and_its_own_lengths_of_the_training_videos(trained: Checkpoint):
    facts = trained.facts
    assert facts.transcripts == tuple(sorted({video.transcript for video in VIDEOS}))
    aligned = [align_transcript(trained, video.features(), video.transcript).segmentations["full"] for video in VIDEOS]
    frames = np.concatenate([one.to_frame_labels() for one in aligned])
    np.testing.assert_allclose(facts.frame_shares, np.bincount(frames, minlength=N) / len(frames))
    for n in range(N):
        own = [
            length for one in aligned for action, length in zip(one.transcript, one.lengths, strict=True) if action == n
        ]
        assert facts.mean_lengths[n] == pytest.approx(np.mean(own))


def test_facts_see_no_annotated_length_and_are_the_same_from_any_order(trained: Checkpoint):
    silent = [dataclasses.replace(video, lengths=None) for video in VIDEOS[::-1]]
    found = training_facts(trained, silent, torch.device("cpu"))
    assert found.transcripts == trained.facts.transcripts
    np.testing.assert_allclose(found.mean_lengths, trained.facts.mean_lengths, rtol=1e-12)


def test_facts_come_back_as_they_were(tmp_path: Path, trained: Checkpoint):
    checkpoints.save(tmp_path / "copy", trained)
    assert checkpoints.load(tmp_path / "copy").facts == trained.facts
    facts = json.loads((tmp_path / "copy" / "training.json").read_text())
    earlier = {name: facts[name] for name in ("transcripts", "mean_lengths", "frame_shares")}
    (tmp_path / "copy" / "training.json").write_text(json.dumps(earlier))
    assert checkpoints.load(tmp_path / "copy").facts == TrainingFacts.from_dict(earlier)
    checkpoints.save(tmp_path / "copy", dataclasses.replace(trained, facts=None))
    assert checkpoints.load(tmp_path / "copy").facts is None


@pytest.mark.parametrize("content", [b"{}", b"[]", b"{", b'{"transcripts": 3, "mean_lengths": [], "frame_shares": []}'])
def test_facts_that_are_damaged_are_named(tmp_path: Path, trained: Checkpoint, content: bytes):
    checkpoints.save(tmp_path / "copy", trained)
    (tmp_path / "copy" / "training.json").write_bytes(content)
    with refused("damaged", str(tmp_path / "copy" / "training.json"), n=1):
        checkpoints.load(tmp_path / "copy")


@pytest.mark.parametrize("T", [4, 9, 40])
@pytest.mark.parametrize("seed", range(3))
def test_full_among_training_transcripts_is_the_best_of_them(trained: Checkpoint, seed: int, T: int):
    given = features(T, seed)
    found = predict(trained, given, decoding=TRAINING)
    full = found.segmentations["full"]
    assert tuple(full.transcript) in trained.facts.transcripts
    log_probs = network_output(trained.model, given)[0].numpy()
    prior = PoissonPerClass(np.array(trained.facts.mean_lengths))
    scores = {one: best_lengths(log_probs, one, prior)[1] for one in trained.facts.transcripts if len(one) <= T}
    assert scores[tuple(full.transcript)] == pytest.approx(max(scores.values()), rel=1e-9)
    assert full.lengths.tolist() == best_lengths(log_probs, full.transcript, prior)[0].tolist()
    assert found.segmentations["segments"].n_frames in (0, T)
    alone = predict(trained, given, predictions=("full",), decoding=TRAINING).segmentations["full"]
    assert alone.to_frame_labels().tolist() == full.to_frame_labels().tolist()


def test_a_prefix_beam_gives_a_training_transcript_too(trained: Checkpoint):
    for width in (1, 3):
        narrow = dataclasses.replace(TRAINING, prefix_beam=width)
        full = predict(trained, features(40), decoding=narrow).segmentations["full"]
        assert tuple(full.transcript) in trained.facts.transcripts


def joint(given: Checkpoint, x: torch.Tensor, transcript: tuple[int, ...]) -> float:
    """Log probability of the transcript and its end, evidence and length prior of the best alignment."""
    with torch.no_grad():
        outputs = given.model(x, torch.tensor(transcript))
    named = torch.log_softmax(outputs.transcript_logits, 1)
    targets = torch.tensor([*transcript, N])
    lengths = absolute_lengths(outputs.log_lengths.double(), len(x)).numpy()
    _, score = best_lengths(network_output(given.model, x)[0].numpy(), transcript, Poisson(lengths))
    return float(named.gather(1, targets[:, None]).sum()) + score


@pytest.mark.parametrize("beam", [2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_gives_the_transcript_of_the_highest_joint_score(seed: int, beam: int):
    given, x = checkpoint(seed, end=1.0), features(30, seed)
    found = predict(given, x, predictions=("full",), decoding=DecodingConfig(beam=beam))
    full = tuple(found.segmentations["full"].transcript.tolist())
    latent, _ = given.model.encode(x)
    greedy, encoded = given.model.name_segments(latent)
    named = [*given.model.likeliest_segments(encoded, beam), *([] if greedy.cut else [greedy])]
    scores = {one.transcript: joint(given, x, one.transcript) for one in named if one.transcript}
    assert scores[full] == pytest.approx(max(scores.values()), rel=1e-5)
    assert not found.cut


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("width", [2, 300])
def test_a_beam_is_never_worse_than_the_greedy_transcript(seed: int, width: int):
    given, x = checkpoint(seed, end=2.0, max_segments=4), features(30, seed)
    greedy = network_output(given.model, x)[1]
    full = tuple(predict(given, x, decoding=DecodingConfig(beam=width)).segmentations["full"].transcript.tolist())
    assert full
    if greedy.transcript and not greedy.cut:
        assert joint(given, x, full) >= joint(given, x, greedy.transcript) - 1e-4


def test_the_beam_of_a_network_that_ends_at_once_gives_no_segment():
    given = checkpoint(end=1e4, max_segments=1)
    found = predict(given, features(1), decoding=DecodingConfig(beam=2))
    assert found.segmentations["full"].n_segments in (0, 1)


def test_transcripts_of_a_beam_that_are_all_too_long_are_no_empty_prediction():
    too_long, fitting, empty = (
        (Decoded(transcript, torch.zeros(len(transcript)), False, -1.0), np.full(len(transcript), 2.0))
        for transcript in ((0, 1, 2), (3,), ())
    )
    log_probs, beam = np.zeros((2, N)), DecodingConfig(beam=2)
    assert best_candidate(log_probs, [too_long, fitting, empty], beam).lengths.tolist() == [2]
    assert best_candidate(log_probs, [too_long, empty], beam).n_segments == 0
    assert best_candidate(log_probs, [], beam).n_segments == 0
    with refused("mismatch", "candidates", 2, n=1):
        best_candidate(log_probs, [too_long], beam)


def with_shares(shares: tuple[float, ...], seed: int = 0) -> Checkpoint:
    facts = TrainingFacts(transcripts=((0, 1),), mean_lengths=(5.0,) * N, frame_shares=shares)
    return dataclasses.replace(checkpoint(seed, end=-1e3), facts=facts)


def test_a_class_prior_is_divided_by_and_a_class_that_is_never_seen_by_a_little():
    given = with_shares((0.5, 0.5, 0.0, 0.0))
    log_probs = network_output(given.model, features(20))[0].numpy()
    found = evidence(log_probs, given.facts, DecodingConfig(class_prior="training"))
    np.testing.assert_allclose(found, log_probs - np.log([0.5, 0.5, 1e-6, 1e-6]), rtol=1e-6)
    assert np.array_equal(evidence(log_probs, given.facts, DecodingConfig()), log_probs)


def test_equal_shares_change_no_alignment_and_others_do():
    chosen, plain = (DecodingConfig(class_prior=prior, length_prior="none") for prior in ("training", "none"))
    changed = 0
    for seed in range(4):
        even, uneven = with_shares((0.25,) * 4, seed), with_shares((1.0, 0.0, 0.0, 0.0), seed)
        lengths = [
            align_transcript(given, features(40, seed), (1, 0, 2, 0), decoding=decoding).segmentations["full"].lengths
            for given, decoding in ((even, plain), (even, chosen), (uneven, chosen))
        ]
        assert lengths[0].tolist() == lengths[1].tolist()
        changed += lengths[0].tolist() != lengths[2].tolist()
    assert changed > 0


@pytest.mark.parametrize("step", [1, 5, 30])
def test_the_published_method_gives_the_published_decoders_labels(step: int):
    given, x = checkpoint(1, end=-1e3, max_segments=3), features(101, 1)
    log_probs, decoded = network_output(given.model, x)
    lengths = absolute_lengths(decoded.log_lengths.double(), 101).numpy()
    transcript = np.array(decoded.transcript)
    means = class_mean_lengths([(transcript, lengths)], N, fallback=1.0)
    labels, _, _ = published_lengths(log_probs.numpy(), transcript, means, step=step, max_length=2000)
    chosen = DecodingConfig(method="published", step=step)
    full = predict(given, x, decoding=chosen).segmentations["full"]
    assert full.to_frame_labels().tolist() == labels.tolist()


@pytest.mark.parametrize("settings", [{"transcripts": "training"}, {"class_prior": "training"}])
def test_a_checkpoint_without_facts_is_refused_by_the_choices_that_need_them(settings: dict[str, str]):
    decoding = DecodingConfig(**settings)
    setting = f"decoding.{next(iter(settings))}"
    with refused("missing", setting, "training", n=1) as refusal:
        predict(checkpoint(end=-1e3), features(9), decoding=decoding)
    assert "store" in refusal.problems[0].hint
    with refused("missing", setting, "training"):
        evaluate(MuConPredictor(checkpoint(end=-1e3)), VIDEOS, decoding=decoding)


@pytest.mark.parametrize("settings", [{"transcripts": "training"}, {"class_prior": "training", "beam": 2}])
def test_an_evaluation_computes_the_facts_from_the_given_training_videos(
    trained: Checkpoint, settings: dict[str, object]
):
    decoding = DecodingConfig(**settings)
    unknowing = dataclasses.replace(trained, facts=None)
    expected = evaluate(MuConPredictor(trained), small_videos(6), decoding=decoding)
    found = evaluate(MuConPredictor(unknowing), small_videos(6), decoding=decoding, training_videos=VIDEOS)
    assert without_seconds(found) == without_seconds(expected)
    assert unknowing.facts is None


def test_a_fitted_length_prior_is_that_of_alignments_by_the_evidence_alone(trained: Checkpoint):
    decoding = DecodingConfig(length_prior="fitted")
    aligned = [
        align_transcript(trained, video.features(), video.transcript).segmentations["frames"] for video in VIDEOS
    ]
    means = class_mean_lengths([(one.transcript, one.lengths) for one in aligned], N)
    np.testing.assert_allclose(trained.facts.fitted.means, means)
    given, transcript = features(40), (0, 1, 2, 0)
    full = align_transcript(trained, given, transcript, decoding=decoding).segmentations["full"]
    log_probs, predicted = see_given(trained.model, given, np.array(transcript))
    prior = trained.facts.fitted.prior(np.array(transcript), predicted)
    assert full.lengths.tolist() == best_lengths(log_probs, transcript, prior)[0].tolist()
    assert predict(trained, given, decoding=dataclasses.replace(decoding, beam=3)).segmentations["full"].n_frames == 40


def test_a_checkpoint_without_a_fitted_prior_gets_one_from_the_training_videos(trained: Checkpoint):
    decoding = DecodingConfig(length_prior="fitted")
    earlier = dataclasses.replace(trained, facts=dataclasses.replace(trained.facts, fitted=None))
    with refused("missing", "decoding.length_prior", "fitted", n=1):
        predict(earlier, features(12), decoding=decoding)
    assert MuConPredictor(earlier).prepared(VIDEOS, decoding).checkpoint.facts == trained.facts


@pytest.mark.parametrize("length_prior", ["segment", "fitted", "none"])
def test_full_can_be_any_transcript_under_the_bigram_of_training(trained: Checkpoint, length_prior: str):
    facts, given = trained.facts, features(40)
    assert sum(facts.counts) == len(VIDEOS)
    decoding = DecodingConfig(transcripts="bigram", length_prior=length_prior)
    full = predict(trained, given, decoding=decoding).segmentations["full"]
    bigram = bigram_of(facts.transcripts, facts.counts, N)
    priors = {
        "segment": PoissonPerClass(facts.mean_lengths),
        "fitted": NegativeBinomial(facts.fitted.means, facts.fitted.spreads),
        "none": Flat(),
    }
    expected, _ = best_under_bigram(network_output(trained.model, given)[0].numpy(), bigram, priors[length_prior])
    assert full.to_frame_labels().tolist() == expected.to_frame_labels().tolist()
    known = predict(trained, given, decoding=TRAINING).segmentations["full"]
    assert {tuple(known.transcript)} <= set(facts.transcripts)
