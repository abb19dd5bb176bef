"""MuCon's learner: training from transcripts, and from frame labels for labelled videos."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint, Progress, TrainingFacts
from mucon.checkpoint_files import Saved, load_weights, parsing
from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD
from mucon.decoding.background import no_labels
from mucon.decoding.config import DecodingConfig
from mucon.device import choose_device, usable_precision
from mucon.errors import DataWarning, InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.inference.predictions import predict, see_given
from mucon.inference.training_facts import check_background, training_facts, with_background
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.segments import Segmentation
from mucon.training.extras import Extras
from mucon.training.label_free import Seen, label_free_scores
from mucon.training.loop import EpochReport, Loop
from mucon.training.optimiser import Optimiser
from mucon.training.progress import drawn, evaluating, progress_scores, videos_to_score
from mucon.training.resuming import resume
from mucon.training.self_training import SelfTraining
from mucon.training.step import SUPERVISED_TERMS, TERMS, FrameLabels, compiled_video_losses, loss_vector, video_losses
from mucon.training.supervision import true_labels, with_labels
from mucon.training.warm_start import warm_start
from mucon.training_config import CHECKPOINT_SECONDS, Schedule
from mucon.videos import Source, Video, check_training_videos, warn_of_long_segments, warn_of_short_videos
from mucon.vocabulary import Vocabulary
from storage.fencing import ALONE, Writer

SCORED = (("frames", "mof"), ("full", "mof"), ("full", "matching_score"))
"""Prediction and metric of the scores during training."""


def train(
    config: TrainConfig,
    videos: Sequence[Video],
    vocabulary: Vocabulary,
    *,
    folder: Path,
    device: str = "auto",
    report: Callable[[EpochReport], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    source: Source | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    writer: Writer = ALONE,
) -> None:
    """Trains MuCon until the last epoch; resumes from `folder/checkpoint` if that exists.

    Args:
        config: configuration of the run.
        videos: with transcripts, in any order. Training uses the lengths of those that are labelled already and of
            the additional share `training.labelled`.
        vocabulary: the actions.
        folder: the run folder; `folder/checkpoint` is written from time to time and when training stops, and
            `folder/labelled.json` contains the ids of the labelled videos.
        device: `auto`, `cpu`, `cuda` or `cuda:0`.
        report: called after each epoch, see `Loop.run`.
        should_stop: called before each step; if it returns true, training stops with a checkpoint.
        source: the store of the videos, recorded with the checkpoint.
        checkpoint_seconds: seconds between two checkpoints, see `Loop`.
        writer: the right to write into the run folder, asked at each rename.

    Raises:
        InputError: one problem per unsuitable video, or a checkpoint of another run or of other data.
        Interrupted: `should_stop` returned true; call again to resume with the same bits.
        Diverged: a loss, a gradient or a weight became NaN or infinite; the message contains the video.
        SupersededError: another process has taken over the run folder.

    Warns:
        DataWarning: recordings shorter than a latent frame, or with more segments than latent frames; segments that
            are much longer than the receptive field of the backbone.
    """
    dim = check_training_videos(videos, vocabulary)
    _check_decoding(config.decoding, videos)
    check_background(vocabulary.background_ids, config.decoding)
    warn_of_short_videos(videos, config.backbone.pooling)
    if config.backbone.kind != "single":  # which has no context by choice
        warn_of_long_segments(videos, config.backbone.receptive_field)
    labelled = with_labels(sorted(videos, key=lambda v: v.id), config.training.labelled, config.seed)
    if config.decoding.background_rule == "labelled" and not any(video.labelled for video in labelled):
        raise InputError(no_labels("labelled"))
    learner = MuConLearner(config, labelled, vocabulary, Path(folder), choose_device(device), dim, source)
    Loop(learner, Path(folder), checkpoint_seconds=checkpoint_seconds, writer=writer).run(report, should_stop)


def _check_decoding(decoding: DecodingConfig, videos: Sequence[Video]) -> None:
    """Refuses before training what would fail after it.

    Raises:
        InputError: videos of these lengths cannot be decoded in such steps.
    """
    if decoding.method == "published":
        short = [video for video in videos if video.n_frames // decoding.step < len(video.transcript)]
        if short:
            raise InputError(
                Problem(
                    rule="range",
                    place="decoding.step",
                    value=decoding.step,
                    message=(
                        f"decoding.method=published needs at least {decoding.step} frames per segment; "
                        f"{len(short)} training videos are too short, first {short[0].id!r} with {short[0].n_frames} "
                        f"frames and {len(short[0].transcript)} segments"
                    ),
                    hint="lower decoding.step or set decoding.method=exact",
                )
            )


def network_size(videos: Sequence[Video], vocabulary: Vocabulary, dim: int) -> NetworkSize:
    """The parts of the network's size that the training videos determine."""
    longest = max(len(video.transcript) for video in videos)
    return NetworkSize(dim=dim, n_actions=vocabulary.n_actions, max_segments=math.ceil(1.5 * longest) + 5)


