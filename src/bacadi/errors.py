"""Errors that a user can act on: one sentence of what is wrong, where, and what to do; and the exit codes."""

FAILURE, BAD_INPUT, DOUBTFUL, INTERRUPTED = 1, 2, 3, 130
"""Exit codes other than 0: a failure of ours, bad input or usage, a doubtful result under `--strict`, stopped by Ctrl-C
(128 + SIGINT; other signals likewise)."""


class BacadiError(Exception):
    """Base class of every error raised on purpose; the command line turns it into exit code 2."""


class DataError(BacadiError):
    """The data cannot be used as they are."""


class ConfigError(BacadiError):
    """An option, a configuration file or a model choice makes no sense."""


class NoClosedForm(ConfigError):
    """A model has no closed-form evidence, so its parameters cannot be integrated out."""


class StoreError(BacadiError):
    """A file that should hold a posterior or a checkpoint is not ours, damaged or of another version."""


class InferenceError(BacadiError):
    """Inference ran and cannot give an answer (non-finite values, no acyclic particle)."""
