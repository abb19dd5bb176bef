"""The optimiser on flat memory against torch's own, accumulated gradients, and its state between processes."""

from __future__ import annotations

import copy
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import weights_sha256
from mucon.config import LossConfig, MaskConfig
from mucon.errors import Interrupted
from mucon.model import NetworkSize, build_model
from mucon.training.loop import epoch_order, step_seed
from mucon.training.mucon_learner import parameter_groups
from mucon.training.optimiser import Optimiser
from mucon.training.step import video_losses
from mucon.training_config import TrainingConfig
from tests.helpers.factories import small_videos
from tests.helpers.refusals import refused
from tests.mucon.training.test_loop import CONFIG, N_EPOCHS, N_VIDEOS, ROOT, StopAfter, digest, train_small
from tests.mucon.training.test_step import TRANSCRIPT, small_model

REFERENCES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def draw(seed: int, T: int = 20, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(T, 5, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def learn(model: torch.nn.Module, features: torch.Tensor, weight: float = 1.0) -> None:
    """Adds the gradient of a video's loss."""
    (weight * video_losses(model(features, TRANSCRIPT), TRANSCRIPT, MaskConfig(), LossConfig())["total"]).backward()


def assert_same_weights(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-13, msg=lambda said, name=name: f"{name}: {said}")


def test_every_parameter_is_in_one_of_the_two_groups():
    model = small_model()
    groups = parameter_groups(model)
    ids = [id(p) for group in groups.values() for p in group]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(p) for p in model.parameters()}
    encoder = {id(p) for p in groups["encoder"]}
    prefixes = ("backbone.", "segment_branch.encoder.", "segment_branch.initial_")
    for name, parameter in model.named_parameters():
        assert (id(parameter) in encoder) == name.startswith(prefixes), name


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_aligned_parameters_learn_the_same_and_their_state_does_not_show_it(kind: str):
    config = TrainingConfig(optimiser=kind, weight_decay=0.3, clip_norm=0.05)
    models = [small_model().double().eval() for _ in range(2)]
    plain, aligned = (
        Optimiser(model, config, parameter_groups(model), alignment=alignment)
        for model, alignment in zip(models, (1, 16), strict=True)
    )
    for parameter in models[1].parameters():
        assert parameter.storage_offset() % 16 == parameter.grad.storage_offset() % 16 == 0
    assert any(parameter.storage_offset() % 16 for parameter in models[0].parameters())
    for _ in range(3):
        for model in models:
            learn(model, draw(1))
        torch.testing.assert_close(aligned.step(0.5), plain.step(0.5), rtol=1e-10, atol=0)
    assert_same_weights(*models)
    assert plain.state().keys() == aligned.state().keys()
    aligned.load_state(plain.state())
    assert all(torch.equal(tensor, plain.state()[name]) for name, tensor in aligned.state().items())
    n_padding = len(aligned.weights) - sum(parameter.numel() for parameter in models[1].parameters())
    assert n_padding > 0
    assert int((aligned.weights == 0).sum()) >= n_padding


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("clip_norm", [0.05, 100.0])
def test_the_optimiser_does_what_torch_does_with_two_clipped_groups(kind: str, clip_norm: float):
    config = TrainingConfig(optimiser=kind, weight_decay=0.3, clip_norm=clip_norm)
    ours, theirs = small_model().double().eval(), small_model().double().eval()  # without dropout
    optimiser = Optimiser(ours, config, parameter_groups(ours))
    reference = REFERENCES[kind](theirs.parameters(), lr=1.0, weight_decay=config.weight_decay)
    for rate in (0.5, 0.05, 0.005, 0.005):
        for model in (ours, theirs):
            learn(model, draw(1))
        norms = optimiser.step(rate)
        groups = parameter_groups(theirs).values()
        expected = [torch.nn.utils.clip_grad_norm_(group, clip_norm) for group in groups]
        torch.testing.assert_close(norms, torch.stack(expected), rtol=1e-10, atol=0)
        reference.param_groups[0]["lr"] = rate
        reference.step()
        reference.zero_grad()
    assert_same_weights(ours, theirs)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_several_videos_make_one_step_with_the_mean_of_their_gradients(kind: str, n: int):
    config = TrainingConfig(optimiser=kind, clip_norm=1.0)
    ours, theirs = small_model().double().eval(), small_model().double().eval()
    optimiser, reference = (Optimiser(model, config, parameter_groups(model)) for model in (ours, theirs))
    for round_ in range(2):
        for i in range(n):
            learn(ours, draw(10 * round_ + i))
            learn(theirs, draw(10 * round_ + i), weight=1 / n)
        torch.testing.assert_close(optimiser.step(0.1, n), reference.step(0.1), rtol=1e-12, atol=0)
    assert_same_weights(ours, theirs)


def test_gradients_are_cleared_and_parameters_stay_views_of_the_flat_weights():
    model = small_model()
    optimiser = Optimiser(model, TrainingConfig())
    learn(model, draw(0, 9, torch.float32))
    assert optimiser.gradients.any()
    optimiser.step(0.1)
    assert not optimiser.gradients.any()
    flat = optimiser.weights.data_ptr(), optimiser.gradients.data_ptr()
    ends = [pointer + optimiser.weights.numel() * 4 for pointer in flat]
    for parameter in model.parameters():
        assert flat[0] <= parameter.data_ptr() < ends[0]
        assert flat[1] <= parameter.grad.data_ptr() < ends[1]
    spans = sorted((p.data_ptr(), p.numel() * 4) for p in model.parameters())
    assert all(start + size == after for (start, size), (after, _) in itertools.pairwise(spans))


def test_plain_descent_remembers_nothing_and_adam_a_mean_and_a_square_of_each_parameter():
    model = small_model()
    assert Optimiser(model, TrainingConfig()).state() == {}
    optimiser = Optimiser(model, TrainingConfig(optimiser="adam"))
    learn(model, draw(0, 9, torch.float32))
    optimiser.step(0.1)
    state = optimiser.state()
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert {name for name in state if name != "n_steps"} == {
        f"{kind}.{name}" for kind in ("mean", "square") for name in shapes
    }
    assert all(state[f"mean.{name}"].shape == shape for name, shape in shapes.items())
    assert state["n_steps"].tolist() == [1]


def test_an_optimiser_that_loads_a_state_continues_with_the_same_bits():
    config = TrainingConfig(optimiser="adam")
    whole = small_model().eval()
    optimiser = Optimiser(whole, config)
    for step in range(2):
        learn(whole, draw(step, dtype=torch.float32))
        optimiser.step(0.01)
    other = copy.deepcopy(whole)
    state = {name: tensor.clone() for name, tensor in optimiser.state().items()}
    taken = Optimiser(other, config)
    taken.load_state(state)
    for model, its in ((whole, optimiser), (other, taken)):
        learn(model, draw(7, dtype=torch.float32))
        its.step(0.01)
    assert weights_sha256(whole) == weights_sha256(other)
    fresh = Optimiser(other, config)
    for model, its in ((whole, optimiser), (other, fresh)):
        learn(model, draw(8, dtype=torch.float32))
        its.step(0.01)
    assert weights_sha256(whole) != weights_sha256(other)


@pytest.mark.parametrize(
    ("kind", "change", "rule", "value"),
    [
        ("adam", lambda _: {}, "missing", None),
        ("adam", lambda state: dict(list(state.items())[1:]), "mismatch", "mean.backbone.first.weight"),
        ("adam", lambda state: state | {"n_steps": torch.zeros(2)}, "mismatch", "n_steps"),
        ("sgd", lambda state: state, "mismatch", "mean.backbone.first.bias"),
    ],
)
def test_the_state_of_another_optimiser_is_refused(kind: str, change, rule: str, value: str | None):
    state = Optimiser(small_model(), TrainingConfig(optimiser="adam")).state()
    optimiser = Optimiser(small_model(), TrainingConfig(optimiser=kind))
    with refused(rule, "optimiser", value, n=1) as refusal:
        optimiser.load_state(change(state))
    assert kind in str(refusal.problems[0])
    assert "optimiser.safetensors" in refusal.problems[0].hint


OPTIONS = {
    "adam": {"training.optimiser": "adam", "training.learning_rate": 1e-3},
    "two videos a step": {"training.accumulate": 2},
    "adam, two videos a step": {"training.optimiser": "adam", "training.accumulate": 2},
    "more videos a step than there are": {"training.accumulate": 100},
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Option -> the weights of an uninterrupted small run; each epoch ends with a smaller group."""
    found = {}
    for name, settings in {"plain": {}, **OPTIONS}.items():
        folder = tmp_path_factory.mktemp("run")
        train_small(folder, CONFIG.with_values(settings))
        found[name] = digest(folder)
    assert len(set(found.values())) == len(found)
    return found


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("accumulate", [1, 2, 3, 5])
def test_training_steps_on_the_mean_of_each_group_and_of_what_is_left_at_the_epochs_end(
    tmp_path: Path, kind: str, accumulate: int
):
    config = CONFIG.with_values({"training.optimiser": kind, "training.accumulate": accumulate})
    videos, places = small_videos(4), range(4)
    train_small(tmp_path, config, videos)
    size = NetworkSize(dim=5, n_actions=4, max_segments=11)
    model = build_model(size, config.backbone, config.segment_branch, seed=config.seed).train()
    optimiser = Optimiser(model, config.training, parameter_groups(model))
    for epoch in range(N_EPOCHS):
        order = epoch_order(4, config.seed, epoch)
        for group in [places[i : i + accumulate] for i in places[::accumulate]]:
            for step in group:
                video = videos[order[step]]
                torch.manual_seed(step_seed(config.seed, epoch, step))
                transcript = torch.tensor(video.transcript)
                outputs = model(video.features(), transcript)
                total = video_losses(outputs, transcript, config.mask, config.loss)["total"]
                (total / len(group)).backward()
            optimiser.step(config.training.rate(epoch))
    found = checkpoints.load(tmp_path / "checkpoint").model
    for ours, by_hand in zip(found.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, by_hand, rtol=1e-4, atol=1e-6 if kind == "sgd" else 1e-4)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_that_is_asked_to_stop_all_the_time_gives_the_same_bits(
    tmp_path: Path, uninterrupted: dict[str, str], name: str
):
    config, stops = CONFIG.with_values(OPTIONS[name]), []
    for _ in range(N_VIDEOS * N_EPOCHS):
        try:
            train_small(tmp_path, config, should_stop=StopAfter(1))
            break
        except Interrupted:
            stops.append(checkpoints.load(tmp_path / "checkpoint").progress.step_in_epoch)
    assert digest(tmp_path) == uninterrupted[name]
    group = CONFIG.with_values(OPTIONS[name]).training.accumulate
    assert stops, "it never stopped"
    assert all(step % group == 0 for step in stops), "it stopped within a group, whose gradients are kept nowhere"


KILLED = """
import sys
from pathlib import Path
from tests.mucon.training.test_optimiser import CONFIG, OPTIONS, train_small
train_small(Path(sys.argv[1]), CONFIG.with_values(OPTIONS["adam, two videos a step"]), checkpoint_seconds=0)
"""


def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path, uninterrupted: dict[str, str]):
    environment = {**os.environ, "MUCON_FAILPOINT": "training.step:5:kill", "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert checkpoints.load(tmp_path / "checkpoint").progress.epoch == 1
    train_small(tmp_path, CONFIG.with_values(OPTIONS["adam, two videos a step"]))
    assert digest(tmp_path) == uninterrupted["adam, two videos a step"]


@pytest.mark.parametrize("damage", ["missing", "cut off", "of a smaller model"])
def test_a_run_with_a_damaged_optimiser_state_does_not_resume(tmp_path: Path, damage: str):
    config = CONFIG.override("training.optimiser", "adam")
    with pytest.raises(Interrupted):
        train_small(tmp_path, config, should_stop=StopAfter(2))
    state = tmp_path / "checkpoint" / "optimiser.safetensors"
    if damage == "missing":
        state.unlink()
    elif damage == "cut off":
        state.write_bytes(state.read_bytes()[:-5])
    else:
        smaller = config.override("segment_branch.hidden", 4)
        with pytest.raises(Interrupted):
            train_small(tmp_path / "smaller", smaller, should_stop=StopAfter(2))
        state.write_bytes((tmp_path / "smaller" / "checkpoint" / "optimiser.safetensors").read_bytes())
    rule = {"missing": "missing", "cut off": "damaged", "of a smaller model": "mismatch"}[damage]
    with refused(rule, str(tmp_path / "checkpoint"), n=1) as refusal:
        train_small(tmp_path, config)
    assert "restore" in refusal.problems[0].hint
