"""Memory that the process holds and does not need."""

import ctypes


def return_free_memory() -> None:
    """Give what the allocator holds in reserve back to the system, where it can (glibc).

    A compiler asks for hundreds of megabytes in small pieces, which the allocator keeps.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return
    trim(0)
