"""Paired timing of two callables in one process, printed as one JSON line."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable

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
    ratios = [a / b for a, b in pairs]
    quartiles = statistics.quantiles([a for a, _ in pairs], n=4) if n > 1 else [pairs[0][0]] * 3
    record: dict[str, object] = {
        "benchmark": benchmark,
        "case": case,
        "ours": float(f"{statistics.median(a for a, _ in pairs):.4g}"),
        "reference": float(f"{statistics.median(b for _, b in pairs):.4g}"),
        "ratio": float(f"{statistics.median(ratios):.4g}"),
        "unit": "s",
        "of": of,
        "n": n,
        "quartiles": [float(f"{quartiles[0]:.4g}"), float(f"{quartiles[2]:.4g}")],
        "threads": threads,
        "cpu": device or cpu_name(),
        **extra,
    }
    print(json.dumps(record), flush=True)
    return record
