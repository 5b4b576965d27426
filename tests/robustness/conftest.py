"""The trained models, the command line and the text of the tests of commands, comparisons and servers."""

from tests.cli.conftest import polyseme, trained
from tests.comparison.conftest import tasks, text
from tests.server.conftest import print_metric

__all__ = ["polyseme", "print_metric", "tasks", "text", "trained"]
