"""The suite of the layouts for MS-TCN, transcripts, and the release of the authors of MuCon."""

import numpy as np

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
