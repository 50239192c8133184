#!/usr/bin/env python3
"""make_pictures.py PROGRAM NINJA: makes the pictures of README.md anew, of a planted bug: the page of
`report` (debug/page/page.png), that of `sweep` (gates/sweep/page/sweep.png), and the terminal that `show` writes
to (debug/show/show.png). NINJA builds the modules. Needs Chromium."""

import fcntl
import html
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

from support import browser
from support.program import ROOT

RUN = ["mma", "fused", "--backend", "sim", "--specimen", "rescale_dropped_mma", "--shape", "s=128,d=64"]
SWEEP = ["scalar", "--specimen", "masked_tile_unguarded", "--backend", "sim", "--check", "0", "--runs", "1200",
         "--over", "s=1..100,skv=1..100,causal"]
SHOW = ["o", "--tile", "1", "--as", "heat"]
COLUMNS, LINES = 100, 48  # of the terminal
TERMINAL = """<!doctype html><meta charset="utf-8">
<style>
body { margin: 0; padding: 10px 14px; background: #17181a; color: #dcdde0; }
pre { margin: 0; font: 14px/16px "DejaVu Sans Mono", monospace; }
</style>
<pre>TEXT</pre>"""


def run_in_terminal(command, folder):
    """What `command` writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(command, cwd=folder, stdout=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            piece = b""
        if not piece:
            break
        written += piece
    if process.wait():
        sys.exit(f"{command} ended with {process.returncode}")
    return written.decode().replace("\r\n", "\n")


def colour_of(number):
    """One of the 216 colours of a terminal's cube, or of its 24 greys, as CSS has it."""
    if number >= 232:
        return "rgb({0}, {0}, {0})".format(8 + 10 * (number - 232))
    steps = [0, 95, 135, 175, 215, 255]
    return "rgb({}, {}, {})".format(*(steps[(number - 16) // power % 6] for power in (36, 6, 1)))


def style_of(codes):
    """The CSS of the escape sequences since the last reset."""
    words = {"1": "font-weight: bold", "2": "opacity: .65", "31": "color: #ff6b62", "32": "color: #7cc492", "33": "color: #e0b050"}
    styles = []
    for code in codes:
        if code.startswith(("38;5;", "48;5;")):
            styles.append(f"{'background' if code[0] == '4' else 'color'}: {colour_of(int(code[5:]))}")
        else:
            styles.append(words[code])
    return "; ".join(styles)


def as_html(text):
    """Text with escape sequences of colours as HTML."""
    made, codes = [], []
    for piece in re.split("(\x1b\\[[0-9;]*m)", text):
        if piece.startswith("\x1b"):
            codes = [] if piece in ("\x1b[0m", "\x1b[m") else [*codes, piece[2:-1]]
        elif piece:
            made.append(f'<span style="{style_of(codes)}">{html.escape(piece)}</span>')
    return "".join(made)


def take(folder, page, path, width, height):
    done = browser.call(folder, page, *browser.LIGHT, "--force-device-scale-factor=1", f"--window-size={width},{height}", f"--screenshot={path}")
    if done.returncode or not path.exists():
        sys.exit(f"{path} was not made:\n{done.stderr[-2000:]}")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def main(program, ninja):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        environment = {**os.environ, "LANESCOPE_NINJA": ninja}
        subprocess.run([program, "run", *RUN, "-o", "x.safetensors"], cwd=folder, env=environment, check=True)
        subprocess.run([program, "report", "x.safetensors", "-o", "x.html"], cwd=folder, check=True)
        take(folder, folder / "x.html", ROOT / "debug" / "page" / "page.png", 1280, 760)
        subprocess.run([program, "sweep", *SWEEP, "-o", "x.jsonl"], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        subprocess.run([program, "sweep", "--report", "x.jsonl", "-o", "sweep.html"], cwd=folder, stdout=subprocess.DEVNULL)
        take(folder, folder / "sweep.html", ROOT / "gates" / "sweep" / "page" / "sweep.png", 1280, 1000)
        command = [program, "show", "x.safetensors", *SHOW]
        text = "$ lanescope " + " ".join(command[1:]) + "\n" + run_in_terminal(command, folder)
        (folder / "show.html").write_text(TERMINAL.replace("TEXT", as_html(text)))
        take(folder, folder / "show.html", ROOT / "debug" / "show" / "show.png", 900, 16 * text.count("\n") + 20)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if not browser.find():
        sys.exit("there is no chromium (Debian: apt-get install chromium)")
    main(*(str(pathlib.Path(path).absolute()) for path in sys.argv[1:]))
