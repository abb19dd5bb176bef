import threading

import pytest

from mucon.outputs.batch import FrameBudget


@pytest.mark.parametrize(
    ("most", "sizes", "together"),
    [(10, (6, 6), False), (10, (5, 5), True), (10, (50, 1), False), (10, (1, 50), False), (None, (50, 50), True)],
)
def test_recordings_are_computed_together_if_their_frames_fit(
    most: int | None, sizes: tuple[int, int], together: bool
) -> None:
    budget, entered, ends = FrameBudget(most), threading.Event(), threading.Event()

    def second() -> None:
        with budget.of(sizes[1]):
            entered.set()
        ends.set()

    thread = threading.Thread(target=second)
    with budget.of(sizes[0]):
        thread.start()
        assert entered.wait(10 if together else 0.2) == together
    assert ends.wait(10)
    thread.join()
    assert budget.used == 0


def test_the_frames_of_a_recording_that_fails_are_free_again() -> None:
    budget = FrameBudget(10)
    with pytest.raises(ValueError, match="broken"), budget.of(50):
        raise ValueError("broken")
    assert budget.used == 0
