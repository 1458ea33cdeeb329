"""The camera: a browser that shows the same on each machine, and the references.

Only the fonts Liberation are there, without hinting, and no script runs, as it would say how it got its news.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from PIL import Image
from playwright.sync_api import Browser

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.ops.reads.filters import SPANS
from stanchion.ops.web.live.reports import Key
from stanchion.ops.web.pages.report import USUAL as USUAL_SPAN
from stanchion.ops.web.site import Site
from stanchion.stores.memory.store import MemoryStore
from tests.servers.process import ServerMissing
from tests.web import serve
from tests.web.conftest import site_of
from tests.web.pictures.judge import as_reference
from tests.web.pictures.scenes import ALL, ALL_LOOKS, EMPTY, LOCKED, SILENT, USUAL, Look, scenes
from tests.web.pictures.shop import night
from tests.web.pictures.still import standing_still

REFERENCES: Final = Path(__file__).parent / "references"
REFUSED: Final = Path(__file__).parents[3] / "build" / "pictures"
"""Where the test puts the pictures that are not like their references; git ignores it."""

MADE_BY: Final = REFERENCES / "made-by.json"

FONTS: Final = (Path("/usr/share/fonts/truetype/liberation"), Path("/usr/share/fonts/truetype/liberation2"))
FLAGS: Final = (
    *("--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb", "--hide-scrollbars"),
    *("--disable-gpu", "--disable-font-subpixel-positioning"),
)
PATIENCE: Final = 120_000
"""Milliseconds after which a page counts as missing."""

TALLEST: Final = {1280: 1240, 390: 1800}
"""Pixels of a picture from above, by the width of the window: the rest of long pages repeats."""


class Camera:
    """Takes pictures of served pages."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.version = browser.version.split(".")[0]

    def taken(self, url: str, look: Look) -> Image.Image:
        """Take a picture of a page, from its top."""
        size: Any = {"width": look.width, "height": 900 if look.width > 720 else 844}
        scheme: Any = look.scheme
        context = self._browser.new_context(
            viewport=size, color_scheme=scheme, java_script_enabled=False, reduced_motion="reduce"
        )
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        answer = page.goto(url)
        assert answer is not None
        assert answer.status in (200, 404, 503), url
        picture = Image.open(BytesIO(page.screenshot(full_page=True, animations="disabled")))
        context.close()
        return picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, TALLEST[look.width])))


@contextmanager
def camera() -> Iterator[Camera]:
    """Start a browser with the fonts of the references. Raises ServerMissing."""
    folder = next((one for one in FONTS if one.is_dir()), None)
    if folder is None:
        raise ServerMissing("the fonts Liberation are not installed (Debian: apt-get install fonts-liberation)")
    with TemporaryDirectory() as place:
        rules = Path(place) / "fonts.conf"
        rules.write_text(f"<fontconfig><dir>{folder}</dir><cachedir>{place}/cache</cachedir></fontconfig>\n")
        with serve.chromium(*FLAGS, env={"FONTCONFIG_FILE": str(rules), "HOME": place}) as browser:
            yield Camera(browser)


def shots(camera: Camera, wanted: str = "") -> Iterator[tuple[str, Image.Image]]:
    """Take all pictures with a word in their names; each with its name."""
    with night() as site, serve.served(site) as url:
        _count(site)
        yield from _of(camera, url, scenes(site.app), wanted)
    with standing_still() as time:
        for pages, tokens in ((EMPTY, False), (LOCKED, True)):
            site = site_of(Stanchion(store=MemoryStore(time)), tokens=tokens)
            with serve.served(site) as url:
                _count(site)
                yield from _of(camera, url, pages, wanted)
        store = MemoryStore(time)
        site = site_of(Stanchion(store=store))
        with serve.served(site) as url, patch.object(store, "now", _silent):
            yield from _of(camera, url, SILENT, wanted)


def _count(site: Site) -> None:
    """Have the report counted, which would else say that it is being counted, and the alerts read for each page."""
    site.sampler.latest()
    site.reports.ask(Key(SPANS[USUAL_SPAN]), site.store.now())
    site.reports.join()


def _silent() -> int:
    raise StoreUnavailable("no answer from postgresql://db-1/shop in 5 s")


def _of(camera: Camera, url: str, pages: dict[str, str], wanted: str) -> Iterator[tuple[str, Image.Image]]:
    for name, path in pages.items():
        for look in ALL if name in ALL_LOOKS else USUAL:
            if wanted in (full := f"{name}-{look}"):
                yield full, camera.taken(url + path, look)


def reference(name: str) -> Image.Image | None:
    """Return a reference; None if there is none of this name."""
    file = REFERENCES / f"{name}.png"
    return Image.open(file) if file.exists() else None


def keep(name: str, picture: Image.Image) -> None:
    """Make a picture the reference."""
    REFERENCES.mkdir(exist_ok=True)
    as_reference(picture).save(REFERENCES / f"{name}.png", optimize=True)


def made_by() -> str:
    """Return the version of the browser that made the references."""
    return str(json.loads(MADE_BY.read_text())["chromium"])


def sign(version: str) -> None:
    """Write down which browser made the references."""
    MADE_BY.write_text(json.dumps({"chromium": version}) + "\n")


def refusals() -> Path:
    """Return the folder for pictures that are refused, without those of an earlier run."""
    shutil.rmtree(REFUSED, ignore_errors=True)
    REFUSED.mkdir(parents=True)
    return REFUSED


def names() -> set[str]:
    """Return the names of all references."""
    return {file.stem for file in REFERENCES.glob("*.png")}


def forget(gone: set[str]) -> None:
    """Remove references."""
    for name in gone:
        (REFERENCES / f"{name}.png").unlink()
