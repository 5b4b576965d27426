"""Errors of the user, not of the program.

PolysemeError
    ConfigError        an invalid setting, name or combination
    DataError          text or labels that cannot be used
    CheckpointError    a model or run directory that cannot be read, written or resumed
    TrainingError      training that cannot continue, such as a loss that is not finite

A message is one line: what happened, and what to do. The command line prints it and exits with `exit_code`.
Any other exception is a bug.
"""


class PolysemeError(Exception):
    """A mistake that the user can correct."""

    exit_code = 2


class ConfigError(PolysemeError):
    """An invalid setting, name or combination."""


class DataError(PolysemeError):
    """Text or labels that cannot be used."""


class CheckpointError(PolysemeError):
    """A model or run directory that cannot be read, written or resumed."""


class TrainingError(PolysemeError):
    """Training that cannot continue."""

    exit_code = 1
