"""The window GRU has the bits of `nn.GRU` on unfolded windows; the buffer of labels and the windows of its frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import InputError
from mucon.methods.window_gru import LabelBuffer, WindowGru, WindowGruConfig, Windows
from mucon.methods.window_gru import windows as windows_module
from mucon.training.loop import epoch_order
from mucon.videos import Video
from tests.helpers.factories import make_video, small_videos
from tests.helpers.refusals import refused


def network(dim: int, n_outputs: int = 4, **size: int) -> WindowGru:
    torch.manual_seed(3)
    return WindowGru(dim, n_outputs, **size)


def unfolded(features: Tensor, window: int) -> Tensor:
    """The window of each frame, `[W, T, D]`."""
    around = window // 2
    padded = functional.pad(features, (0, 0, around, around))
    return torch.stack([padded[k : k + len(features)] for k in range(window)])


def expected(model: WindowGru, windows: Tensor) -> Tensor:
    """Log-probabilities `[n, N]` with `nn.GRU` on windows `[W, n, D]`."""
    layer = nn.GRU(model.cell.input_size, model.cell.hidden_size)
    for name, parameter in model.cell.named_parameters():
        setattr(layer, f"{name}_l0", parameter)
    _, last = layer(windows)
    return torch.log_softmax(model.output(last[0]), dim=1)


@pytest.mark.parametrize(("n_frames", "dim"), [(1, 5), (9, 5), (224, 60), (50, 2048)])
def test_all_windows_of_a_recording_have_the_bits_of_a_gru_on_unfolded_windows(n_frames: int, dim: int):
    model, features = network(dim), torch.randn(n_frames, dim)
    found = model.frame_log_probs(features)
    with torch.no_grad():
        assert torch.equal(found, expected(model, unfolded(features, 21)))
    assert torch.equal(found, model(features))


def gradients(model: WindowGru, log_probs: Tensor) -> list[Tensor]:
    model.zero_grad()
    log_probs[:, 1].sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("window", [1, 3, 21])
def test_chosen_windows_have_the_bits_of_a_gru(window: int):
    model, features = network(7, window=window), torch.randn(40, 7)
    chosen = unfolded(features, window)[:, [0, 39, 5, 5, 20]]
    assert torch.equal(model.of_windows(chosen), expected(model, chosen))


def test_gradients_are_those_of_a_gru_up_to_the_order_of_their_sums():
    model, features = network(7, hidden=8).double(), torch.randn(40, 7, dtype=torch.float64)
    windows = unfolded(features, 21)
    theirs = gradients(model, expected(model, windows))
    for log_probs in (model(features), model.of_windows(windows)):
        for ours, one in zip(gradients(model, log_probs), theirs, strict=True):
            torch.testing.assert_close(ours, one, rtol=1e-12, atol=1e-12)


def test_a_frame_sees_its_window_and_nothing_else():
    model, features = network(5, window=7), torch.randn(30, 5)
    changed = features.clone()
    changed[15] += 1
    differs = (model.frame_log_probs(features) != model.frame_log_probs(changed)).any(dim=1)
    assert differs.nonzero().flatten().tolist() == list(range(12, 19))


@pytest.mark.parametrize(("dim", "n_outputs", "thousands"), [(64, 48, 28), (2048, 48, 409)])
def test_the_published_networks_have_their_number_of_weights(dim: int, n_outputs: int, thousands: int):
    model = WindowGruConfig().build(dim, n_outputs)
    assert sum(parameter.numel() for parameter in model.parameters()) // 1000 == thousands


@pytest.mark.parametrize("value", [0, 20, -1])
def test_a_window_without_a_centre_is_refused(value: int):
    with refused("range", "network.window", value, n=1):
        WindowGruConfig(window=value)
    with pytest.raises(InputError):
        WindowGruConfig(hidden=0)


@pytest.mark.parametrize("resident", [True, False])
def test_windows_of_many_recordings_are_those_of_each(resident: bool):
    videos = [*small_videos(4), make_video("short", (1,), (3,))]
    windows = Windows(videos, 9, torch.device("cpu"), resident=resident)
    chosen, places = np.array([4, 0, 0, 3, 4, 2, 0]), np.array([2, 0, 7, 4, 0, 11, 7])
    found = windows.get(chosen, places)
    expected = [unfolded(videos[v].features(), 9)[:, t] for v, t in zip(chosen, places, strict=True)]
    assert torch.equal(found, torch.stack(expected, dim=1))


def test_features_without_room_are_read_from_the_recordings(monkeypatch: pytest.MonkeyPatch):
    most = 4 * 5 * sum(v.n_frames + 8 for v in small_videos(2)) - 1
    monkeypatch.setattr(windows_module, "stays", lambda size, *_: size <= most)
    assert Windows(small_videos(2), 9, torch.device("cpu")).features is None
    assert Windows(small_videos(1), 9, torch.device("cpu")).features is not None


def decoded(video: Video, epoch: int) -> np.ndarray:
    """Some labels of a video's transcript that change from epoch to epoch."""
    cuts = np.random.default_rng([epoch, video.n_frames]).permutation(video.n_frames - 1)[: len(video.transcript) - 1]
    return np.asarray(video.transcript)[np.searchsorted(np.sort(cuts), np.arange(video.n_frames), side="left")]


