"""What training on a store needs, and the figure of a store."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mucon.cli import main
from mucon.errors import DataWarning
from mucon.recipes import weak
from mucon.stores.figure import draw_store
from mucon.stores.fitness import RecipeFit, fitness_of
from mucon.videos import all_videos_of
from storage import StoreWriter, open_store
from tests.helpers.refusals import refused


def written(path, *, labelled=True):
    """A training part with a recording that is shorter than a latent frame, and one with too many segments."""
    clips = {"a": (10, (0,), "1:train"), "b": (64, (0, 1, 2, 0, 1), "1:train"), "c": (640, (1, 2), "1:train")}
    clips |= {"d": (5, (1,), "1:test"), "e": (80, None, "1:test")}
    random = np.random.default_rng(0)
    with StoreWriter(
        path, dim=5, dtype="float32", vocabulary=("SIL", "pour $1$", "größe"), background=("SIL",)
    ) as writer:
        for id, (frames, transcript, part) in clips.items():
            features = random.standard_normal((frames, 5)).astype(np.float32)
            lengths = None
            if labelled and transcript:
                lengths = (*(3 for _ in transcript[1:]), frames - 3 * len(transcript[1:]))
            writer.add(id, features, transcript=transcript, lengths=lengths, splits=(part,))
    return open_store(path)


def fitness_with(store, *, measure=False):
    return fitness_of(store, all_videos_of(store), measure=measure)


def drawn(store, path):
    draw_store(store, all_videos_of(store), path)


def test_recordings_too_short_for_the_default_backbone_are_warnings(tmp_path):
    found = fitness_with(written(tmp_path / "s"))
    backbone = weak().backbone
    fit = RecipeFit(pooling=16, receptive_field=backbone.receptive_field, shorter=1, crowded=1)
    assert (found.recipes["weak"], found.memory) == (fit, None)
    assert found.recipes["small"].crowded == 0
    places = {(one.rule, one.place) for one in found.warnings}
    assert (len(found.warnings), places) == (2, {("mismatch", "recipe weak: backbone.pool_after")})
    assert "'a'" in found.warnings[0].message
    assert "'b'" in found.warnings[1].message


def test_memory_is_that_of_the_program_the_features_and_a_step_on_the_longest_recording(tmp_path):
    (found,) = list(fitness_with(written(tmp_path / "s"), measure=True).lines())
    assert found.startswith("memory: ")
    assert fitness_with(written(tmp_path / "t"), measure=True).memory > 50_000_000


def test_inspect_prints_every_finding_as_one_object(tmp_path, capsys):
    written(tmp_path / "s")
    assert main(["store", "inspect", str(tmp_path / "s"), "--json", "--no-memory"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["recipes"]["weak"]["shorter"], value["training_memory"]) == (1, None)
    assert [one["place"] for one in value["warnings"]] == ["recipe weak: backbone.pool_after"] * 2


@pytest.mark.parametrize("labelled", [True, False])
def test_a_store_is_drawn_with_and_without_labels(tmp_path, capsys, labelled):
    written(tmp_path / "s", labelled=labelled)
    target = tmp_path / "s.svg"
    assert main(["store", "inspect", str(tmp_path / "s"), "--no-memory", "--no-features", "--plot", str(target)]) == 0
    assert capsys.readouterr().out.startswith("store ")
    text = target.read_text()
    assert text.count("<!-- pour $1$ -->") == 1
    assert ("<!-- no lengths are known -->" in text) == (not labelled)


def test_signs_that_no_font_has_are_one_warning(tmp_path):
    with StoreWriter(tmp_path / "s", dim=1, dtype="float32", vocabulary=["\N{CUNEIFORM SIGN A}"]) as writer:
        writer.add("x", np.zeros((3, 1), np.float32), transcript=[0])
    with pytest.warns() as caught:
        drawn(open_store(tmp_path / "s"), tmp_path / "x.png")
    (warning,) = caught
    assert isinstance(warning.message, DataWarning)
    assert (warning.message.problem.place, warning.message.problem.value) == ("--plot", "\N{CUNEIFORM SIGN A}")


def test_a_figure_that_cannot_be_written_or_shows_nothing_is_refused(tmp_path):
    store = written(tmp_path / "s")
    with refused("type", "--plot", str(tmp_path / "x.nope"), n=1):
        drawn(store, tmp_path / "x.nope")
    with refused("unwritable", "--plot", str(tmp_path / "none" / "x.png"), n=1):
        drawn(store, tmp_path / "none" / "x.png")
    with StoreWriter(tmp_path / "t", dim=1, dtype="float32", vocabulary=["a"]) as writer:
        writer.add("x", np.zeros((3, 1), np.float32), transcript=None)
    with refused("missing", "--plot", n=1):
        drawn(open_store(tmp_path / "t"), tmp_path / "x.png")
