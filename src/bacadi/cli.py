"""The command line: parse, call, print. The commands stand in `bacadi.commands`, one module each."""

import atexit
import gc
import os
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from bacadi.commands.bench import bench
from bacadi.commands.check import check
from bacadi.commands.demo import demo
from bacadi.commands.evaluate import evaluate
from bacadi.commands.export import export
from bacadi.commands.fit import fit, resume
from bacadi.commands.outputs import say
from bacadi.commands.plot import plot, report
from bacadi.commands.query import query
from bacadi.commands.sham import sham
from bacadi.commands.simulate import simulate
from bacadi.commands.warm_up import warm_up
from bacadi.errors import BAD_INPUT, FAILURE, INTERRUPTED, BacadiError

_DEBUG_VARIABLE = "BACADI_DEBUG"
# Typer brings a click of its own or uses the one installed, by version; this is the class that it raises.
_UsageError: Any = typer.BadParameter.__base__


class _Commands(TyperGroup):
    """Turns errors that a user can act on into one sentence on stderr, wherever the commands are invoked from."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BacadiError as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            say(f"Error: {error}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except _UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "bacadi"
            what = " ".join(error.format_message().split()).rstrip(".")
            typer.echo(f"Error: {what}; `{command} --help` lists what there is.", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except OSError as error:
            if error.filename is None or isinstance(error, BrokenPipeError):
                raise
            say(f"Error: '{error.filename}' cannot be used ({error.strerror}).", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (fit, check, sham, resume, query, report, plot, export, simulate, evaluate, warm_up, demo):
    app.command()(command)
app.add_typer(bench, name="bench")


def main() -> NoReturn:
    """Run the command line; exit codes: 0 done, 1 a failure of ours, 2 bad input or usage, 128 + n for signal n."""
    # A million objects of modules live until the end: the collector need not look at them again and again, nor at exit.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    # JAX reads these when it is first imported. Messages of its compiler are of no use to whoever waits for a
    # posterior, and what it compiled is worth keeping; a user's own settings win.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(cache, "bacadi", "jax"))
    sys.path.append("")  # classes of the user's own (module:Class) may stand in the working folder, as with python -m
    try:
        app()
    except BrokenPipeError:  # the reader of a pipe has gone (`bacadi … | head`): nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as failure:
        if "--debug" in sys.argv or os.environ.get(_DEBUG_VARIABLE, "0") not in ("", "0"):
            traceback.print_exc()
        what = " ".join(str(failure).split()) or "no message"
        typer.echo(
            f"bacadi failed unexpectedly ({type(failure).__name__}: {what}); this is a fault of bacadi and not of your "
            "input, `bacadi --debug …` shows where it happened.",
            err=True,
        )
        sys.exit(FAILURE)
    sys.exit(0)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"bacadi {version('bacadi')}")
        except PackageNotFoundError:  # run from a source tree
            from bacadi import __version__

            typer.echo(f"bacadi {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar=_DEBUG_VARIABLE, help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Bayesian causal discovery from data of several contexts with unknown intervention targets."""
