"""A mosaic of synthetic images of the sky with Montage, driven by Parsl: 30 tasks, six overlapping images.

    project (x6)     mProject: an image onto the mosaic's grid
    table            mImgtbl: a table of the projected images
    overlaps         mOverlaps: which of them overlap
    difference (x11) mDiff, mFitplane: the plane by which two of them differ
    collect          the planes in one table                                     Python
    model            mBgModel: what to take from each image
    background (x6)  mBackground: take it
    add (x1)         mAdd: the mosaic
    view (x1)        mViewer: as PNG
    measure          the mosaic's sky, as JSON                                   Python

    python workflow.py FOLDER [--executor htex|threads] [--workers N]

The programs come from Debian's `montage`; the images are made with astropy. Every image has a background of its own,
15 units above the one before, which the mosaic must not have. README.md beside this file says what must come out.
"""

import sys
from pathlib import Path

from parsl.app.app import bash_app, python_app
from parsl.data_provider.files import File

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import local

ROWS, COLUMNS = 2, 3
STEP_X, STEP_Y, SIDE = 45, 50, 60
WIDTH, HEIGHT = STEP_X * (COLUMNS - 1) + SIDE, STEP_Y * (ROWS - 1) + SIDE
NAMES = [f"image_{row}{column}.fits" for row in range(ROWS) for column in range(COLUMNS)]
PACKAGES = dict.fromkeys(("mProject", "mImgtbl", "mOverlaps", "mDiff", "mFitplane", "mBgModel"), "montage")


@bash_app
def project(inputs=(), outputs=()):
    """mProject also writes the images' areas; they are declared like the images."""
    image, header = inputs
    return f"mProject '{image}' '{outputs[0]}' '{header}'"


@bash_app
def table(folder, inputs=(), outputs=()):
    """Run in the folder above: the table has the names given to mImgtbl, and later programs need bare names."""
    above, name = folder.rsplit("/", 1)
    return f"cd '{above}' && mImgtbl '{name}' '{outputs[0]}'"


@bash_app
def overlaps(inputs=(), outputs=()):
    return f"mOverlaps '{inputs[0]}' '{outputs[0]}'"


@bash_app
def difference(inputs=(), outputs=()):
    """Waits for the table of overlaps, which the program that makes the tasks has read, and has no need to read it."""
    plus, minus, header, _overlaps = inputs
    image, plane = outputs
    return f"mDiff '{plus}' '{minus}' '{image}' '{header}' && mFitplane '{image}' > '{plane}'"


@python_app
def collect(pairs, columns, inputs=(), outputs=()):
    """Montage's table of the planes; `pairs` are the numbers of the two images that each is of."""
    import re
    from pathlib import Path

    rows = [["plus", "minus", *columns]]
    for pair, plane in zip(pairs, inputs, strict=True):
        values = dict(re.findall(r"(\w+)=([-+.\de]+)", Path(plane).read_text()))
        rows.append([*pair, *(values[name] for name in columns)])
    head, *body = ([cell.rjust(16) for cell in row] for row in rows)
    lines = ["|" + "|".join(head) + "|", *(" " + " ".join(row) + " " for row in body)]
    Path(outputs[0]).write_text("".join(f"{line}\n" for line in lines))


@bash_app
def model(inputs=(), outputs=()):
    images, planes = inputs
    return f"mBgModel '{images}' '{planes}' '{outputs[0]}'"


@bash_app
def background(images, inputs=(), outputs=()):
    """`images`, the table, is a str: what it names is no dependency for Parsl."""
    image, _area, corrections = inputs
    folder, name = str(image).rsplit("/", 1)
    return f"cd '{folder}' && mBackground -t '{name}' '{outputs[0]}' '{images}' '{corrections}'"


@bash_app
def add(folder, inputs=(), outputs=()):
    images, header = inputs[:2]
    return f"mAdd -p '{folder}' '{images}' '{header}' '{outputs[0]}'"


@bash_app
def view(inputs=(), outputs=()):
    return f"mViewer -ct 1 -gray '{inputs[0]}' min max linear -out '{outputs[0]}'"


@python_app
def measure(after, inputs=(), outputs=()):
    """Waits for the picture, of which it needs nothing. Returns the sky: the median of the mosaic's thirds."""
    import json
    from pathlib import Path

    import numpy as np
    from astropy.io import fits

    data = fits.getdata(inputs[0], memmap=False)
    found = {"sky": [round(float(np.nanmedian(part)), 1) for part in np.array_split(data, 3, axis=1)]}
    Path(outputs[0]).write_text(json.dumps(found) + "\n")
    return found


PLANE = "a b c crpix1 crpix2 xmin xmax ymin ymax xcenter ycenter npixel rms boxx boxy boxwidth boxheight boxang"


