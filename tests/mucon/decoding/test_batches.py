from __future__ import annotations

import threading

import numpy as np
import pytest

from mucon.decoding.alignment import best_lengths
from mucon.decoding.batches import Job, decode_many
from mucon.decoding.length_priors import Flat, Poisson
from tests.helpers.refusals import refused


def alignment_jobs(n: int) -> list[Job]:
    rng = np.random.default_rng(0)
    jobs = []
    for i in range(n):
        T = int(rng.integers(20, 200))
        log_probs = np.log(rng.dirichlet(np.ones(4), T))
        transcript, prior = rng.integers(0, 4, 5), Poisson(np.full(5, T / 5))
        jobs.append(Job(f"video {i}", lambda a=log_probs, b=transcript, c=prior: best_lengths(a, b, c)))
    return jobs


def test_threads_give_the_results_of_one_thread_in_order():
    results = [
        [(lengths.tolist(), score) for lengths, score in decode_many(alignment_jobs(60), threads=threads, bunch=bunch)]
        for threads, bunch in ((1, 16), (2, 16), (5, 1))
    ]
    alone = [(lengths.tolist(), score) for lengths, score in (job.decode() for job in alignment_jobs(60))]
    assert results == [alone] * 3


def test_as_many_jobs_run_at_once_as_there_are_threads():
    meeting = threading.Barrier(3, timeout=30)
    assert sorted(decode_many([Job(str(i), meeting.wait) for i in range(3)], threads=3, bunch=1)) == [0, 1, 2]


def test_every_kernel_computes_without_the_lock_of_the_interpreter():
    from numba.core.dispatcher import Dispatcher

    from mucon.decoding import kernels

    compiled = [value for value in vars(kernels).values() if isinstance(value, Dispatcher)]
    assert {kernels.align, kernels.walk, kernels.walk_beam, kernels.cumulate} <= set(compiled)
    assert all(one.targetoptions["nogil"] for one in compiled)


def test_jobs_are_taken_only_a_little_ahead_of_the_results():
    taken = 0

    def jobs():
        nonlocal taken
        for i in range(100):
            taken += 1
            yield Job(str(i), lambda i=i: i)

    for threads in (1, 2):
        taken = 0
        results = decode_many(jobs(), threads=threads, bunch=4)
        assert next(results) == 0
        assert taken <= 2 * threads * 4
        assert list(results) == list(range(1, 100))
        assert taken == 100


def test_no_jobs_give_no_results():
    assert list(decode_many([], threads=1)) == list(decode_many([], threads=3)) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_names_its_video_and_later_jobs_are_not_started(threads):
    started = []

    def wrong() -> None:
        best_lengths([[0.0]], [0, 0], Flat())

    jobs = [Job("first", lambda: started.append(0)), Job("P03 cereals", wrong)]
    jobs += [Job(str(i), lambda i=i: started.append(i)) for i in range(500)]
    with refused("mismatch", "P03 cereals: transcript", 2, n=1):
        list(decode_many(jobs, threads=threads))
    assert len(started) < 200


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_another_kind_keeps_its_type_and_names_its_video(threads):
    with pytest.raises(ZeroDivisionError) as caught:
        list(decode_many([Job("P03 tea", lambda: 1 // 0)], threads=threads))
    assert caught.value.__notes__ == ["while decoding 'P03 tea'"]


def test_an_iterator_that_is_closed_starts_no_further_job():
    started = []
    results = decode_many((Job(str(i), lambda i=i: started.append(i)) for i in range(100)), threads=2, bunch=3)
    next(results)
    results.close()
    assert len(started) <= 12
    assert not any(thread.name.startswith("decode") for thread in threading.enumerate())


def test_no_thread_is_refused_at_once():
    with refused("range", "threads", 0, n=1):
        decode_many([], threads=0)
    with refused("range", "bunch", 0, n=1):
        decode_many([], threads=2, bunch=0)
