"""What a sweep would do, said without doing it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from mucon.errors import EXIT_OK
from sweeps.service.plan.plan import Plan
from sweeps.service.run.estimate import estimate
from sweeps.service.run.placement import Placement
from sweeps.service.spec.experiment import Trial
from sweeps.service.trials.folder import TO_RUN


def dry_run(plan: Plan, trials: Mapping[str, Trial], placement: Placement, console: Console) -> int:
    """Prints every cell with what is known of it, and what those that are missing would take; nothing is written.

    A few training steps are timed for it, where something is missing.

    Args:
        plan: the sweep.
        trials: by key.
        placement: where they would compute.
        console: to print on.

    Returns:
        The exit status.

    Raises:
        InputError: a configuration that cannot be trained.
    """

    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    known = plan.known()
    for cell in plan.cells:
        reason = f" ({known[cell.key].reason})" if known[cell.key].reason else ""
        tell(f"{cell.identity}  {known[cell.key].state:<8}  {cell}{reason}")
    to_run = [trials[key] for key, cell in known.items() if cell.state in TO_RUN]
    if not to_run:
        tell("to run: nothing")
        return EXIT_OK
    for line in estimate(to_run, plan.results, placement).lines():
        tell(line)
    return EXIT_OK