def make_images(folder):
    """Images of one sky in `folder`/raw and the mosaic's header as region.hdr, with folders for what comes out."""
    import numpy as np
    from astropy.io import fits
    from astropy.wcs import WCS

    for name in ("raw", "projected", "corrected", "planes"):
        (folder / name).mkdir(exist_ok=True)

    def header(x, y):
        wcs = WCS(naxis=2)
        wcs.wcs.ctype, wcs.wcs.cunit = ["RA---TAN", "DEC--TAN"], ["deg", "deg"]
        wcs.wcs.crval, wcs.wcs.crpix, wcs.wcs.cdelt = [120, 30], [x, y], [-1 / 360, 1 / 360]
        return wcs.to_header()

    chance = np.random.default_rng(3)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    stars = chance.uniform((0, 0, 50, 1.5), (WIDTH, HEIGHT, 500, 3), (30, 4))
    sky = sum(flux * np.exp(-((x - at_x) ** 2 + (y - at_y) ** 2) / 2 / width**2) for at_x, at_y, flux, width in stars)
    for number, name in enumerate(NAMES):
        row, column = divmod(number, COLUMNS)
        top, left = row * STEP_Y, column * STEP_X
        part = sky[top : top + SIDE, left : left + SIDE]
        noisy = part + 100 + 15 * number + chance.normal(0, 1, part.shape)
        # A fraction of a pixel off the mosaic's grid: mProject takes pixels that lie on each other for degenerate.
        place = header(WIDTH / 2 + 0.37 - left, HEIGHT / 2 + 0.21 - top)
        fits.PrimaryHDU(noisy.astype("f4"), place).writeto(folder / "raw" / name, overwrite=True)
    region = fits.Header([("SIMPLE", True), ("BITPIX", -64), ("NAXIS", 2), ("NAXIS1", WIDTH), ("NAXIS2", HEIGHT)])
    whole = header(WIDTH / 2, HEIGHT / 2)
    for key in ("CTYPE", "CRVAL", "CRPIX", "CDELT"):
        for axis in ("1", "2"):
            region[key + axis] = whole[key + axis]
    region["EQUINOX"] = 2000.0
    path = folder / "region.hdr"
    path.write_text("".join(f"{str(card).rstrip()}\n" for card in region.cards) + "END\n")
    return path


def read_overlaps(path):
    """The rows of mOverlaps' table: (number, number, image, image)."""
    rows = [line.split() for line in Path(path).read_text().splitlines() if not line.startswith("|")]
    return [tuple(row[:4]) for row in rows]


def run_workflow(folder, header):
    """Runs the workflow with its files in `folder`. Returns what was measured, as a dict."""

    def file(name):
        return File(str(folder / name))

    def area(name):
        return name.replace(".fits", "_area.fits")

    region = File(str(header))
    projected = {
        name: project(
            inputs=[file(f"raw/{name}"), region], outputs=[file(f"projected/{part}") for part in (name, area(name))]
        ).outputs
        for name in NAMES
    }
    every = [image for images in projected.values() for image in images]
    images = table(str(folder / "projected"), inputs=every, outputs=[file("images.tbl")]).outputs[0]
    overlapping = overlaps(inputs=[images], outputs=[file("overlaps.tbl")]).outputs[0]
    pairs = read_overlaps(overlapping.result().filepath)
    planes = []
    for plus, minus, one, other in pairs:
        outputs = [file(f"planes/{plus}-{minus}.fits"), file(f"planes/{plus}-{minus}.txt")]
        inputs = [projected[one][0], projected[other][0], region, overlapping]
        planes.append(difference(inputs=inputs, outputs=outputs).outputs[1])
    numbers = [pair[:2] for pair in pairs]
    collected = collect(numbers, PLANE.split(), inputs=planes, outputs=[file("planes.tbl")]).outputs[0]
    corrections = model(inputs=[images, collected], outputs=[file("corrections.tbl")]).outputs[0]
    corrected = []
    for name in NAMES:
        outputs = [file(f"corrected/{part}") for part in (name, area(name))]
        inputs = [*projected[name], corrections]
        corrected += background(str(folder / "images.tbl"), inputs=inputs, outputs=outputs).outputs
    mosaic = add(str(folder / "corrected"), inputs=[images, region, *corrected], outputs=[file("mosaic.fits")]).outputs[
        0
    ]
    picture = view(inputs=[mosaic], outputs=[file("mosaic.png")])
    return measure(picture, inputs=[mosaic], outputs=[file("sky.json")]).result()


if __name__ == "__main__":
    local.main(__doc__, "montage", PACKAGES, make_images, run_workflow)
