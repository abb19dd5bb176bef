"""The arithmetic of training is version `mucon.NUMERICS`.

Three steps in float64 from weights given by a formula, dropout included, and what the seeds decide. These numbers
hold on any machine. To update them after an intended change, run this test and copy the values that it prints.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import mucon
from mucon.config import TrainConfig
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.recipes import RECIPES
from mucon.training.feed import Feed
from mucon.training.loop import Loop, epoch_order, step_seed
from mucon.training.mucon_learner import MuConLearner, parameter_groups
from mucon.training.optimiser import Optimiser
from mucon.videos import Video
from tests.helpers.factories import SMALL, VOCABULARY

COMMITTED = 1
"""The NUMERICS of the values below."""
ADVICE = (
    "training computes other numbers than version NUMERICS = {numerics}. If that is intended, raise NUMERICS in "
    "mucon/__init__.py (trials of older numerics then train again) and COMMITTED here, and insert the new values: "
    "{found}. Otherwise find the fault."
)
VARIED: dict[str, dict[str, object]] = {
    "breakfast": {},
    "published_program": {"mask.shape": "trapezoid", "mask.overlap": 0.1, "loss.length_width": 0.01},
}
LOSSES: dict[str, list[list[float]]] = {
    "breakfast": [
        [
            8.154060022172668,
            1.3464739705180595,
            6.806413999033468,
            0.0,
            0.011720526211391292,
            1.8356519420519575,
            1.7008314911551168,
        ],
        [
            6.200031524000852,
            1.4681574109470894,
            4.729981377474408,
            0.0,
            0.01892735579354788,
            0.8103451869971746,
            1.4292005703530217,
        ],
        [4.632049714418999, 1.5619037973986085, 3.0701459170203904, 0.0, 0.0, 1.4763669395507015, 1.7663406345184234],
    ],
    "published_program": [
        [
            8.252148622240753,
            1.3478310211463818,
            6.806413999033468,
            0.9673154943976254,
            0.011720526211391292,
            1.4118383786190676,
            1.7093322109323839,
        ],
        [
            6.239154844707364,
            1.44757281206665,
            4.730546601701909,
            0.5909201598237351,
            0.019434149564305538,
            0.6868881137328045,
            1.4128447432951425,
        ],
        [
            4.586172329602653,
            1.4862727473529223,
            3.068828554623049,
            0.3107102762668148,
            0.0,
            0.9739319952371962,
            1.5087005297404406,
        ],
    ],
}
"""Per recipe and step: total, mutual consistency, transcript, length, smoothing, norms of encoder and decoder."""
WEIGHTS: dict[str, float] = {"breakfast": -2.120190263450004, "published_program": -2.1453245255117386}
"""Per recipe: the weights after three steps, summed with alternating signs and places."""


def recording(name: str, transcript: tuple[int, ...], lengths: tuple[int, ...]) -> Video:
    """Features from sines: no generator decides them."""
    t, d = np.ogrid[: sum(lengths), :5]
    labels = np.repeat(transcript, lengths)[:, None]
    return Video.from_arrays(name, np.sin(0.37 * t + 1.1 * d + 2.3 * labels) + 0.1 * labels, transcript, lengths)


def fill(model: MuConNetwork) -> None:
    """Weights from sines, about as large as fresh ones."""
    with torch.no_grad():
        for index, (_, parameter) in enumerate(sorted(model.named_parameters())):
            places = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((0.35 * torch.sin(0.91 * places + index)).view_as(parameter))


def three_steps(config: TrainConfig, folder: Path) -> tuple[list[list[float]], float]:
    videos = [recording("a", (0, 1, 2), (9, 14, 8)), recording("b", (3, 1), (30, 5)), recording("c", (2,), (3,))]
    learner = MuConLearner(config, videos, VOCABULARY, folder, torch.device("cpu"), 5)
    model = learner.model.double().train()
    fill(model)
    learner.optimiser = Optimiser(model, config.training, parameter_groups(model))
    loop = Loop(learner, folder)
    loop.feed = Feed(videos, torch.device("cpu"), torch.float64)
    losses = [loop._step(index, 0, step, 0.05).tolist() for step, index in enumerate(epoch_order(3, config.seed, 0))]
    weights = torch.cat([parameter.detach().flatten() for _, parameter in sorted(model.named_parameters())])
    return losses, float(weights @ torch.cos(torch.arange(len(weights), dtype=torch.float64)))


@pytest.mark.parametrize("recipe", ["breakfast", "published_program"])
def test_three_steps_in_float64_give_the_committed_values(tmp_path: Path, recipe: str):
    losses, weights = three_steps(RECIPES[recipe]().with_values({**SMALL, **VARIED[recipe]}), tmp_path)
    message = ADVICE.format(numerics=mucon.NUMERICS, found=f"{recipe}: {losses}, {weights!r}")
    assert mucon.NUMERICS == COMMITTED, message
    np.testing.assert_allclose(losses, LOSSES[recipe], rtol=1e-9, atol=1e-12, err_msg=message)
    assert weights == pytest.approx(WEIGHTS[recipe], rel=1e-9), message


def test_what_the_seeds_decide_is_as_committed():
    orders = [epoch_order(6, 1, epoch) for epoch in range(2)]
    seeds = [step_seed(1, 0, 0), step_seed(1, 2, 3)]
    message = ADVICE.format(numerics=mucon.NUMERICS, found=(orders, seeds))
    assert orders == [[4, 0, 2, 1, 5, 3], [1, 4, 0, 3, 2, 5]], message
    assert seeds == [3717377837946358015, 6498626229777268288], message


def test_fresh_weights_are_as_committed():
    """To five digits: torch draws normal numbers differently, in the last bit, on other processors."""
    config = TrainConfig().with_values(SMALL)
    size = NetworkSize(dim=5, n_actions=4, max_segments=9)
    model = build_model(size, config.backbone, config.segment_branch, seed=3)
    found = {name: float(parameter.detach().double().norm()) for name, parameter in model.named_parameters()}
    message = ADVICE.format(numerics=mucon.NUMERICS, found=(math.fsum(found.values()), found))
    assert math.fsum(found.values()) == pytest.approx(89.6034745, rel=1e-5), message
    assert found["backbone.layers.2.dilated_bias"] == pytest.approx(0.3676065, rel=1e-5), message
    assert found["segment_branch.attention_keys"] == pytest.approx(3.0302845, rel=1e-5), message
    assert found["segment_branch.length_head.3.bias"] == pytest.approx(0.285705, rel=1e-5), message
