"""Entry point of `polyseme` and `python -m polyseme`."""

import os
import sys


def main() -> None:
    """Run one command; a user's mistake prints one line and exits with status 2."""
    # A standard stream that is closed becomes the null device, before a file that is opened gets its number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    from polyseme.cli import run
    from polyseme.system.hardware import keep_freed_memory

    keep_freed_memory()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
