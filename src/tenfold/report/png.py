"""The charts of a report as one picture, drawn by resvg: in the light colours, with a font that is there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from tenfold.errors import BadCall
from tenfold.machine.installed import imported
from tenfold.report import style, svg
from tenfold.report.parts import Chart, Report
from tenfold.report.svg import element

WIDTH, MARGIN, HEADING = 720.0, 24.0, 30.0
ZOOM = 2.0  # for screens with small pixels

FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts", "/System/Library/Fonts")
FONTS = {
    "DejaVuSans.ttf": "DejaVu Sans",
    "NotoSans-Regular.ttf": "Noto Sans",
    "LiberationSans-Regular.ttf": "Liberation Sans",
    "Arial.ttf": "Arial",
    "Helvetica.ttc": "Helvetica",
    "Roboto-Regular.ttf": "Roboto",
    "Ubuntu-R.ttf": "Ubuntu",
    "FreeSans.ttf": "FreeSans",
}
"""File -> family: with one file that is known, the picture is the same wherever it is drawn."""


def png(report: Report) -> bytes:
    """The picture."""
    if not report.charts:
        raise BadCall(f"png: {report.title!r} has no chart to draw; take html, md or json")
    resvg = imported("resvg_py", "resvg_py, which draws pictures,", "report")
    file, family = font()
    drawn: bytes = resvg.svg_to_bytes(
        svg_string=stacked(report),
        style_sheet=style.fixed(style.charts()),
        background=style.LIGHT["paper"],
        zoom=ZOOM,
        skip_system_fonts=True,
        font_files=[str(file)],
        font_family=family,
        sans_serif_family=family,
    )
    return bytes(drawn)


def stacked(report: Report) -> str:
    """All charts in one SVG document, below the title."""
    title = svg.escaped(svg.cut(report.title, WIDTH * 12 / 18))
    parts = [element("text", title, x=MARGIN, y=38.0, style="font-size:18px")]
    y = 60.0
    for chart in report.charts:
        drawn, height = _placed(chart, y + HEADING)
        parts += [element("text", svg.escaped(chart.title), x=MARGIN, y=y + 18, style="font-size:14px"), drawn]
        y += HEADING + height + MARGIN
    whole = WIDTH + 2 * MARGIN
    size = {"width": whole, "height": y, "viewBox": f"0 0 {whole:g} {y:g}"}
    return element("svg", "".join(parts), xmlns="http://www.w3.org/2000/svg", **size)


def _placed(chart: Chart, y: float) -> tuple[str, float]:
    drawn = chart.draw(WIDTH)
    found = re.match(r'<svg viewBox="0 0 [\d.]+ ([\d.]+)"', drawn)
    assert found is not None
    height = float(found[1])
    place = f'<svg x="{MARGIN:g}" y="{y:g}" width="{WIDTH:g}" height="{height:g}" '
    return drawn.replace("<svg ", place, 1), height


def font() -> tuple[Path, str]:
    """One of the system's, else the one that matplotlib brings."""
    for folder in FOLDERS:
        there = {path.name: path for path in Path(folder).expanduser().rglob("*.tt[fc]")}
        for name, family in FONTS.items():
            if name in there:
                return there[name], family
    try:
        found = importlib.util.find_spec("matplotlib")
    except ValueError:  # it was put out of the way
        found = None
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        path = Path(place) / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
        if path.is_file():
            return path, "DejaVu Sans"
    raise BadCall(
        f"png: no font was found to write with. Looked for {', '.join(FONTS)} in {', '.join(FOLDERS)}, and for the one "
        "that matplotlib brings; install matplotlib or a package such as fonts-dejavu-core, or take html, md or json"
    )
