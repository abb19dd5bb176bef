"""Paired timing of two callables in one process, printed as one JSON line."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence

from mucon.device import cpu_name


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(
    benchmark: str,
    case: str,
    ours: Callable[[], object],
    reference: Callable[[], object],
    *,
    of: str,
    n: int = 20,
    threads: int = 1,
    device: str | None = None,
    **extra: object,
) -> dict[str, object]:
    """Times `ours` and `reference` in turn, `n` pairs after one warm call each, and prints the medians.

    Args:
        benchmark: name of the figure.
        case: the size.
        ours: the product's way.
        reference: the field's way or the physical floor.
        of: what the reference is.
        n: pairs.
        threads: threads that both used.
        device: name of the accelerator, or None for the processor.
        extra: more keys of the line.

    Returns:
        The printed record; `ratio` is the median of the pairs' ours / reference.
    """
    ours()
    reference()
    gc.collect()
    pairs = [(seconds(ours), seconds(reference)) for _ in range(n)]
    return record(benchmark, case, pairs, of=of, threads=threads, device=device, **extra)


def record(
    benchmark: str,
    case: str,
    pairs: Sequence[tuple[float, float]],
    *,
    of: str,
    threads: int = 1,
    device: str | None = None,
    **extra: object,
) -> dict[str, object]:
    """Prints and returns the medians of pairs (ours, reference) in seconds, see `compare`."""
    ours = [one for one, _ in pairs]
    quartiles = statistics.quantiles(ours, n=4) if len(pairs) > 1 else ours * 3
    line: dict[str, object] = {
        "benchmark": benchmark,
        "case": case,
        "ours": float(f"{statistics.median(ours):.4g}"),
        "reference": float(f"{statistics.median(other for _, other in pairs):.4g}"),
        "ratio": float(f"{statistics.median(one / other for one, other in pairs):.4g}"),
        "unit": "s",
        "of": of,
        "n": len(pairs),
        "quartiles": [float(f"{quartiles[0]:.4g}"), float(f"{quartiles[2]:.4g}")],
        "threads": threads,
        "cpu": device or cpu_name(),
        **extra,
    }
    print(json.dumps(line), flush=True)
    return line
