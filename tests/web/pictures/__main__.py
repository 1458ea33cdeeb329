"""Take the pictures, and say which are not like their references: `python -m tests.web.pictures [--keep] [WORD]`.

WORD: only those with it in their names. `--keep` makes them the references, and the first page the picture of the
README.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from tests.web.pictures import camera as cameras
from tests.web.pictures.judge import judged

README = Path(__file__).parents[3] / "docs" / "web.png"
README_HEIGHT = 1240


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("word", nargs="?", default="")
    given = parser.parse_args()
    names = set()
    with cameras.camera() as camera:
        for name, picture in cameras.shots(camera, given.word):
            names.add(name)
            before = cameras.reference(name)
            said = "it is new" if before is None else judged(before, picture, same_browser=True).reason
            if said:
                print(f"{name}: {said}", flush=True)
            if given.keep and (said or given.word):  # a changed word is less than the tolerance
                cameras.keep(name, picture)
            if given.keep and name == "overview-1280-light":
                few = picture.crop((0, 0, 1280, README_HEIGHT)).quantize(128, kmeans=1, dither=Image.Dither.NONE)
                few.save(README, optimize=True)
        if given.keep and not given.word:
            cameras.sign(camera.version)
            cameras.forget(cameras.names() - names)


if __name__ == "__main__":
    main()
