"""Why cells have no result: groups of failures, the lines of a trial's log, and the nearest recorded trial."""
