"""`python -m mucon`."""

from mucon.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
