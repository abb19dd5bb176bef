"""A learner's state that belongs to other videos, or is damaged, is refused by its file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mucon.checkpoint_files import LEARNER
from mucon.errors import Interrupted
from mucon.methods import method_named
from tests.helpers.refusals import refused
from tests.mucon.methods.test_table import small, train
from tests.mucon.training.test_loop import StopAfter


@pytest.mark.parametrize(("name", "key"), [("hmm_rnn", "lengths"), ("hmm_rnn", "counts"), ("isba", "counts")])
def test_numbers_of_other_videos_are_refused(tmp_path: Path, name: str, key: str):
    with pytest.raises(Interrupted):
        train(name, tmp_path, should_stop=StopAfter(4))
    path = tmp_path / "checkpoint" / LEARNER
    state = load_file(path)
    numbers = state[key]
    others = (numbers[:-1], torch.cat((numbers, numbers[:1])), -numbers, numbers + 10**6, numbers / torch.nan)
    for other in others:
        save_file({**state, key: other.contiguous()}, path)
        with refused("damaged", LEARNER, n=1):
            train(name, tmp_path)
    save_file({one: tensor for one, tensor in state.items() if one != key}, path)
    with refused("damaged", LEARNER, n=1):
        train(name, tmp_path)
    save_file(state, path)
    train(name, tmp_path)
    assert method_named(name).load(tmp_path / "checkpoint").progress.finished


def test_losses_of_other_videos_are_refused(tmp_path: Path):
    with pytest.raises(Interrupted):
        train("isba", tmp_path, small("isba"), should_stop=StopAfter(4))
    path = tmp_path / "checkpoint" / LEARNER
    save_file({**load_file(path), "last_losses": torch.zeros(9)}, path)
    with refused("damaged", LEARNER, n=1):
        train("isba", tmp_path, small("isba"))
