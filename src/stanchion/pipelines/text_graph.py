"""Stations and their links as text.

raw ───► clean ─┬─► short
                └─► long ───► daily

↺ name   back to a station on the way here
name ↑   a station that is drawn further up, with all that follows it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stanchion.pipelines.pipeline import Pipeline


def drawn(pipeline: Pipeline) -> str:
    """Return all stations of a pipeline whose links are checked, those where items come in at the left."""
    drawing = _Drawing(pipeline)
    return "\n".join(line for entry in pipeline.entries for line in drawing.block(entry, ()))


class _Drawing:
    def __init__(self, pipeline: Pipeline) -> None:
        self._stations = pipeline.stations
        self._seen: set[str] = set()

    def block(self, name: str, way: tuple[str, ...]) -> list[str]:
        """Return the lines of a station and what follows it; `way`: the stations that lead here."""
        if name in way:
            return [f"↺ {name}"]
        if name in self._seen:
            return [f"{name} ↑"]
        self._seen.add(name)
        station = self._stations[name]
        label = f"{name} (spark)" if station.frame else name
        blocks = [self.block(target, (*way, name)) for target in station.to]
        if not blocks:
            return [label]
        margin = " " * (len(label) + 2)
        lines: list[str] = []
        for number, block in enumerate(blocks):
            last = number == len(blocks) - 1
            fork = f"{margin}{'└' if last else '├'}─► " if number else f"{label} ─{'─' if last else '┬'}─► "
            rest = f"{margin}{' ' if last else '│'}   "
            lines += [fork + block[0], *(rest + line for line in block[1:])]
        return lines
