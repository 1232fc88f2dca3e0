"""The query language, tiny and strict: one question in, one `Answer` out.

    effects                        effect(A -> B)
    do(A=0, B+=1)                  do(A=0) -> B, C
    ancestors   ancestors(B)       descendants(A)
    context(drug)                  changed(incident)   changed(incident, other)
    next                           next(effect(A -> B))

A name is written as it is, or in quotes where it has spaces, quotes, commas, parentheses, `=`, `->` or `+=` in it
(a quote is doubled inside its own kind).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from bacadi.answers import structure
from bacadi.answers.answer import Answer
from bacadi.answers.doing import do
from bacadi.answers.effects import effect, effects
from bacadi.answers.gain import Design, next_experiment
from bacadi.data.text import closest, quoted
from bacadi.errors import ConfigError
from bacadi.posterior.posterior import Posterior

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"]|"")*"|'(?:[^']|'')*')|(?P<sign>->|\+=|[(),=])"""
    r"""|(?P<word>(?:[^\s"'(),=+\-]|-(?!>)|\+(?!=))+))"""
)
_END = "the end of the query"


class Token(NamedTuple):
    """A piece of a query: what it says, how it is meant, and its position, from 1 on."""

    text: str
    kind: str  # word, quoted, sign or end
    position: int


@dataclass(frozen=True)
class Settings:
    """What a question may need beside its words: see `next_experiment`."""

    design: Design = field(default_factory=Design)
    modules: tuple[str, ...] = ()
    seed: int = 0


def ask(posterior: Posterior, query: str, settings: Settings | None = None) -> Answer:
    """Answer one question; one sentence says what is wrong with a query that does not parse, and where.

    >>> import numpy as np
    >>> graph = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
    >>> posterior = Posterior(graph, np.zeros((1, 1, 0, 2)), np.zeros((1, 1)), ("rain", "wet"), ())
    >>> ask(posterior, "ancestors(wet)").text
    'Probably upstream of wet: rain (100 %).'
    """
    return _Parser(posterior, _tokens(query)).parsed()(settings or Settings())


def _tokens(query: str) -> list[Token]:
    found, at = [], 0
    end = len(query.rstrip())
    while at < end:
        match = _TOKEN.match(query, at)
        if match is None:
            at += len(query[at:]) - len(query[at:].lstrip())
            what = "A quote is not closed" if query[at] in "\"'" else f"{quoted(query[at])} has no meaning"
            raise ConfigError(f"{what} at position {at + 1} of the query; put names with odd characters in quotes.")
        kind = str(match.lastgroup)
        text = match.group(kind)
        start = match.start(kind) + 1
        if kind == "quoted":
            text = text[1:-1].replace(text[0] * 2, text[0])
        found.append(Token(text, kind, start))
        at = match.end()
    return [*found, Token(_END, "end", end + 1)]


Question = Callable[[Settings], Answer]


