"""`python -m sweeps`."""

from sweeps.service.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
