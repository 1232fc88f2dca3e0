"""BLAS on one thread while several threads work."""

import threading

from threadpoolctl import threadpool_info, threadpool_limits

from bacadi.evidence.compiled import ONE_THREAD


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_any_thread_may_limit_blas_and_the_last_to_leave_lifts_the_limit() -> None:
    """Newer versions of threadpoolctl ignore all threads but the first that set a number."""
    seen: list[set[int]] = []
    with threadpool_limits(3, user_api="blas"):
        for _ in range(2):
            with ONE_THREAD:
                seen.append(blas_threads())
        first, second = threading.Event(), threading.Event()

        def leaves_first() -> None:
            with ONE_THREAD:
                first.set()
                second.wait(60)

        def leaves_last() -> None:
            first.wait(60)
            with ONE_THREAD:
                second.set()
                other.join(60)
                seen.append(blas_threads())

        other, last = threading.Thread(target=leaves_first), threading.Thread(target=leaves_last)
        for thread in (other, last):
            thread.start()
        last.join(60)
        assert seen == [{1}] * 3
        assert blas_threads() == {3}
