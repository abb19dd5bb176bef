"""Subtitles of predictions in the browser's own parser of text tracks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from mucon.outputs.formats import text
from tests.browser.chromium import Chromium
from tests.helpers.services import need
from tests.mucon.outputs.test_formats import EMPTY, NAMES, RESULT

pytestmark = pytest.mark.browser
LOAD = """
const [content] = arguments;
const video = document.createElement('video'), track = document.createElement('track');
window.shown = null;
track.kind = 'subtitles';
track.src = URL.createObjectURL(new Blob([content], {type: 'text/vtt'}));
track.onload = () => {
  window.shown = [...track.track.cues].map(cue =>
    [cue.id, cue.startTime, cue.endTime, cue.getCueAsHTML().textContent]);
};
track.onerror = () => { window.shown = 'error'; };
video.append(track);
document.body.replaceChildren(video);
track.track.mode = 'showing';
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    need(Chromium.is_installed(), "chromium with chromedriver")
    with Chromium() as started:
        started.open("data:text/html,<body></body>")
        yield started


def cues(browser: Chromium, content: str) -> Any:
    browser.run(LOAD, content)
    return browser.wait_until("return window.shown && [window.shown]", "cues")[0]


def test_the_browser_reads_one_cue_per_segment(browser: Chromium):
    found = cues(browser, text("v", RESULT, "vtt"))
    assert [cue[0] for cue in found] == ["1", "2", "3", "4"]
    assert [cue[3] for cue in found] == [name.replace("\t", " ") for name in NAMES]
    for (_, start, stop, _), one in zip(found, RESULT.segments, strict=True):
        assert (start, stop) == pytest.approx((one.start / 15, one.stop / 15), abs=5.1e-4)
    for before, after in itertools.pairwise(found):
        assert before[2] == after[1]


def test_the_browser_shows_confidences_and_reads_a_file_without_segments(browser: Chromium):
    assert [cue[3] for cue in cues(browser, text("v", RESULT, "vtt", confidence=True))][1].endswith("(0.25)")
    assert cues(browser, text("v", EMPTY, "vtt")) == []
    assert cues(browser, "no track") == "error"
