"""Fields that people are not to see, by their places in a value: `card.number`, `items.*.secret`.

A place is the keys on the way to it. Elements of lists are looked through, so that `cards.number` is the number of each
card; `*` is any key, or any element. A key that has a dot is given in a tuple: `("card", "a.b")`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stanchion.errors import InvalidInput

Place = tuple[str, ...]

ANY: Final = "*"

MASK: Final = "•••"
"""Stands for a hidden value in a text."""

SHORTEST: Final = 3
"""Minimum length of a value searched for in messages: shorter ones occur by chance."""

DEEPEST: Final = 200
"""Levels beyond which everything is hidden."""


class Hidden(NamedTuple):
    """Hidden arguments of a task. `parameters`: filled by its positional arguments, as calls are stored by position."""

    places: tuple[Place, ...]
    parameters: tuple[str, ...] = ()

    def in_call(self, payload: object, mark: object = MASK) -> object:
        """Return the payload of a call, or any other value, with a mark in place of hidden parts."""
        if not isinstance(payload, dict) or not isinstance(args := payload.get("args"), list):
            return self.in_value(payload, mark)
        rest = {name: self.in_value(value, mark) for name, value in payload.items() if name != "args"}
        return {"args": [_covered(one, self._of_argument(place), mark) for place, one in enumerate(args)], **rest}

    def in_value(self, value: object, mark: object = MASK) -> object:
        """Return a value, such as a result, with a mark in place of hidden parts."""
        return _covered(value, self.places, mark)

    def masking(self, payload: object) -> Callable[[str], str]:
        """Return what puts a mask in place of the hidden values of a payload in a text, such as a traceback."""
        values = sorted(set(self._texts_in(payload)), key=len, reverse=True)

        def masked(text: str) -> str:
            for one in values:
                text = text.replace(one, MASK)
            return text

        return masked

    def _of_argument(self, place: int) -> list[Place]:
        """Return the places within a positional argument."""
        names = (self.parameters[place], ANY) if place < len(self.parameters) else (ANY,)
        return [one[1:] for one in self.places if one[0] in names]

    def _texts_in(self, payload: object) -> Iterator[str]:
        """Yield the forms in which the hidden values of a payload occur in texts."""
        if isinstance(payload, dict) and isinstance(args := payload.get("args"), list):
            for place, one in enumerate(args):
                yield from _texts(_found(one, self._of_argument(place)))
            for name, value in payload.items():
                if name != "args":
                    yield from _texts(_found(value, self.places))
        else:
            yield from _texts(_found(payload, self.places))


def place_of(given: object) -> Place:
    """Return a place as a task gives it. Raises InvalidInput."""
    keys = given.split(".") if isinstance(given, str) else given
    if isinstance(keys, Sequence) and keys and all(isinstance(key, str) and key for key in keys):
        return tuple(keys)
    raise InvalidInput(
        f"hide takes places such as 'card.number', or tuples of keys such as ('card', 'a.b'), not {given!r}"
    )


def _covered(value: object, places: Sequence[Place], mark: object, depth: int = 0) -> object:
    if not places or value is None:
        return value
    if () in places or depth > DEEPEST:
        return mark
    if isinstance(value, list):
        return [_covered(one, _of_elements(places), mark, depth + 1) for one in value]
    if isinstance(value, dict):
        return {key: _covered(one, _behind(places, str(key)), mark, depth + 1) for key, one in value.items()}
    return value


def _found(value: object, places: Sequence[Place], depth: int = 0) -> Iterator[object]:
    """Yield the scalars at and below these places."""
    if not places or depth > DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from _found(one, _of_elements(places), depth + 1)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _found(one, [()] if () in places else _behind(places, str(key)), depth + 1)
    elif () in places:
        yield value


def _of_elements(places: Iterable[Place]) -> list[Place]:
    return [one for place in places for one in ([place, place[1:]] if place[:1] == (ANY,) else [place])]


def _behind(places: Iterable[Place], key: str) -> list[Place]:
    return [place[1:] for place in places if place[0] in (key, ANY)]


def _texts(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if value is None or isinstance(value, bool):
            continue
        text = str(value)
        for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1]):
            if len(form) >= SHORTEST:
                yield form
