"""The suite of the layouts, for each of them."""

import numpy as np

from storage import open_store
from storage.importing import import_data
from storage.layouts import ImportOptions
from storage.layouts.table import layout_of
from tests.storage.helpers import DataSet
from tests.storage.layouts.suite import LayoutSuite


class TestMsTcn(LayoutSuite):
    layout = "ms-tcn"

    def write(self, data, folder):
        return data.write(folder)


class TestTranscripts(LayoutSuite):
    layout = "transcripts"
    frame_labels = False
    repeats = True

    def write(self, data, folder):
        data.write_features(folder)
        data.write_shared(folder)
        for video in data.labels:
            data.text(folder / "transcripts" / f"{video}.txt", [name for name, _ in data.segments(video)])
        return folder


class TestTableOfTranscripts(LayoutSuite):
    layout = "transcripts"
    frame_labels = False
    repeats = True

    def write(self, data, folder):
        data.write_features(folder)
        data.write_shared(folder)
        rows = [f"{video},{' '.join(name for name, _ in data.segments(video))}" for video in data.labels]
        data.text(folder / "transcripts.csv", ["video,transcript", *rows])
        return folder


class TestMuCon(LayoutSuite):
    layout = "mucon"
    repeats = True
    mapping = True
    unknown = "id 99"

    def write(self, data, folder):
        data.write_features(folder)
        ids = {name: int(number) for number, name in (line.split() for line in data.mapping or ["0 SIL", "1 pour"])}
        for video, names in data.labels.items():
            transcript, lengths = zip(*data.segments(video), strict=True)
            self.array(folder, "labels", video, [ids.get(name, 99) for name in names])
            self.array(folder, "transcripts", video, [ids.get(name, 99) for name in transcript])
            self.array(folder, "lengths", video, lengths)
        if data.mapping is not None:
            data.text(folder / "mapping.txt", data.mapping)
        for name, lines in data.splits.items():
            part, split, _ = name.split(".")
            data.text(folder / f"{split}.{part}", lines)
        return folder

    def array(self, folder, kind, video, numbers):
        path = folder / kind / f"{video}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.array(numbers))


class TestBreakfastCoarse(LayoutSuite):
    layout = "breakfast-coarse"
    repeats = True

    def write(self, data, folder):
        data.write_features(folder)
        data.write_shared(folder)
        for video in data.labels:
            lines = [f"{start + 1}-{stop} {name}  " for name, start, stop in spans(data, video)]
            data.text(folder / "segmentation_coarse" / f"{video}.txt", lines)
        return folder


class TestSegmentsTable(LayoutSuite):
    layout = "segments"
    repeats = True

    def write(self, data, folder):
        data.write_features(folder)
        data.write_shared(folder)
        rows = [f"{video},{start},{stop},{name}" for video in data.labels for name, start, stop in spans(data, video)]
        data.text(folder / "segments.csv", ["video,start_frame,end_frame,action", *reversed(rows)])
        return folder


class TestHollywoodExtended(LayoutSuite):
    """The layout needs a background, and is never recognised."""

    layout = "hollywood-extended"
    transcripts = True

    def write(self, data, folder):
        data.write(folder)
        for video in data.labels.keys() & data.features.keys() if self.transcripts else ():
            actions = [name for name, _ in data.segments(video) if name != "SIL"]
            data.text(folder / "transcripts" / f"{video}.txt", actions)
        return folder

    def store(self, source, target, **options):
        dataset, note = layout_of(source, self.layout, ImportOptions(**{"background": ("SIL",), **options}))
        assert "description" in note
        survey = import_data(dataset, target).survey
        return open_store(target), survey.notes

    def same(self, store, data, tmp_path, **options):
        return super().same(store, data, tmp_path, **{"background": ("SIL",), **options})

    def test_a_dataset_without_background_has_none(self, tmp_path):
        problems = self.refused(DataSet.example(), tmp_path, background=())
        assert [(problem.rule, problem.place) for problem in problems] == [("missing", "--background")]

    def test_one_bad_annotation_among_many_is_reported_with_all_other_problems(self, tmp_path):
        self.transcripts = False  # they omit the background, which is another one in this test
        super().test_one_bad_annotation_among_many_is_reported_with_all_other_problems(tmp_path)

    def test_an_action_twice_in_a_row_stays_twice_if_the_layout_can_say_so(self, tmp_path):
        data = DataSet.example()
        data.labels["v001"] = ["pour"] * 10 + ["SIL"] * 10 + ["pour"] * 21
        store, _ = self.imported(data, tmp_path)
        assert store.record("v001").transcript == (1, 0, 1)


def spans(data: DataSet, video: str) -> list[tuple[str, int, int]]:
    """Action, first frame and frame after the last one of each segment of a video."""
    stops = np.cumsum([length for _, length in data.segments(video)]).tolist()
    starts = [0, *stops]
    return [(name, start, stop) for (name, _), start, stop in zip(data.segments(video), starts, stops, strict=False)]