def visits(videos: list[Video], n: int) -> Iterator[tuple[int, int, int]]:
    """Epoch, step and video of the first n steps of a run with the seed 7."""
    V = len(videos)
    for k in range(n):
        yield k // V, k % V, epoch_order(V, 7, k // V)[k % V]


def filled(videos: list[Video], n: int) -> LabelBuffer:
    buffer = LabelBuffer(videos, 5, seed=7)
    for epoch, step, video in visits(videos, n):
        buffer.put(epoch, step, video, decoded(videos[video], epoch))
    return buffer


@pytest.mark.parametrize("n", [0, 1, 3, 4, 6, 11])
def test_prior_and_mean_lengths_are_those_of_the_slots(n: int):
    videos = small_videos(4)
    slots: dict[int, tuple[Video, np.ndarray]] = {}
    for epoch, step, video in visits(videos, n):
        slots[step] = videos[video], decoded(videos[video], epoch)
    labels = [int(label) for _, own in slots.values() for label in own]
    named = [action for video, _ in slots.values() for action in video.transcript]
    unseen = [action for action in range(5) if action not in labels]
    prior = [
        1 / 5 if action in unseen else labels.count(action) / len(labels) * (1 - len(unseen) / 5) for action in range(5)
    ]
    means = [
        labels.count(action) / named.count(action) if action in named else len(labels) / len(named) if named else 1.0
        for action in range(5)
    ]
    buffer = filled(videos, n)
    np.testing.assert_allclose(buffer.prior(), prior, rtol=1e-14)
    np.testing.assert_allclose(buffer.mean_lengths(), means, rtol=1e-14)
    assert buffer.prior().sum() == pytest.approx(1)
    assert buffer.n_frames == len(labels)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 6, 11])
def test_a_restored_buffer_draws_and_counts_as_the_one_that_was_saved(n: int):
    videos = small_videos(4)
    whole, restored = filled(videos, n), LabelBuffer(videos, 5, seed=7)
    restored.restore(whole.labels.copy(), n // 4, n % 4)
    assert restored.prior().tolist() == whole.prior().tolist()
    assert restored.mean_lengths().tolist() == whole.mean_lengths().tolist()
    draws = [buffer.draw(60 if n else 0, np.random.default_rng(1)) for buffer in (whole, restored)]
    for ours, theirs in zip(*draws, strict=True):
        assert ours.tolist() == theirs.tolist()


def test_frames_are_drawn_uniformly_from_all_slots_with_the_labels_of_their_visits():
    videos = small_videos(4)
    buffer = filled(videos, 6)
    drawn = Counter(zip(*(values.tolist() for values in buffer.draw(200_000, np.random.default_rng(2))), strict=True))
    expected: Counter[tuple[int, int, int]] = Counter()
    for epoch, step, video in visits(videos, 6):
        if (epoch, step) >= (0, 2):
            expected.update((video, t, int(label)) for t, label in enumerate(decoded(videos[video], epoch)))
    assert set(drawn) == set(expected)
    share = 200_000 / buffer.n_frames
    assert all(abs(drawn[one] - share * n) < 6 * (share * n) ** 0.5 for one, n in expected.items())
