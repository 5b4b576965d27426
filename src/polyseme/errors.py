"""What can go wrong through no fault of the program.

PolysemeError
    ConfigError        a setting, name or combination that makes no sense
    DataError          text or labels that cannot be used as they are
    CheckpointError    a model or run directory that cannot be read, written or resumed
    TrainingError      a training that cannot go on, such as one whose numbers stopped being finite

Each message says what happened and what to do, in one line; the command line prints it and exits with `exit_code`.
Anything else that is raised is a bug.
"""


class PolysemeError(Exception):
    """A mistake that the user can mend."""

    exit_code = 2


class ConfigError(PolysemeError):
    """A setting, name or combination that makes no sense."""


class DataError(PolysemeError):
    """Text or labels that cannot be used as they are."""


class CheckpointError(PolysemeError):
    """A model or run directory that cannot be read, written or resumed."""


class TrainingError(PolysemeError):
    """A training that cannot go on."""

    exit_code = 1
