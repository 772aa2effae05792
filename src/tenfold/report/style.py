"""Colours and style sheets of pages and charts. A chart names colours by class; what they are is decided here."""

from __future__ import annotations

import re

LIGHT = {
    "paper": "#ffffff",
    "card": "#f5f7f9",
    "ink": "#1b2430",
    "muted": "#5d6878",
    "line": "#d9dee5",
    "c1": "#2563a8",
    "c2": "#d97000",
    "c3": "#1f8a63",
    "c4": "#8450b3",
    "c5": "#c0392b",
    "c6": "#77828f",
    "r0": "#dbe9f6",
    "r1": "#bad6eb",
    "r2": "#89bedc",
    "r3": "#539ecd",
    "r4": "#2b7bba",
    "r5": "#0b559f",
    "r6": "#08306b",
    "on0": "#10202f",
    "on1": "#10202f",
    "on2": "#10202f",
    "on3": "#10202f",
    "on4": "#ffffff",
    "on5": "#ffffff",
    "on6": "#ffffff",
}
DARK = {
    "paper": "#12161c",
    "card": "#1b212a",
    "ink": "#e6e9ee",
    "muted": "#9aa5b4",
    "line": "#313a46",
    "c1": "#6aa9ec",
    "c2": "#f5a742",
    "c3": "#5ccb9f",
    "c4": "#bf97e6",
    "c5": "#f0847a",
    "c6": "#8c97a5",
    "r0": "#21354d",
    "r1": "#254a70",
    "r2": "#2a6196",
    "r3": "#3a7fc0",
    "r4": "#62a3de",
    "r5": "#9cc8f0",
    "r6": "#d6e9fb",
    "on0": "#e6e9ee",
    "on1": "#e6e9ee",
    "on2": "#ffffff",
    "on3": "#ffffff",
    "on4": "#0d151e",
    "on5": "#0d151e",
    "on6": "#0d151e",
}
SERIES = ("c1", "c2", "c3", "c4", "c5", "c6")
"""Colours that are told apart, in the order in which they are used."""
RAMP = ("r0", "r1", "r2", "r3", "r4", "r5", "r6")
"""From little to much."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"


def ramp(share: float) -> str:
    """The colour for a share of 0 to 1."""
    return RAMP[min(len(RAMP) - 1, max(0, int(share * len(RAMP))))]


def charts() -> str:
    """The style sheet of charts. Fills are `f-NAME`, strokes `l-NAME`."""
    colours = "".join(f".f-{name}{{fill:var(--{name})}}.l-{name}{{stroke:var(--{name})}}" for name in LIGHT)
    return (
        f"svg text{{font-family:{FONT};font-size:12px;fill:var(--ink)}}"
        "svg .small{font-size:11px;fill:var(--muted)}"
        "svg .grid{stroke:var(--line);stroke-width:1;fill:none}"
        "svg .curve{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
        "svg .thin{stroke-width:1.1;opacity:.75}svg .thick{stroke-width:2.6}"
        "svg .swatch{stroke-width:10}svg .halo{stroke:var(--paper);stroke-width:4;stroke-linejoin:round}"
        "svg .dashed{stroke-dasharray:5 4}svg .band{opacity:.16;stroke:none}"
        f"{colours}"
    )


def fixed(text: str) -> str:
    """The same with the light colours written out, for what knows no variables."""
    return re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], text)


def page() -> str:
    """The style sheet of a page: for a phone and a desk, for day and night."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in colours.items()) for colours in (LIGHT, DARK))
    return (
        f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media print{{:root{{{light}}}}}{_PAGE}{charts()}"
    )


_PAGE = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 FONT}
main{max-width:768px;margin:0 auto;padding:28px 24px 48px}
h1{font-size:1.55rem;line-height:1.25;margin:0 0 .5rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.4rem 0 .6rem;padding-top:1.1rem;border-top:1px solid var(--line)}
p{margin:.4rem 0 .8rem;overflow-wrap:anywhere}
.summary{font-size:1.05rem}
.muted,.words{color:var(--muted);font-size:.88rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin:1.2rem 0 0}
.figures div{background:var(--card);border-radius:8px;padding:10px 12px}
.figures dt{color:var(--muted);font-size:.8rem}
.figures dd{margin:0;font-size:1.15rem;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
figure{margin:1rem 0 1.6rem}
figcaption{font-weight:600;margin-bottom:.3rem;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto;max-width:100%}
svg.narrow{display:none}
.scroll{overflow-x:auto;margin:.6rem 0 1rem}
table{border-collapse:collapse;font-size:.88rem;min-width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 18px 5px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--muted);font-weight:600;white-space:nowrap}
th.right,td.right{text-align:right;white-space:nowrap}
td{overflow-wrap:break-word;max-width:26em}
th:last-child,td:last-child{padding-right:0}
dl.facts{display:grid;grid-template-columns:minmax(6.5em,max-content) 1fr;gap:4px 16px;margin:.6rem 0 1rem}
dl.facts{font-size:.92rem}
dl.facts dt{color:var(--muted)}
dl.facts dd{margin:0;overflow-wrap:anywhere;white-space:pre-line}
details{background:var(--card);border-radius:8px;margin:.5rem 0;padding:8px 12px}
summary{cursor:pointer;overflow-wrap:anywhere}
pre{background:var(--card);border-radius:8px;padding:10px 12px;overflow-x:auto;margin:.6rem 0}
pre{font-size:.82rem;line-height:1.45}
details pre{padding:4px 0 0;margin:0;background:none}
footer{margin-top:2.6rem;color:var(--muted);font-size:.82rem}
@media(max-width:640px){
main{padding:18px 16px 36px}
svg.wide{display:none}
svg.narrow{display:block}
.figures{grid-template-columns:repeat(auto-fit,minmax(128px,1fr))}
}
""".replace("FONT", FONT)
