"""Six checks that a user of a GPU runs first: device, bits, resident features, memory, speed and a sweep.

Run as `make gpu` or `python benchmarks/gpu.py [--device cpu] [--only bits speed]`. Each check prints one line with its
figures and OK or failed. Exit status 0: all are OK; 1: one failed; 2: no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from mucon.device import choose_device, device_name, gpu_facts, peak_memory, usable_cpus, usable_precision
from mucon.errors import InputError, Interrupted
from mucon.methods import method_named
from mucon.stores.made_up import demo_store
from mucon.training.measured_step import measure_step
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

ROOT = Path(__file__).resolve().parents[1]
SHARE = 0.25
"""GPUs per trial of a sweep."""
VOCABULARY = Vocabulary(tuple(f"action {n}" for n in range(48)))
BITS = {"mucon": "breakfast", **dict.fromkeys(("ms_tcn", "isba", "hmm_rnn", "ectc", "cdfl", "atba"), "demo")}
"""Method -> recipe on a GPU: cuDNN's recurrence and convolutions, and the losses that sum in ways of their own."""
Check = Callable[[torch.device], tuple[bool, str]]


def recording(name: str, device: torch.device, n_frames: int = 2100, n_segments: int = 7) -> Video:
    """Features of 2,048 numbers a frame on a GPU; a tenth of the frames and 64 numbers on a CPU."""
    n_frames, dim = (n_frames, 2048) if device.type == "cuda" else (n_frames // 10, 64)
    random = np.random.default_rng([*name.encode()])
    lengths = [n_frames // n_segments] * (n_segments - 1)
    lengths.append(n_frames - sum(lengths))
    features = random.standard_normal((n_frames, dim), dtype=np.float32)
    return Video.from_arrays(name, features, random.integers(0, 48, n_segments).tolist(), lengths)


def check_device(device: torch.device) -> tuple[bool, str]:
    """Names and versions."""
    has_bfloat16 = usable_precision("bfloat16", device) == "bfloat16"
    facts = {"torch": torch.__version__, **gpu_facts(device), "bfloat16": "yes" if has_bfloat16 else "no"}
    named = ", ".join(f"{name} {value}" for name, value in facts.items())
    return True, f"{device_name(device)} ({device}), {usable_cpus()} cores, {named}"


def check_bits(device: torch.device) -> tuple[bool, str]:
    """Two trainings of 50 steps, and one that is interrupted and resumed, have the same weights."""
    digests = {name: [digest(name, device, stop_after) for stop_after in (None, None, 27)] for name in BITS}
    is_same = all(len(set(found)) == 1 for found in digests.values())
    return is_same, "; ".join(f"{name} {' '.join(found)}" for name, found in digests.items())


def check_resident(device: torch.device) -> tuple[bool, str]:
    """Features that stay on the device and features that are read ahead train the same weights."""
    choices = [{"training.device_resident": choice} for choice in ("on", "off")]
    digests = {name: [digest(name, device, None, choice) for choice in choices] for name in BITS}
    is_same = all(len(set(found)) == 1 for found in digests.values())
    return is_same, "; ".join(f"{name} {' '.join(found)}" for name, found in digests.items())


def digest(
    name: str, device: torch.device, stop_after: int | None, settings: Mapping[str, object] | None = None
) -> str:
    """The beginning of the sha256 of a method's weights after 50 steps, resumed after `stop_after` of them."""
    method, recipe = method_named(name), BITS[name] if device.type == "cuda" else "demo"
    few = {"training.epochs": 5, "training.progress_videos": 0}
    config = method.recipes[recipe]().with_values({**few, **(settings or {})})
    videos = [recording(f"v{i}", device, n_frames=1000 + 200 * i) for i in range(10)]
    with tempfile.TemporaryDirectory() as folder:
        train = partial(method.train, config, videos, VOCABULARY, folder=Path(folder), device=str(device))
        if stop_after is not None:
            steps = itertools.count()
            with contextlib.suppress(Interrupted):
                train(should_stop=lambda: next(steps) >= stop_after)
        train()
        return method.load(Path(folder) / "checkpoint").weights_sha256()[:12]


def check_memory(device: torch.device) -> tuple[bool, str]:
    """A training step on a long recording fits into a quarter of the memory."""
    method = method_named("mucon")
    config = method.quick(method.recipes["breakfast"](), labelled=False)
    video = recording("long", device, n_frames=9700, n_segments=25)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    with tempfile.TemporaryDirectory() as folder:
        method.train(config, [video], VOCABULARY, folder=Path(folder), device=str(device))
    if device.type == "cuda":
        used, total = torch.cuda.max_memory_reserved(device), torch.cuda.mem_get_info(device)[1]
    else:
        used, total = peak_memory(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return used <= SHARE * total, f"{used / 2**30:.2f} of {total / 2**30:.1f} GiB for {video.n_frames} frames"


def check_speed(device: torch.device) -> tuple[bool, str]:
    """Steps per second; bfloat16 is not much slower than float32, as it is when it is emulated."""
    method = method_named("mucon")
    rates = {}
    for precision in ("float32", "bfloat16"):
        if usable_precision(precision, device) == precision:
            config = method.recipes["breakfast"]().with_values({"training.precision": precision})
            step = measure_step(
                method, config, recording("typical", device), VOCABULARY, device=str(device), seconds=3.0
            )
            rates[precision] = 1 / step.seconds
    named = ", ".join(f"{rate:.1f} steps per second in {precision}" for precision, rate in rates.items())
    return min(rates.values()) > 0.5 * rates["float32"], named


def check_sweep(device: torch.device) -> tuple[bool, str]:
    """A sweep of four trials, which share a GPU."""
    share = ["--gpus-per-trial", str(SHARE)] if device.type == "cuda" else []
    with tempfile.TemporaryDirectory() as folder:
        store = demo_store(Path(folder) / "store")
        words = ["run", "ablation_masks", "--store", str(store), "--results", str(Path(folder) / "results")]
        words += ["--rows", "box, no", "bell, no", "--seeds", "2", "--recipe", "demo", "--epochs", "2"]
        line = [sys.executable, "-m", "sweeps", *words, "--device", device.type, *share]
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        n_results = len(list((Path(folder) / "results").glob("trials/*/training.json")))
    placed = next((text for text in done.stdout.splitlines() if " to run, " in text), "no trial ran")
    reason = f"; {(done.stderr or done.stdout).strip().splitlines()[-1]}" if done.returncode else ""
    return done.returncode == 0 and n_results == 4, f"{n_results} of 4 trials finished, {placed}{reason}"


CHECKS: dict[str, Check] = {
    "device": check_device,
    "bits": check_bits,
    "resident": check_resident,
    "memory": check_memory,
    "speed": check_speed,
    "sweep": check_sweep,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (default: cuda)")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS), help="checks to run (default: all)")
    args = parser.parse_args(arguments)
    try:
        device = choose_device(args.device)
    except InputError as error:
        print(f"error: {error.line}", file=sys.stderr)
        return 2
    failed = False
    for name in args.only:
        try:
            is_good, figures = CHECKS[name](device)
        except Exception as error:  # the other checks are still of use
            is_good, figures = False, " ".join(f"{type(error).__name__}: {error}".split())
        print(f"{name + ':':<9} {'OK' if is_good else 'failed'}: {figures}", flush=True)
        failed |= not is_good
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
