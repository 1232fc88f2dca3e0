"""Exit codes and where the numbers come from: 0 done, and these."""

FAILURE = 1
"""A failure of ours."""

BAD_INPUT = 2
"""Bad input or bad usage."""

INTERRUPTED = 130
"""Stopped by Ctrl-C: 128 + SIGINT."""
