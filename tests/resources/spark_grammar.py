"""Sentences of Spark's own grammar: for each way through each of its rules the shortest statement that goes there.

The grammar is that of the Spark that is installed: its parser carries it as a network of states (an ATN of ANTLR 4), of which
this module reads the serialized form, as ANTLR's ATNDeserializer does.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

ROOT = "singleStatement"
# What a token without one spelling is written as.
_SPELLINGS = {
    "IDENTIFIER": "a",
    "BACKQUOTED_IDENTIFIER": "`a`",
    "STRING_LITERAL": "'x'",
    "DOUBLEQUOTED_STRING": '"x"',
    "INTEGER_VALUE": "1",
    "BIGINT_LITERAL": "1L",
    "SMALLINT_LITERAL": "1S",
    "TINYINT_LITERAL": "1Y",
    "EXPONENT_VALUE": "1e1",
    "DECIMAL_VALUE": "1.5",
    "FLOAT_LITERAL": "1.5F",
    "DOUBLE_LITERAL": "1.5D",
    "BIGDECIMAL_LITERAL": "1.5BD",
}
_NO_TOKENS = ("SIMPLE_COMMENT", "BRACKETED_COMMENT", "WS", "UNRECOGNIZED")
_CHEAP = ("a", "'x'", "1")
# Of so many tokens in one place, as the words that may be names, one is taken.
_MANY = 40
# Kinds of states and of edges.
_RULE_STOP, _LOOP_END, _BLOCK_STARTS = 7, 12, (3, 4, 5)
_RANGE, _RULE, _ATOM, _SET, _NOT_SET, _ANY = 2, 3, 5, 7, 8, 9

Words = tuple[int, ...]
Costs = dict[int, tuple[int, Words]]


@dataclass(frozen=True)
class Step:
    """An edge from a state to `target`: over one of `tokens`, through all of a `rule`, or over nothing."""

    target: int
    tokens: Words = ()
    rule: int | None = None


@dataclass
class Grammar:
    """States, each with its rule and its steps, and what tokens are written as."""

    names: list[str]
    spellings: dict[int, str]
    rule_of: list[int]
    starts: list[int]
    stops: dict[int, int]
    steps: list[list[Step]]
    _shortest: dict[int, tuple[int, Words]] = field(default_factory=dict)

    def sentences(self) -> Iterator[str]:
        """One statement for each step of each rule that a statement can come to, each once."""
        said = set()
        for state, rule in enumerate(self.rule_of):
            if rule not in self._contexts or state == self.stops[rule]:
                continue
            for step in self.steps[state]:
                for words in self._ways_over(step):
                    text = self._around(state, words, step.target)
                    if text and text not in said:
                        said.add(text)
                        yield text

    def _ways_over(self, step: Step) -> list[Words]:
        if step.rule is not None:
            return [self._shortest[step.rule][1]] if step.rule in self._shortest else []
        choice = [token for token in step.tokens if self._cost(token) is not None]
        return [(token,) for token in choice if len(choice) < _MANY or token == min(choice, key=self._rank)]

    def _around(self, state: int, words: Words, target: int) -> str:
        rule = self.rule_of[state]
        before, after = self._from_start(rule).get(state), self._to_stop(rule).get(target)
        if before is None or after is None:
            return ""
        prefix, suffix = self._contexts[rule][1:]
        whole = (*prefix, *before[1], *words, *after[1], *suffix)
        return " ".join(self.spellings[token] for token in whole if self.spellings.get(token))

    def _cost(self, token: int) -> int | None:
        text = self.spellings.get(token)
        if text is None:
            return None
        if text in _CHEAP:
            return 1
        return 0 if not text else 3 if text.isalpha() else 2

    def _rank(self, token: int) -> tuple[int, int]:
        return self._cost(token) or 0, token

    def _over(self, step: Step) -> tuple[int, Words] | None:
        """The cheapest words over a step."""
        if step.rule is not None:
            return self._shortest.get(step.rule)
        choice = [token for token in step.tokens if self._cost(token) is not None]
        if not step.tokens:
            return 0, ()
        best = min(choice, key=self._rank, default=None)
        return None if best is None else (self._rank(best)[0], (best,))

    def _from_start(self, rule: int) -> Costs:
        if rule not in self._before:
            self._before[rule] = self._search(self.starts[rule], self._forwards, rule)
        return self._before[rule]

    def _to_stop(self, rule: int) -> Costs:
        if rule not in self._after:
            self._after[rule] = self._search(self.stops[rule], self._backwards, rule)
        return self._after[rule]

    def _search(self, origin: int, edges: Any, rule: int) -> Costs:
        """The cheapest way between a state and each other one of its rule."""
        known: Costs = {origin: (0, ())}
        queue = [(0, origin)]
        while queue:
            cost, state = heapq.heappop(queue)
            if cost > known[state][0]:
                continue
            for other, step, is_ahead in edges(state, rule):
                over = self._over(step)
                if over is None:
                    continue
                total = cost + over[0]
                if other not in known or total < known[other][0]:
                    way = known[state][1]
                    known[other] = total, (*way, *over[1]) if is_ahead else (*over[1], *way)
                    heapq.heappush(queue, (total, other))
        return known

    def _forwards(self, state: int, rule: int) -> Iterator[tuple[int, Step, bool]]:
        if state != self.stops[rule]:
            yield from ((step.target, step, True) for step in self.steps[state])

    def _backwards(self, state: int, rule: int) -> Iterator[tuple[int, Step, bool]]:
        yield from (
            (other, step, False) for other, step in self._reached_by.get(state, ()) if self.rule_of[other] == rule
        )

    @cached_property
    def _reached_by(self) -> dict[int, list[tuple[int, Step]]]:
        reached: dict[int, list[tuple[int, Step]]] = {}
        for state, steps in enumerate(self.steps):
            for step in steps:
                reached.setdefault(step.target, []).append((state, step))
        return reached

    @cached_property
    def _before(self) -> dict[int, Costs]:
        return {}

    @cached_property
    def _after(self) -> dict[int, Costs]:
        return {}

    def learn(self) -> None:
        """Find the cheapest words of each rule, until none gets cheaper."""
        changed = True
        while changed:
            changed = False
            for rule, start in enumerate(self.starts):
                whole = self._search(start, self._forwards, rule).get(self.stops[rule])
                if whole is not None and (rule not in self._shortest or whole[0] < self._shortest[rule][0]):
                    self._shortest[rule] = whole
                    changed = True

    @cached_property
    def _contexts(self) -> dict[int, tuple[int, Words, Words]]:
        """For each rule the cheapest words before it and behind it in a statement."""
        root = self.names.index(ROOT)
        known: dict[int, tuple[int, Words, Words]] = {root: (0, (), ())}
        queue = [(0, root)]
        states: dict[int, list[int]] = {}
        for state, rule in enumerate(self.rule_of):
            states.setdefault(rule, []).append(state)
        while queue:
            cost, rule = heapq.heappop(queue)
            if cost > known[rule][0]:
                continue
            before, after = self._from_start(rule), self._to_stop(rule)
            for state in states[rule]:
                for step in self.steps[state]:
                    if step.rule is None or state not in before or step.target not in after:
                        continue
                    total = cost + before[state][0] + after[step.target][0]
                    if step.rule not in known or total < known[step.rule][0]:
                        prefix = (*known[rule][1], *before[state][1])
                        known[step.rule] = total, prefix, (*after[step.target][1], *known[rule][2])
                        heapq.heappush(queue, (total, step.rule))
        return known


def spark_grammar(jvm: Any) -> Grammar:
    """The grammar of the Spark in a JVM that Py4J speaks to."""
    parser = jvm.org.apache.spark.sql.catalyst.parser.SqlBaseParser
    numbers = iter(_numbers(parser._serializedATN))
    version, _, most = (next(numbers) for _ in range(3))
    assert version == 4, version
    rule_of: list[int] = []
    stops: dict[int, int] = {}
    for state in range(next(numbers)):
        kind = next(numbers)
        rule_of.append(next(numbers) if kind else -1)
        if kind == _LOOP_END or kind in _BLOCK_STARTS:
            next(numbers)
        if kind == _RULE_STOP:
            stops[rule_of[-1]] = state
    for _ in range(2):
        _take(numbers, next(numbers))
    starts = _take(numbers, next(numbers))
    _take(numbers, next(numbers))
    sets = [_set(numbers) for _ in range(next(numbers))]
    steps: list[list[Step]] = [[] for _ in rule_of]
    for _ in range(next(numbers)):
        source, target, kind, first, second, third = _take(numbers, 6)
        steps[source].append(_step(kind, target, first, second, third, sets))
    vocabulary = parser.VOCABULARY
    spellings = {token: _spelling(vocabulary, token) for token in range(1, most + 1)}
    written = {token: text for token, text in spellings.items() if text is not None}
    grammar = Grammar(list(parser.ruleNames), {-1: "", **written}, rule_of, starts, stops, steps)
    grammar.learn()
    return grammar


def _numbers(serialized: str) -> list[int]:
    """32-bit numbers from one or two words of 16 bits."""
    raw = serialized.encode("utf-16-le", "surrogatepass")
    words = [int.from_bytes(raw[at : at + 2], "little") for at in range(0, len(raw), 2)]
    numbers, place = [], 0
    while place < len(words):
        word = words[place]
        if word & 0x8000:
            low = words[place + 1]
            numbers.append(-1 if word == low == 0xFFFF else (word & 0x7FFF) << 16 | low)
            place += 2
        else:
            numbers.append(word)
            place += 1
    return numbers


def _take(numbers: Iterator[int], count: int) -> list[int]:
    return [next(numbers) for _ in range(count)]


def _set(numbers: Iterator[int]) -> Words:
    intervals, has_end = next(numbers), next(numbers)
    tokens: list[int] = [-1] if has_end else []
    for _ in range(intervals):
        first, last = next(numbers), next(numbers)
        tokens += range(first, last + 1)
    return tuple(tokens)


def _step(kind: int, target: int, first: int, second: int, third: int, sets: list[Words]) -> Step:
    if kind == _RULE:
        return Step(target, rule=second)
    if kind == _ATOM:
        return Step(target, (-1 if third else first,))
    if kind == _RANGE:
        return Step(target, tuple(range(first, second + 1)))
    if kind == _SET:
        return Step(target, sets[first])
    if kind in (_NOT_SET, _ANY):
        # Of any tokens none is taken.
        return Step(target, (0,))
    return Step(target)


def _spelling(vocabulary: Any, token: int) -> str | None:
    name, literal = vocabulary.getSymbolicName(token), vocabulary.getLiteralName(token)
    if name in _SPELLINGS:
        return _SPELLINGS[name]
    return literal[1:-1] if literal else None if name in _NO_TOKENS else name
