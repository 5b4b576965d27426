"""The command line: `polyseme` and `python -m polyseme`."""

import sys


def main() -> None:
    """Run one command; a user's mistake is one line and exit code 2."""
    from polyseme.cli import run
    from polyseme.machine import keep_freed_memory

    keep_freed_memory()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
