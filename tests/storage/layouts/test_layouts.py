"""The suite of the layouts for MS-TCN, transcripts, and the release of the authors of MuCon."""

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
