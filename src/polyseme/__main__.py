"""Entry point of `polyseme` and `python -m polyseme`."""

import sys


def main() -> None:
    """Run one command; a user's mistake prints one line and exits with status 2."""
    from polyseme.cli import run
    from polyseme.system.hardware import keep_freed_memory

    keep_freed_memory()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