class _Parser:
    """Recursive descent over the tokens; names are resolved as they are read, so that errors have a position."""

    def __init__(self, posterior: Posterior, tokens: Sequence[Token]) -> None:
        self._posterior, self._tokens, self._at = posterior, tokens, 0

    def parsed(self) -> Question:
        verb = self._take("word", f"a question ({', '.join(READERS)})")
        if verb.text not in READERS:
            near = closest(verb.text, list(READERS))
            self._refuse(verb, f"There is no question {quoted(verb.text)}{near}", f"ask one of {', '.join(READERS)}")
        question = READERS[verb.text](self)
        if self._next.kind != "end":
            self._refuse(self._next, f"{self._shown(self._next)} follows a whole question", "end the query before it")
        return question

    def read_effects(self) -> Question:
        return lambda settings: effects(self._posterior, settings.modules, settings.seed)

    def read_effect(self) -> Question:
        source, target = self._pair()
        return lambda settings: effect(self._posterior, source, target, settings.modules, settings.seed)

    def _pair(self) -> tuple[str, str]:
        self._sign("(")
        source = self._variable()
        self._sign("->")
        target = self._variable()
        self._sign(")")
        return source, target

    def read_do(self) -> Question:
        values: dict[str, float] = {}
        shifts: dict[str, float] = {}
        self._sign("(")
        while True:
            place = self._next
            name = self._variable()
            if name in values or name in shifts:
                self._refuse(place, f"{quoted(name)} is given twice", "name a variable once")
            sign = self._sign("=", "+=")
            (values if sign == "=" else shifts)[name] = self._number()
            if self._sign(",", ")") == ")":
                break
        of: list[str] = []
        if self._next.kind != "end":
            self._sign("->")
            of.append(self._variable())
            while self._next.kind != "end":
                self._sign(",")
                of.append(self._variable())
        return lambda s: do(self._posterior, values, shifts, of, modules=s.modules, seed=s.seed)

    def read_ancestors(self) -> Question:
        of = self._argument(self._variable) if self._next.kind != "end" else None
        return lambda settings: structure.ancestors(self._posterior, of)

    def read_descendants(self) -> Question:
        of = self._argument(self._variable)
        return lambda settings: structure.descendants(self._posterior, of)

    def read_context(self) -> Question:
        name = self._argument(self._context_name)
        return lambda settings: structure.context_did(self._posterior, name)

    def read_changed(self) -> Question:
        self._sign("(")
        name, other = self._context_name(), None
        if self._sign(",", ")") == ",":
            other = self._context_name()
            self._sign(")")
        return lambda settings: structure.changed(self._posterior, name, other)

    def read_next(self) -> Question:
        about = None
        if self._next.kind != "end":
            self._sign("(")
            inner = self._take("word", "effect")
            if inner.text != "effect":
                self._refuse(inner, f"{quoted(inner.text)} cannot be learned about", "write next(effect(A -> B))")
            about = self._pair()
            self._sign(")")
        return lambda s: next_experiment(self._posterior, about, s.design, modules=s.modules, seed=s.seed)

    def _argument(self, read: Callable[[], str]) -> str:
        self._sign("(")
        value = read()
        self._sign(")")
        return value

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, kinds: str, wanted: str) -> Token:
        token = self._next
        if token.kind not in kinds.split("|"):
            self._refuse(token, f"{self._shown(token)} stands where {wanted} is expected", "see `bacadi query --help`")
        self._at += 1
        return token

    def _sign(self, *signs: str) -> str:
        token = self._next
        if token.kind != "sign" or token.text not in signs:
            wanted = " or ".join(quoted(sign) for sign in signs)
            self._refuse(token, f"{self._shown(token)} stands where {wanted} is expected", "see `bacadi query --help`")
        self._at += 1
        return token.text

    def _number(self) -> float:
        token = self._take("word", "a number")
        try:
            return float(token.text)
        except ValueError:
            self._refuse(token, f"{quoted(token.text)} is no number", "write one such as 0, 1.5 or -2e3")

    def _variable(self) -> str:
        return self._name("variable", self._posterior.variables)

    def _context_name(self) -> str:
        control = self._posterior.observational
        return self._name("context", (*self._posterior.contexts, *([control] if control is not None else [])))

    def _name(self, noun: str, names: Sequence[str]) -> str:
        token = self._take("word|quoted", f"a {noun}")
        if token.text not in names:
            near = closest(token.text, names)
            self._refuse(token, f"There is no {noun} {quoted(token.text)}{near}", "put odd names in quotes")
        return token.text

    def _shown(self, token: Token) -> str:
        return token.text[:1].upper() + token.text[1:] if token.kind == "end" else quoted(token.text)

    def _refuse(self, token: Token, what: str, remedy: str) -> NoReturn:
        raise ConfigError(f"{what} at position {token.position} of the query; {remedy}.")


READERS: dict[str, Callable[[_Parser], Question]] = {
    "effect": _Parser.read_effect,
    "effects": _Parser.read_effects,
    "do": _Parser.read_do,
    "ancestors": _Parser.read_ancestors,
    "descendants": _Parser.read_descendants,
    "context": _Parser.read_context,
    "changed": _Parser.read_changed,
    "next": _Parser.read_next,
}
"""The questions by their first word."""
