"""The pages look as in the pictures that people have looked at; and what the comparison finds, and lets pass."""

from __future__ import annotations

import pytest
from PIL import Image, ImageDraw

from tests.web.pictures import camera as cameras
from tests.web.pictures.judge import as_reference, judged

HOW = "look at them; if they are as they should be: make pictures"


@pytest.mark.nightly
def test_the_pages_look_as_in_their_references() -> None:
    refused, taken, folder = [], set(), cameras.refusals()
    with cameras.camera() as camera:
        same = camera.version == cameras.made_by()
        for name, picture in cameras.shots(camera):
            taken.add(name)
            before = cameras.reference(name)
            if before is None:
                refused.append(f"{name}: it has no reference")
                picture.save(folder / f"{name}.png")
            elif reason := (judgement := judged(before, picture, same_browser=same)).reason:
                refused.append(f"{name}: {reason}")
                judgement.shown.save(folder / f"{name}.png")
    assert refused == [], "\n".join([*refused, f"pictures in {folder}: {HOW}"])
    assert cameras.names() == taken, "some references are of no picture any more: make pictures"


def page() -> Image.Image:
    """Return something like a page: text, a table, a mark."""
    picture = Image.new("RGB", (640, 480), (245, 245, 242))
    draw = ImageDraw.Draw(picture)
    for row in range(20):
        draw.text((20, 20 + 20 * row), f"payments falls behind: 15 of 24 jobs a second get done {row}", (22, 25, 28))
        draw.line((10, 36 + 20 * row, 630, 36 + 20 * row), (222, 222, 217))
    draw.ellipse((560, 20, 580, 40), (159, 29, 18))
    return picture


@pytest.mark.parametrize("same", [True, False])
class TestThePictures:
    def test_of_the_same_page_are_the_same(self, same: bool) -> None:
        assert judged(as_reference(page()), page(), same_browser=same).reason == ""

    def test_with_a_moved_row_differ(self, same: bool) -> None:
        moved = page()
        moved.paste(page().crop((0, 100, 640, 200)), (0, 106))
        assert "differ" in judged(as_reference(page()), moved, same_browser=same).reason

    def test_with_a_mark_of_another_colour_differ(self, same: bool) -> None:
        other = page()
        ImageDraw.Draw(other).ellipse((556, 16, 590, 50), (10, 111, 88))
        assert "differ" in judged(as_reference(page()), other, same_browser=same).reason

    def test_that_are_taller_differ(self, same: bool) -> None:
        taller = Image.new("RGB", (640, 500), (245, 245, 242))
        taller.paste(page())
        assert "pixels instead of" in judged(as_reference(page()), taller, same_browser=same).reason


def test_another_browser_may_draw_letters_in_other_greys() -> None:
    bolder = page().point([min(255, max(0, value - (value < 200) * 20)) for value in range(256)] * 3)
    assert judged(as_reference(page()), bolder, same_browser=False).reason == ""


def test_the_references_are_small() -> None:
    assert 0 < sum(file.stat().st_size for file in cameras.REFERENCES.glob("*.png")) < 1_400_000
