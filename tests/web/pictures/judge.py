"""Whether two pictures of a page show the same.

Pictures are compared at half their size. Where the browser that made the reference takes the picture, nearly all pixels
must be the same. Another version may draw the edges of letters in other greys: there, both are reduced to the mean
colours of squares, in which such edges cancel out, while what moves, is missing, or has another colour still shows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from PIL import Image, ImageChops

HALF: Final = 2
COLOURS: Final = 64
"""Colours of a reference."""

SHARE: Final = 0.002
"""The share of pixels, or of squares, that may differ."""

LEVELS: Final = 24
"""Levels of 255 by which two colours of the reference differ at least."""

OTHER: Final = 64
"""Levels by which a colour differs at least that the reference lacks: it has few."""

SQUARE: Final = 4
SQUARE_LEVELS: Final = 24
"""The side of a square, and by how many levels its mean may differ."""

TALLER: Final = 0.01
"""The share of its height by which a picture of another browser may be taller or lower."""


class Judgement(NamedTuple):
    """Why a picture is refused, empty if it is not; and the reference, the picture, and where they differ."""

    reason: str
    shown: Image.Image


def reduced(picture: Image.Image) -> Image.Image:
    """Return a picture at the size of references."""
    return picture.convert("RGB").reduce(HALF)


def as_reference(picture: Image.Image) -> Image.Image:
    """Return a picture as it is kept: reduced, and with few colours."""
    return reduced(picture).quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)


def judged(reference: Image.Image, picture: Image.Image, *, same_browser: bool) -> Judgement:
    """Compare a picture with its reference."""
    taken = reduced(picture)
    wide, tall = (max(one, other) for one, other in zip(reference.size, taken.size, strict=True))
    before, after = _on_paper(reference.convert("RGB"), (wide, tall)), _on_paper(taken, (wide, tall))
    where = _pixels(reference, before, after) if same_browser else _squares(before, after)
    share = where.histogram()[255] / (where.width * where.height)
    room = 0 if same_browser else TALLER * tall
    reason = f"{100 * share:.2f} % of it differ" if share > SHARE else ""
    if reference.width != taken.width or abs(reference.height - taken.height) > room:
        sizes = [f"{HALF * one.width} x {HALF * one.height}" for one in (taken, reference)]
        reason = f"it has {sizes[0]} pixels instead of {sizes[1]}"
    return Judgement(reason, _shown(before, after, where))


def _on_paper(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return a picture of this size; what it lacks has a colour that no page has."""
    paper = Image.new("RGB", size, (255, 0, 255))
    paper.paste(picture)
    return paper


def _pixels(reference: Image.Image, before: Image.Image, after: Image.Image) -> Image.Image:
    """Return white where a pixel would have another colour of the reference, or has one that it lacks."""
    few = after.quantize(palette=reference, dither=Image.Dither.NONE).convert("RGB")
    return ImageChops.lighter(_differing(before, few, LEVELS), _differing(before, after, OTHER))


def _squares(before: Image.Image, after: Image.Image) -> Image.Image:
    return _differing(before.reduce(SQUARE), after.reduce(SQUARE), SQUARE_LEVELS)


def _differing(before: Image.Image, after: Image.Image, levels: int) -> Image.Image:
    """Return white where any of the three colours differs by more than some levels."""
    red, green, blue = ImageChops.difference(before, after).split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return most.point([255 if value > levels else 0 for value in range(256)])


def _shown(before: Image.Image, after: Image.Image, where: Image.Image) -> Image.Image:
    """Return the reference, the picture, and the reference faded with what differs in red, side by side."""
    faded = Image.blend(before, Image.new("RGB", before.size, (255, 255, 255)), 0.7)
    faded.paste((220, 0, 0), mask=where.resize(before.size, Image.Resampling.NEAREST))
    shown = Image.new("RGB", (3 * before.width + 32, before.height), (90, 90, 90))
    for place, one in enumerate((before, after, faded)):
        shown.paste(one, (place * (before.width + 16), 0))
    return shown
