"""What must hold for every layout: a test class inherits `LayoutSuite`, names its layout and writes data in its form.

The content is a `DataSet`; the store of a layout is compared with the store of the same content as MS-TCN.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from storage import Store, StoreError, open_store
from storage.errors import Problem
from storage.importing import import_data
from storage.layouts import ImportOptions
from storage.layouts.ms_tcn import MsTcn
from storage.layouts.table import layout_of
from storage.verify import verify_store
from tests.helpers.refusals import matching
from tests.storage.helpers import DataSet, files_of
from tests.storage.layouts.helpers import noted

TEXTS = {
    "CRLF": ("", "\r\n", ""),
    "byte order mark": ("\ufeff", "\n", ""),
    "trailing blanks": ("", " \t\n", ""),
    "blank last lines": ("", "\n", "\n\n \n"),
    "all of it": ("\ufeff", " \r\n", "\r\n"),
}
DTYPES = {
    "float64": lambda a: a.astype(np.float64),
    "float16": lambda a: a.astype(np.float16),
    "big-endian": lambda a: a.astype(">f4"),
    "Fortran": np.asfortranarray,
    "non-contiguous": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
}


class LayoutSuite:
    """Tests of a layout.

    Attributes:
        layout: its name.
        frame_labels: whether the layout gives the lengths of segments.
        repeats: whether a segment may follow another one of the same action.
        mapping: whether the layout needs `mapping.txt`.
        unknown: how the layout writes the action `poor`, which no mapping contains.
    """

    layout: ClassVar[str]
    frame_labels: ClassVar[bool] = True
    repeats: ClassVar[bool] = False
    mapping: ClassVar[bool] = False
    unknown: ClassVar[str] = "poor"

    def write(self, data: DataSet, folder: Path) -> Path:
        """Writes a dataset in the form of the layout; returns the folder."""
        raise NotImplementedError

    def features(self, source: Path, video: str) -> Path:
        """The feature file of a video."""
        return source / "features" / f"{video}.npy"

    def store(self, source: Path, target: Path, **options: Any) -> tuple[Store, tuple[str, ...]]:
        """Imports a folder in the layout that is recognised; returns the store and the notes."""
        dataset, _ = layout_of(source, None, ImportOptions(**options))
        assert dataset.name == self.layout
        survey = import_data(dataset, target).survey
        assert survey.metadata["layout"] == self.layout
        return open_store(target), survey.notes

    def imported(self, data: DataSet, tmp_path: Path, **options: Any) -> tuple[Store, tuple[str, ...]]:
        """Writes and imports a dataset."""
        return self.store(self.write(data, tmp_path / "src"), tmp_path / "store", **options)

    def problems(self, source: Path, tmp_path: Path, **options: Any) -> tuple[Problem, ...]:
        """The problems of an import, which must write nothing and leave the dataset as it is."""
        before = files_of(source)
        with pytest.raises(StoreError) as caught:
            self.store(source, tmp_path / "store", **options)
        assert [path.name for path in tmp_path.iterdir()] == [source.name]
        assert files_of(source) == before
        for problem in caught.value.problems:
            assert problem.message or problem.expected, problem
            assert "\n" not in str(problem)
        return caught.value.problems

    def refused(self, data: DataSet, tmp_path: Path, **options: Any) -> tuple[Problem, ...]:
        """Writes a dataset that must be refused."""
        return self.problems(self.write(data, tmp_path / "src"), tmp_path, **options)

    def same(self, store: Store, data: DataSet, tmp_path: Path, **options: Any) -> bool:
        """Whether a store equals the store of the same content in the layout of MS-TCN."""
        plain = replace(data, begin="", end="\n", after="")
        source = plain.write(tmp_path / "reference" / "src")
        import_data(MsTcn(source, ImportOptions(**options)), tmp_path / "reference" / "store")
        expected = open_store(tmp_path / "reference" / "store")
        for name in ("dim", "dtype", "vocabulary", "background", "splits"):
            assert getattr(store.manifest, name) == getattr(expected.manifest, name), name
        assert store.ids == expected.ids
        for video in store.ids:
            here, there = store.record(video), expected.record(video)
            assert here.transcript == there.transcript
            assert here.lengths == (there.lengths if self.frame_labels else None)
            assert (here.splits, here.group, here.activity) == (there.splits, there.group, there.activity)
            assert here.sha256 == there.sha256
        return verify_store(store.path).problems == ()

    def test_the_store_equals_that_of_the_same_content_in_another_layout(self, tmp_path):
        data = DataSet.example()
        data.splits["train.split2.bundle"] = ["v002", "v003"]
        data.splits["test.split2.bundle"] = ["v000"]
        options = {"background": ("SIL",), "group_regex": r"v\d\d", "activity_regex": r"(\d)$"}
        store, _ = self.imported(data, tmp_path, **options)
        assert self.same(store, data, tmp_path, **options)

    def test_transposed_features_are_read_and_noted(self, tmp_path):
        data = DataSet.example()
        data.transposed = True
        store, notes = self.imported(data, tmp_path)
        assert noted(notes, "transposed", "[D T]")
        assert self.same(store, data, tmp_path)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype_and_memory_order_keeps_its_values(self, tmp_path, dtype):
        data = DataSet.example()
        data.features = {video: DTYPES[dtype](features) for video, features in data.features.items()}
        store, _ = self.imported(data, tmp_path)
        for video, features in data.features.items():
            assert np.array_equal(store.features(video), features)
        assert self.same(store, data, tmp_path)

    @pytest.mark.parametrize("text", TEXTS)
    def test_text_files_of_every_editor_are_read(self, tmp_path, text):
        data = DataSet.example()
        data.begin, data.end, data.after = TEXTS[text]
        store, _ = self.imported(data, tmp_path)
        assert self.same(store, data, tmp_path)

    @pytest.mark.parametrize("form", ["{}", "{}.txt", "{}.npy", "x/{}"])
    def test_splits_may_name_videos_in_other_ways_and_unusual_ones_are_noted(self, tmp_path, form):
        data = DataSet.example()
        parts = {"train": ["v000", "v001"], "test": ["v002"]}
        data.splits = {f"{part}.split1.bundle": list(map(form.format, videos)) for part, videos in parts.items()}
        store, notes = self.imported(data, tmp_path)
        assert store.split("1", "train") == ("v000", "v001")
        assert store.split("1", "test") == ("v002",)
        assert noted(notes, "no split", "(1): v003")
        unusual = [note for note in notes if f"{form.format('v002')} -> v002" in note]
        assert len(unusual) == (form in ("{}.npy", "x/{}"))

    def test_features_and_annotation_in_nested_folders_are_found(self, tmp_path):
        flat = DataSet.example((20, 30, 25))
        names = {"v000": "P03/cam1", "v001": "P04/cam1", "v002": "P04/cam2"}
        data = DataSet(
            features={names[video]: features for video, features in flat.features.items()},
            labels={names[video]: labels for video, labels in flat.labels.items()},
            splits={"train.split1.bundle": ["P03/cam1", "P04/cam1"], "test.split1.bundle": ["cam2"]},
        )
        store, notes = self.imported(data, tmp_path)
        assert noted(notes, "cam2 -> P04/cam2")
        assert self.same(store, data, tmp_path)

    def test_names_in_two_unicode_forms_are_one(self, tmp_path):
        data = DataSet.example()
        data.labels = {f"\u00e9{video}": names for video, names in data.labels.items()}
        data.features = {f"e\u0301{video}": features for video, features in data.features.items()}
        data.splits = {"train.split1.bundle": ["e\u0301v000", "\u00e9v001"], "test.split1.bundle": ["\u00e9v002"]}
        store, _ = self.imported(data, tmp_path)
        assert store.ids == tuple(f"\u00e9v00{i}" for i in range(4))
        assert self.same(store, data, tmp_path)

    def test_lengths_that_differ_are_refused_cropped_or_resampled_and_noted(self, tmp_path):
        if not self.frame_labels:
            pytest.skip("no frame labels")
        data = DataSet.example((30, 41, 25, 52))
        data.labels["v000"] += ["SIL"] * 7
        data.labels["v002"] = data.labels["v002"][:-8]
        problems = self.refused(data, tmp_path)
        assert [(problem.rule, problem.place, problem.value) for problem in problems] == [
            ("mismatch", "v000", 37),
            ("mismatch", "v002", 17),
        ]
        source = tmp_path / "src"
        problems = self.problems(source, tmp_path, length_tolerance=7)
        assert [problem.place for problem in problems] == ["v002"]
        for name, options in (
            ("tolerance", {"length_tolerance": 8}),
            ("crop", {"length_policy": "crop"}),
            ("resample", {"length_policy": "resample"}),
        ):
            store, notes = self.store(source, tmp_path / name / "store", **options)
            assert noted(notes, "v000: 30 ", " 37 ")
            assert noted(notes, "v002: 25 ", " 17 ")
            assert self.same(store, data, tmp_path / name, **options)

    def test_a_label_that_the_mapping_does_not_contain_is_named_with_its_place(self, tmp_path):
        data = DataSet.example()
        data.labels["v001"] = [name.replace("pour", "poor") for name in data.labels["v001"]]
        (problem,) = self.refused(data, tmp_path)
        assert (problem.rule, problem.value) == ("unknown", self.unknown)
        assert str(tmp_path / "src") in problem.place
        assert ("'pour'" in problem.message) == (self.unknown == "poor")
        assert "mapping.txt" in problem.hint

    def test_without_a_mapping_the_actions_are_the_names_that_occur(self, tmp_path):
        data = DataSet.example()
        data.mapping = None
        if self.mapping:
            assert matching(self.refused(data, tmp_path), "missing", "mapping.txt")
            return
        store, notes = self.imported(data, tmp_path)
        assert noted(notes, "mapping.txt", "0 SIL, 1 pour, 2 stir")
        assert self.same(store, data, tmp_path)

    def test_a_mapping_with_gaps_is_renumbered_and_noted(self, tmp_path):
        data = DataSet.example()
        data.mapping = ["7 stir", "0 SIL", "3 pour"]
        store, notes = self.imported(data, tmp_path)
        assert noted(notes, "mapping.txt", "pour 3 -> 1, stir 7 -> 2")
        assert self.same(store, data, tmp_path)

    def test_a_dataset_without_background_has_none(self, tmp_path):
        data = DataSet.example()
        data.labels = {video: [name.replace("SIL", "stir") for name in names] for video, names in data.labels.items()}
        data.mapping = ["0 pour", "1 stir"]
        store, _ = self.imported(data, tmp_path)
        assert store.manifest.background == ()
        assert self.same(store, data, tmp_path)

    def test_an_action_twice_in_a_row_stays_twice_if_the_layout_can_say_so(self, tmp_path):
        data = DataSet.example()
        data.twice = frozenset({"v001"})
        store, _ = self.imported(data, tmp_path)
        expected = (data if self.repeats else replace(data, twice=frozenset())).segments("v001")
        record = store.record("v001")
        assert [store.manifest.vocabulary[action] for action in record.transcript] == [name for name, _ in expected]
        assert record.lengths == (tuple(length for _, length in expected) if self.frame_labels else None)

    def test_videos_of_one_frame_are_imported(self, tmp_path):
        data = DataSet.example((30, 1, 25, 52))
        data.labels["v001"] = ["pour"]
        store, _ = self.imported(data, tmp_path)
        assert store.record("v001").frames == 1
        assert self.same(store, data, tmp_path)

    def test_more_actions_than_frames_are_refused(self, tmp_path):
        data = DataSet.example()
        data.labels["v000"] = ["SIL", "pour"] * 16
        problems = self.refused(data, tmp_path)
        assert len(problems) == 1
        assert matching(problems, "mismatch", "", 32)

    def test_a_video_of_one_segment_and_one_of_71000_frames_are_imported(self, tmp_path):
        data = DataSet.example((30, 41, 71_000), dim=2)
        data.labels["v001"] = ["pour"] * 41
        data.labels["v002"] = ["SIL", "pour"] * 30 + ["stir"] * 70_940
        store, _ = self.imported(data, tmp_path, background=("SIL", "stir"))
        assert store.manifest.background == ("SIL", "stir")
        assert (len(store.record("v001").transcript), len(store.record("v002").transcript)) == (1, 61)
        assert self.same(store, data, tmp_path, background=("SIL", "stir"))

    def test_arrays_of_objects_are_refused(self, tmp_path):
        source = self.write(DataSet.example(), tmp_path / "src")
        np.save(self.features(source, "v001"), np.array([[{}] * 6] * 41, dtype=object), allow_pickle=True)
        problems = self.problems(source, tmp_path)
        assert len(problems) == 1
        assert matching(problems, "type", str(self.features(source, "v001")), "object")

    def test_rows_of_nan_are_named(self, tmp_path):
        data = DataSet.example()
        data.features["v001"][3:5] = np.nan
        data.features["v002"][0, 0] = np.inf
        problems = self.refused(data, tmp_path)
        assert [(problem.rule, problem.place) for problem in problems] == [
            ("range", "v001, rows 3-4"),
            ("range", "v002, row 0"),
        ]

    def test_splits_that_overlap_or_name_missing_videos_are_refused(self, tmp_path):
        data = DataSet.example()
        data.splits["train.split1.bundle"] += ["v003", "v999"]
        problems = self.refused(data, tmp_path)
        assert len(problems) == 2
        assert matching(problems, "unknown", "", ["v999"])
        assert matching(problems, "conflict", "1:test, 1:train", ["v003"])

    @pytest.mark.parametrize("part", ["train", "test"])
    def test_a_split_with_one_part_is_read_and_noted(self, tmp_path, part):
        data = DataSet.example()
        data.splits[f"{part}.split2.bundle"] = ["v000", "v003"]
        store, notes = self.imported(data, tmp_path)
        assert store.split("2", part) == ("v000", "v003")
        assert noted(notes, "split 2", f"2:{part}")
        assert self.same(store, data, tmp_path)

    def test_annotation_without_features_and_features_without_annotation_are_reported(self, tmp_path):
        data = DataSet.example()
        del data.labels["v000"]
        del data.features["v003"]
        problems = self.refused(data, tmp_path)
        assert len(problems) == 2
        assert matching(problems, "missing", "features", ["v003"])
        assert matching(problems, "missing", "", ["v000"])

    def test_one_bad_annotation_among_many_is_reported_with_all_other_problems(self, tmp_path):
        data = DataSet.example([12, 13, 14] * 20, dim=2)
        data.labels["v050"] = [name.replace("stir", "poor") for name in data.labels["v050"]]
        data.features["v030"][2] = np.nan
        data.splits["test.split1.bundle"].append("gone")
        problems = self.refused(data, tmp_path, background=("none",))
        assert [(problem.rule, problem.value) for problem in problems] == [
            ("unknown", self.unknown),
            ("unknown", "none"),
            ("range", 1),
            ("unknown", ["gone"]),
        ]

    def test_a_sample_rate_keeps_every_kth_frame_of_features_and_labels(self, tmp_path):
        data = DataSet.example()
        store, _ = self.imported(data, tmp_path, sample_rate=3)
        assert store.manifest.metadata["sample_rate"] == 3
        every = replace(data, features={video: features[::3] for video, features in data.features.items()})
        every.labels = {video: names[::3] for video, names in data.labels.items()}
        assert self.same(store, every, tmp_path)

    def test_a_sample_rate_that_loses_segments_is_refused(self, tmp_path):
        data = DataSet.example((20, 40, 44, 52))
        data.labels["v000"] = ["SIL"] * 9 + ["pour"] * 2 + ["stir", "SIL"] * 4 + ["stir"]
        problems = self.refused(data, tmp_path, sample_rate=4)
        assert len(problems) == 1
        assert matching(problems, "range", "--sample-rate", 4)
        n_lost = 8 if self.frame_labels else 11 - 5
        assert f"v000 ({n_lost})" in problems[0].message
        assert problems[0].hint.startswith("1 ")
        data.labels["v000"] = ["SIL"] * 8 + ["pour"] * 2 + ["stir"] * 10
        (problem,) = self.refused(data, tmp_path, sample_rate=11)
        assert "v000 (1)" in problem.message
        assert problem.hint.startswith("9 ")

    def test_options_without_effect_are_refused(self, tmp_path):
        source = self.write(DataSet.example(), tmp_path / "src")
        dataset, _ = layout_of(source, self.layout, ImportOptions())
        given = {"length_policy": "crop", "length_tolerance": 3, "fill": "SIL"}
        places = {f"--{name.replace('_', '-')}" for name in given if name not in dataset.uses}
        if places or not self.frame_labels:
            problems = self.problems(source, tmp_path, **given)
            assert {(problem.rule, problem.place) for problem in problems} == {("conflict", place) for place in places}
