from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import StoreError
from storage.layouts.labels import Labels, Segment, fitted, labels_of_segments, looks_like_transcript, other_form
from tests.helpers.refusals import refused

frames = st.lists(st.sampled_from("abc"), min_size=1, max_size=40)


def expanded(labels: Labels) -> list[str]:
    return [name for name, length in zip(labels.names, labels.lengths, strict=True) for _ in range(length)]


@given(frames)
def test_runs_cover_the_frames_and_neighbours_differ(names):
    labels = Labels.from_frames(names)
    assert expanded(labels) == names
    assert all(length >= 1 for length in labels.lengths)
    assert [name for name, _ in groupby(labels.names)] == list(labels.names)


@given(frames, st.data())
def test_cropping_keeps_the_first_frames(names, data):
    kept = data.draw(st.integers(1, len(names)))
    assert expanded(Labels.from_frames(names).cropped(kept)) == names[:kept]


@given(frames, st.integers(1, 90))
def test_resampling_takes_the_label_at_the_relative_position(names, n):
    expected = [names[int(np.floor((t + 0.5) * len(names) / n))] for t in range(n)]
    labels = Labels.from_frames(names).resampled(n)
    assert expanded(labels) == expected
    assert [name for name, _ in groupby(labels.names)] == list(labels.names)


@given(frames, st.integers(1, 60), st.sampled_from(["error", "crop", "resample"]), st.integers(0, 20))
def test_fitted_labels_have_the_frames_that_are_kept(names, n_features, policy, tolerance):
    labels = Labels.from_frames(names)
    beyond = abs(n_features - len(names)) > tolerance
    if looks_like_transcript(labels, n_features):
        with refused("mismatch", "v", len(names), n=1, error=StoreError):
            fitted("v", n_features, labels, policy, tolerance)
        return
    if beyond and policy == "error":
        with refused("mismatch", "v", len(names), n=1, error=StoreError) as refusal:
            fitted("v", n_features, labels, policy, tolerance)
        assert refusal.problems[0].message.startswith(f"{n_features} ")
        assert refusal.problems[0].message.endswith(f" {tolerance}")
        return
    kept, result, note = fitted("v", n_features, labels, policy, tolerance)
    assert result.n_frames == kept <= n_features
    assert kept == (n_features if beyond and policy == "resample" else min(n_features, len(names)))
    assert (note is None) == (n_features == len(names))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(10, 60)), min_size=2, max_size=9), st.integers(1, 5))
def test_labels_at_a_lower_rate_do_not_look_like_a_transcript_and_transcripts_do(segments, step):
    frames = [name for name, length in segments for _ in range(length)]
    assert not looks_like_transcript(Labels.from_frames(frames[::step]), len(frames))
    runs = Labels.from_frames(frames)
    assert looks_like_transcript(Labels.from_frames(runs.names), len(frames))


@pytest.mark.parametrize("policy", ["error", "crop", "resample"])
@pytest.mark.parametrize("tolerance", [0, 1000])
@pytest.mark.parametrize("names", ["abcab", "a", "abbac"])
def test_a_transcript_among_the_labels_is_refused_whatever_the_policy(policy, tolerance, names):
    with refused("mismatch", "v", len(names), n=1, error=StoreError) as refusal:
        fitted("v", 263, Labels.from_frames(names), policy, tolerance)
    assert "policy" not in str(refusal.problems[0])


@pytest.mark.parametrize(
    "line",
    [
        "1-30 SIL",
        "80 219 G1",
        "0.00\t2.50\tpour",
        "1, 7, pour milk",
        "pour 12 40",
        "pour,0,30",
        "<take><bread> (45-120) [1]",
        "00:01.2 - 00:07 pour",
        "1 -> 30: SIL",
        "0.5 to 2.5 SIL",
    ],
)
def test_segments_with_times_are_told_from_names(line):
    assert other_form([line]) == "segments with times"
    assert other_form(["start stop name", line, line]) == "segments with times"
    assert not other_form([line, "pour"])
    assert not other_form(["pour", line])


@pytest.mark.parametrize("form", ["{} SIL", "{},SIL", "{}. SIL", "{}\tpour milk"])
@pytest.mark.parametrize("start", [0, 1, 40])
def test_numbered_lines_are_told_from_names(form, start):
    lines = [form.format(n) for n in range(start, start + 15, 3)]
    assert other_form(lines) == "numbered lines"
    assert other_form(["frame label", *lines]) == "numbered lines"
    assert not other_form([*lines, lines[0]])


@pytest.mark.parametrize("name", ["SIL", "pour milk", "G1", "step 2", "P03_cam01", "1", "1.0e+00"])
def test_names_are_no_other_form(name):
    assert not other_form([name])
    assert not other_form([name, name])


@given(frames, st.integers(1, 50))
def test_sampling_keeps_every_kth_frame_and_shows_the_segments_that_are_lost(names, rate):
    labels = Labels.from_frames(names)
    assert expanded(Labels(labels.names, labels.sampled(rate))) == names[::rate]


def segments_of(names: list[str], gaps: str = "") -> list[Segment]:
    """The runs of names as segments, without those of `gaps`."""
    labels = Labels.from_frames(names)
    stops = np.cumsum(labels.lengths).tolist()
    found = zip(labels.names, [0, *stops], stops, strict=False)
    return [Segment(name, a, b, f"x:{number}") for number, (name, a, b) in enumerate(found, 1) if name not in gaps]


@given(frames, st.randoms())
def test_segments_without_gaps_are_labels_in_any_order(names, random):
    segments = segments_of(names)
    random.shuffle(segments)
    assert labels_of_segments(segments) == Labels.from_frames(names)


@given(frames)
def test_gaps_are_filled_with_the_chosen_action(names):
    segments = segments_of(names, gaps="a")
    if segments:
        labels = labels_of_segments(segments, fill="a").filled(len(names), "a")
        assert labels == Labels.from_frames(names)


def test_gaps_and_overlaps_are_refused_together_by_their_places():
    segments = [
        Segment("a", 2, 5, "x:1"),
        Segment("b", 5, 9, "x:2"),
        Segment("c", 8, 12, "x:3"),
        Segment("d", 14, 14, "x:4"),
        Segment("e", 15, 20, "x:5"),
        Segment("f", -3, -1, "x:6"),
        Segment("g", 25, 30, "x:7"),
    ]
    with refused("missing", "x:1", [0, 2], n=5, error=StoreError) as refusal:
        labels_of_segments(segments)
    found = {(problem.rule, problem.place, str(problem.value)) for problem in refusal.problems}
    assert found == {
        ("missing", "x:1", "[0, 2]"),
        ("conflict", "x:3", "8"),
        ("range", "x:4", "[14, 14]"),
        ("missing", "x:7", "[20, 25]"),
        ("range", "x:6", "[-3, -1]"),
    }
    assert all("--fill" in problem.hint for problem in refusal.problems if problem.rule == "missing")
    with refused("conflict", "x:3", n=3, error=StoreError):
        labels_of_segments(segments, fill="SIL")


def test_neighbours_of_one_action_stay_two_segments():
    assert labels_of_segments([Segment("a", 0, 3, "x:1"), Segment("a", 3, 5, "x:2")]) == Labels(("a", "a"), (3, 2))
