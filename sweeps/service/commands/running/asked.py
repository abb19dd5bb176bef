"""What the options of a sweep or a search ask for, besides rows and points."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import sweeps
from mucon.commands.outputs import check_folder
from mucon.configuration import parse_settings
from mucon.errors import Problem
from storage.remote.addresses import StorePlace
from sweeps.service.commands.options import is_tracking, new_console, tracking_uri
from sweeps.service.driver import Options
from sweeps.service.plan.sweep_folder import Rerun, SweepInfo
from sweeps.service.run.budget.limits import CAPS, Budget, read_budget
from sweeps.service.run.budget.price import Price, read_price
from sweeps.service.run.executor.cluster.submission import sender_lines
from sweeps.service.run.notice import VARIABLE, notify_address
from sweeps.service.run.resources import Placement, place_trials
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.files.format import is_file_name
from sweeps.service.spec.recipe import with_recipe
from sweeps.service.spec.search import Search
from sweeps.service.text import HIDDEN, redacted, say
from sweeps.service.trials.results_folder import ResultsFolder

if TYPE_CHECKING:
    from sweeps.service.spec.recipe import Base

DEMO_STORE = Path("stores/demo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parsed options, and what they mean here.

    Attributes:
        options: of `script_parser`.
        words: of the command line.
        program: how the program was called; None: by its script.
        name: name of the experiment, or its file; empty: the script.
        started: when the command began, on the monotonic clock.
        console: where to print.
        results: the results folder.
        store: the feature store.
        budget: the limits.
        price: of a dry run; None: no cost.
        placement: where trials run.
        notify: address that receives notices; it may contain a secret.
        is_tracked: whether trials are tracked.
        settings: path -> value for all trials.
    """

    options: argparse.Namespace
    words: Sequence[str]
    program: str | None
    name: str
    started: float
    console: Console
    results: ResultsFolder
    store: StorePlace
    budget: Budget
    price: Price | None
    placement: Placement
    notify: str | None
    is_tracked: bool
    settings: Mapping[str, object]

    @classmethod
    def of(
        cls, options: argparse.Namespace, words: Sequence[str], program: str | None, name: str, started: float
    ) -> Asked:
        """Reads the options; makes the demo recordings without `--store`.

        Raises:
            InputError: a wrong value.
        """
        notify = notify_address(options.notify, os.environ.get(VARIABLE))
        budget = read_budget({name: getattr(options, name[2:].replace("-", "_")) for name in CAPS}, os.environ)
        price = read_price(options.price, is_dry_run=options.dry_run)
        is_tracked = is_tracking(options.tracking, options.tracking_uri)
        each = options.device, options.cpus_per_trial, options.gpus_per_trial
        placement = place_trials(*each).limited(options.max_concurrent)
        check_folder(options.results.expanduser(), "--results")
        console, results = new_console(), ResultsFolder.at(options.results)
        epochs = {} if options.epochs is None else {"training.epochs": options.epochs}
        return cls(
            options=options,
            words=words,
            program=program,
            name=name,
            started=started,
            console=console,
            results=results,
            store=_demo_store(console) if options.store is None else options.store,
            budget=budget,
            price=price,
            placement=placement,
            notify=notify,
            is_tracked=is_tracked,
            settings=epochs | parse_settings(options.set),
        )

    def run_options(self, name: str, title: str, config: Mapping[str, Any], **more: Any) -> Options:
        """The options of a run.

        Args:
            name: name of the sweep.
            title: its caption.
            config: facts for the tracking server.
            more: further values of `Options`.
        """
        options, notify = self.options, self.notify
        shown = [redacted(word.replace(notify, HIDDEN) if notify else word) for word in self.words]
        command = f"{self.program or shlex.quote(Path(sys.argv[0]).name)} {shlex.join(shown)}".rstrip()
        rerun = Rerun(sweep=lasting_name(self.name), words=tuple(shown), folder=str(Path.cwd()))
        return Options(
            device=options.device,
            cpus=options.cpus_per_trial,
            gpus=options.gpus_per_trial,
            checkpoint_seconds=options.checkpoint_every,
            tracking_uri=tracking_uri(options.tracking_uri, self.results) if self.is_tracked else None,
            info=SweepInfo(name=name, title=title, command=command, config=config, keep=options.keep, rerun=rerun),
            max_concurrent=options.max_concurrent,
            budget=self.budget,
            started=self.started,
            notify=notify,
            stop_after_failures=options.stop_after_failures,
            system_metrics=options.system_metrics,
            **more,
        )


def base_of(sweep: Experiment | Search, options: argparse.Namespace) -> Base:
    """The configuration on which MuCon's rows, or the points of a search, build."""
    own = sweep.demo_base if options.store is None else sweep.base
    return own if options.recipe is None else with_recipe(own, options.recipe)


def print_notes(budget: Budget, warnings: Iterable[Problem], console: Console) -> None:
    """Prints the limits of a run, what looks suspicious in its plan, and what was not sent to its cluster."""
    for line in (*budget.lines(), *(f"warning: {problem}" for problem in warnings), *sender_lines(os.environ)):
        say(console, line)


def lasting_name(name: str) -> str:
    """The name of an experiment, or the absolute path of a file; by default of the script."""
    path = Path(name or sys.argv[0]).absolute()
    if path.resolve().parent == Path(sweeps.__path__[0]).resolve():
        return path.stem
    return str(path) if not name or is_file_name(name) else name


def _demo_store(console: Console) -> Path:
    if not (DEMO_STORE / "manifest.json").exists():
        from mucon.stores.made_up import demo_store

        say(console, f"making the demo recordings in {DEMO_STORE}")
        DEMO_STORE.parent.mkdir(parents=True, exist_ok=True)
        demo_store(DEMO_STORE)
    return DEMO_STORE
