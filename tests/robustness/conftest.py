"""The trained models and the command line of the command tests."""

from tests.cli.conftest import polyseme, trained

__all__ = ["polyseme", "trained"]
