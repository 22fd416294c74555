"""Tokens of an expression, and errors that say where."""

import re
from typing import NamedTuple, NoReturn

from lisdd_jax.expressions.tree import KEYWORDS, PLAIN_NAME, ExpressionError, shorten

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>PLAIN_NAME)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<operator>\*\*|<=|>=|==|!=|[-+*/^<>(),])
    | (?P<end>\Z)
    )""".replace("PLAIN_NAME", PLAIN_NAME.pattern),
    re.VERBOSE,
)
_INSTEAD = {"=": "==", "&": "and", "|": "or", "!": "not", "~": "not", "%": "mod(a, b)"}


class Token(NamedTuple):
    """A piece of the text: its kind, its value, where it starts and how it is written."""

    kind: str
    value: str
    start: int
    source: str


def tokenize(text: str) -> list[Token]:
    """Tokens of a text, the last of kind ``end``; keywords are operators, ``**`` is ``^``."""
    tokens: list[Token] = []
    index = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, index)
        if match is None:
            _refuse_character(text, index)
        tokens.append(_token(text, match))
        index = match.end()
    return tokens


def _token(text: str, match: re.Match[str]) -> Token:
    kind = str(match.lastgroup)
    value = source = match.group(kind)
    start = match.start(kind)
    if kind in ("quoted", "text"):
        value = source[1:-1].replace(source[0] * 2, source[0])
    elif kind == "name" and not source.isidentifier():
        raise error_at(text, start, "a name of letters, digits and '_'", repr(shorten(source)))
    elif kind == "name" and source in KEYWORDS:
        kind = "operator"
    elif source == "**":
        value = "^"
    return Token(kind, value, start, source)


def _refuse_character(text: str, index: int) -> NoReturn:
    index = len(text) - len(text[index:].lstrip())
    character = text[index]
    if text.startswith("``", index):
        raise error_at(text, index, "a column name between the backticks", "nothing")
    if character in "`'\"":
        raise error_at(text, index, f"a closing {character} for the quote", "the end")
    instead = _INSTEAD.get(character)
    expected = f"'{instead}'" if instead else "an operand or an operator"
    raise error_at(text, index, expected, repr(character))


def error_at(text: str, index: int, expected: str, got: str) -> ExpressionError:
    """The error for something unexpected at an index of the text."""
    excerpt = shorten(text, index)
    return ExpressionError(
        f"expected {expected} at position {index + 1} of {excerpt!r}, got {got}", index + 1
    )
