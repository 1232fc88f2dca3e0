"""How functions are compiled: cached on disk, without the interpreter lock, division as in NumPy.

`no_type_check` keeps checkers of annotations, which tests install, from wrapping what Numba has to see as it is.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from inspect import unwrap
from pathlib import Path
from threading import Lock
from typing import Any, no_type_check

import numpy as np
from numba import config as _config
from numba import njit
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_PACKAGE = Path(__file__).parent.parent
_NUMBA: Any = _config


_FILES = [
    file.stat()
    for pattern in ("evidence/**/*.py", "inference/mcmc/*.py", "inference/exact/recursions.py")
    for file in _PACKAGE.glob(pattern)
]
_STAMP = max(file.st_mtime_ns for file in _FILES), sum(file.st_size for file in _FILES)
"""When the files of compiled code were last changed, and their size."""


def compiled(function: Callable, **options: Any) -> Any:
    """A compiled function that Python calls.

    Its cache ends when any file of compiled code changes. Numba looks only at the file of the function itself, and
    would go on using code that it has inlined from another. The stamp is part of the version, which is compared before
    an index is read: an old one may name classes that are gone.
    """
    make = njit(cache=True, nogil=True, error_model="numpy", **options)
    try:
        dispatcher = no_type_check(make(unwrap(function)))
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        _use_private_cache()
        dispatcher = no_type_check(make(unwrap(function)))
    cache: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cache, "_version"):
        cache._version = f"{cache._version} {_STAMP}"
    return dispatcher


def inner(function: Callable) -> Any:
    """A compiled function that only compiled code calls.

    The means to be called from Python would take as long to compile as most of these functions do.
    """
    return compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=False)


def inlined(function: Callable) -> Any:
    """An `inner` function that is compiled into its caller, for those that are called in one place.

    Tuples of arrays are passed by value, hundreds of words per call, which costs more than most of these functions.
    Callees inherit this option unless it is set, hence the False above.
    """
    return compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def _use_private_cache() -> None:
    """Keep compiled code in a temporary folder of the user's own, where neither package nor home can be written to."""
    folder = Path(tempfile.gettempdir()) / f"bacadi-{getattr(os, 'getuid', int)()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700)
    found = folder.lstat() if os.path.lexists(folder) else None
    # Code is loaded from there, so it must belong to nobody else.
    own = (
        found is not None and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    )
    _NUMBA.CACHE_DIR = str(folder if own else tempfile.mkdtemp(prefix="bacadi-"))
    logging.getLogger("bacadi").warning(
        "Compiled code cannot be kept beside the package or in the home folder and goes to %s; set NUMBA_CACHE_DIR to "
        "a folder that lasts and that can be written to.",
        _NUMBA.CACHE_DIR,
    )


class OneThread:
    """A context with BLAS on one thread: the parallelism is over replicas or parent sets, and results do not depend on
    the machine.

    Replicas enter it at the same time and the limit is one for the whole process, so that the last to leave lifts it.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, list[int]()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [library.get_num_threads() for library in _libraries()]
                set_blas_threads([1] * len(self._before))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                set_blas_threads(self._before)


ONE_THREAD = OneThread()


@cache
def _libraries() -> list[Any]:
    """Those of BLAS and their like. Setting their threads one by one takes a quarter of the time of a
    `threadpoolctl.threadpool_limits`, which counts where values are asked for one at a time."""
    return list(ThreadpoolController().lib_controllers)


def set_blas_threads(numbers: Iterable[int]) -> None:
    """Give each library of linear algebra its number of threads, from whatever thread this is called.

    threadpoolctl 3.8 ignores all threads but the first that set a number, unless that one is released.
    """
    for library, number in zip(_libraries(), numbers, strict=False):
        release = partial(getattr(library, "clear_controlling_thread", bool), True)
        release()
        library.set_num_threads(number)
        release()


def row_by_row(value: Any) -> Any:
    """Nested tuples of arrays, each in C order: for another one everything would be compiled anew, and slower."""
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["C", "W"])
    return type(value)(*(row_by_row(item) for item in value)) if isinstance(value, tuple) else value


def is_cached(function: Any) -> bool:
    """Whether a compiled function is in the cache, compiled after the code was last changed."""
    folder, code = function.stats.cache_path, function.py_func
    # The name of an index of the cache: module, function, line, interpreter.
    name = f"{code.__module__.rpartition('.')[2]}.{code.__name__}-*.nbi"
    indices = [] if folder is None else Path(folder).glob(name)
    return any(index.stat().st_mtime_ns >= _STAMP[0] for index in indices)


def cache_folder() -> str:
    """Where compiled code is kept."""
    return str(_NUMBA.CACHE_DIR or _PACKAGE)
