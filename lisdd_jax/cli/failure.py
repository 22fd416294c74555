"""The one exception that ends a command with a sentence and exit code 2."""


class Failure(Exception):  # noqa: N818
    """Bad input, said in one sentence."""