def parameter_groups(model: MuConNetwork) -> dict[str, list[nn.Parameter]]:
    """The two groups whose gradients are clipped separately, in their order in memory.

    `encoder`: backbone, its norm, the encoder LSTM and its two linear layers; `decoder`: everything else.
    """
    branch = model.segment_branch
    encoder = [
        parameter
        for module in (model.backbone, branch.encoder, branch.initial_hidden, branch.initial_cell)
        for parameter in module.parameters()
    ]
    names = {id(parameter) for parameter in encoder}
    decoder = [p for p in model.parameters() if id(p) not in names]
    if encoder[0].is_cuda:  # weights of the LSTM first, then its biases: cuDNN reads them without a copy
        lstm = sorted(branch.encoder.parameters(), key=lambda p: p.ndim == 1)
        names = {id(parameter) for parameter in lstm}
        encoder = [*lstm, *(p for p in encoder if id(p) not in names)]
    return {"encoder": encoder, "decoder": decoder}


class MuConLearner:
    """A network, its optimiser and MuCon's step; a `mucon.training.loop.Learner`.

    Args:
        config: configuration of the run.
        videos: ordered by id.
        vocabulary: the actions.
        folder: the run folder; the state is that of `folder/checkpoint` if it exists.
        device: device of the network.
        dim: D of the features.
        source: the store of the videos.

    Raises:
        InputError: a labelled video without lengths, or a checkpoint of another run.
    """

    def __init__(
        self,
        config: TrainConfig,
        videos: Sequence[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
        source: Source | None = None,
    ) -> None:
        precision = usable_precision(config.training.precision, device)
        if precision != config.training.precision:
            _warn_of_precision(device)
            config = config.override("training.precision", precision)
        self.config, self.seed = config, config.seed
        self.schedule: Schedule = config.training
        self.videos, self.vocabulary, self.device = videos, vocabulary, device
        self.dtype = getattr(torch, precision)
        size = network_size(videos, vocabulary, dim)
        path = folder / "checkpoint"
        self.trained_on = TrainedOn.of(videos, vocabulary, source or Source())
        saved = resume(
            path,
            method=DEFAULT_METHOD,
            config=config,
            size=size.to_dict(),
            vocabulary=vocabulary,
            data=self.trained_on,
            labelled=any(video.labelled for video in videos),
        )
        self.trained_on = replace(self.trained_on, earlier=self._earlier(saved))
        self.progress = Progress() if saved is None else saved.progress
        self.model = self._network(size, saved, path)
        self.optimiser = Optimiser(self.model, config.training, parameter_groups(self.model))
        self.transcripts = [torch.tensor(video.transcript, device=device) for video in videos]
        self.labels = [self._labels(video) for video in videos]
        self.n_labelled = sum(labels is not None for labels in self.labels)
        self.extras = Extras(config, size, device)
        self.self_training = SelfTraining(config, videos, vocabulary.n_actions, device)
        if saved is not None and not saved.progress.finished:
            with parsing(path):
                self.optimiser.load_state(saved.optimiser)
                self.self_training.load_state(saved.learner, saved.progress)
                self.extras.load_state(saved.learner)
        self.class_weights = self._class_weights()
        self.accumulate = config.training.accumulate
        self.norms: Mapping[str, int] = dict.fromkeys(self.optimiser.groups, -(-len(videos) // self.accumulate))
        self.scored = videos_to_score(videos, config.training.progress_videos, config.seed)
        self.label_free = drawn(videos, config.training.label_free_videos, config.seed)
        self.video_losses = compiled_video_losses() if config.training.compile else video_losses

    def _earlier(self, saved: Saved | None) -> Mapping[str, str | None]:
        """The recordings of the model from which training started."""
        if saved is not None:
            return {} if saved.trained_on is None else saved.trained_on.earlier
        start = self.config.training.warm_start
        before = None if start is None else checkpoints.trained_on(checkpoints.of_run(Path(start)))
        return {} if before is None else before.seen

    def _network(self, size: NetworkSize, saved: Saved | None, path: Path) -> MuConNetwork:
        model = build_model(size, self.config.backbone, self.config.segment_branch, seed=self.config.seed)
        if saved is not None:
            load_weights(model, saved, path)
        elif self.config.training.warm_start is not None:
            warm_start(model, self.vocabulary, Path(self.config.training.warm_start))
        return model.to(self.device).train()

    def _class_weights(self) -> Tensor | None:
        """Weights `[N]` of the actions in L_mu; None if all are 1."""
        background, weight = self.vocabulary.background_ids, self.config.loss.background_weight
        if not background or weight == 1:
            return None
        weights = torch.ones(self.vocabulary.n_actions)
        weights[list(background)] = weight
        return weights.to(self.device)

    def _labels(self, video: Video) -> FrameLabels | None:
        if not video.labelled:
            return None
        labels = torch.from_numpy(true_labels(video))
        return FrameLabels(labels.to(self.device), torch.tensor(video.lengths, device=self.device))

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.config.schedule.rate(epoch)

    def losses(self, epoch: int) -> Mapping[str, int]:
        """The terms of every video, those of labelled videos, and those of options that are on."""
        return {
            **dict.fromkeys(TERMS, len(self.videos)),
            **(dict.fromkeys(SUPERVISED_TERMS, self.n_labelled) if self.n_labelled else {}),
            **self.self_training.losses(epoch),
            **dict.fromkeys(self.extras.names(), len(self.videos)),
        }

    def begin_epoch(self, epoch: int) -> None:
        """Labels the videos where self-training asks for it; their log probabilities are read back to the CPU."""
        with evaluating(self.model):
            self.self_training.begin_epoch(
                epoch, lambda video: self.model.encode(video.features(self.device))[1].cpu().numpy()
            )

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """Computes the gradients of one video, and applies those of a group at its end; see `Learner.step`."""
        transcript = self.transcripts[index]
        own, n_frames = None, len(features)
        features = self.extras.features(features)
        if epoch < self.config.training.forced_epochs:
            outputs = self.model(features, transcript)
        else:
            outputs, own = self.model.free_running(features, len(transcript))
        outputs = self.extras.outputs(outputs, n_frames)
        labels, loss = self.labels[index], self.config.loss
        if labels is None and (labels := self.self_training.labels(index)) is not None:
            loss = self.self_training.loss
        terms = self.video_losses(
            outputs, transcript, self.config.mask, loss, labels=labels, own=own, class_weights=self.class_weights
        )
        terms = self.self_training.with_terms(terms, index, outputs, epoch)
        terms = self.extras.with_terms(terms, outputs, transcript, epoch)
        torch.autograd.backward(terms["total"])
        in_group = step % self.accumulate + 1
        complete = in_group == self.accumulate or step + 1 == len(self.videos)
        losses = loss_vector(terms, tuple(self.losses(epoch)))
        norms = self.optimiser.step(rate, in_group) if complete else losses.new_zeros(len(self.norms))
        return torch.cat((losses, norms))

    def weights_are_finite(self) -> bool:
        """Whether all weights are finite."""
        return bool(torch.isfinite(self.optimiser.weights).all())

    def scores(self) -> dict[str, float]:
        """Scores on a few training videos.

        `full` is decoded as in the paper for every configuration: some choices need facts that exist only when
        training has finished.
        """
        checkpoint = Checkpoint(self.model, self.config, self.vocabulary, self.progress)

        def predicted(video: Video) -> dict[str, Segmentation]:
            features = video.features(self.device)
            return predict(
                checkpoint, features, predictions=("frames", "full"), decoding=DecodingConfig()
            ).segmentations

        def seen(video: Video) -> Seen:
            return see_given(self.model, video.features(self.device), np.array(video.transcript, dtype=np.int64))

        with evaluating(self.model):
            return {
                **progress_scores(self.scored, predicted, SCORED, self.vocabulary.background_ids),
                **label_free_scores(self.label_free, seen, self.vocabulary.n_actions),
            }

    def saved(self, progress: Progress) -> Saved:
        """The content of the checkpoint at a position; the last one includes the facts."""
        checkpoint = Checkpoint(self.model, self.config, self.vocabulary, progress, self.optimiser.state())
        if progress.finished:
            self.model.eval()
            checkpoint = replace(checkpoint, facts=self._facts(checkpoint))
        return replace(checkpoints.saved_of(checkpoint), learner={**self.self_training.state(), **self.extras.state()})

    def _facts(self, checkpoint: Checkpoint) -> TrainingFacts:
        """Facts about the training videos, with the offsets of the background that the settings and the labels give."""
        facts = training_facts(checkpoint, self.videos, self.device)
        chosen = [self.config.decoding] if self.config.decoding.background_rule != "held_out" else []
        if self.vocabulary.background_ids and any(video.labelled for video in self.videos):
            chosen.append(DecodingConfig(background_rule="labelled"))
        for decoding in chosen:
            facts = with_background(facts, checkpoint, self.videos, decoding)
        return facts


def _warn_of_precision(device: torch.device) -> None:
    problem = Problem(
        rule="unsupported",
        place="training.precision",
        value="bfloat16",
        message=f"{device} has no bfloat16 instructions; training uses float32",
    )
    warnings.warn(DataWarning(problem), stacklevel=4)
