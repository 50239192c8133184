"""Pages in headless Chromium, pointed at, clicked and typed at as a user would."""

import json
import re
import shutil
import subprocess

LIGHT, DARK = ["--blink-settings=preferredColorScheme=1"], ["--blink-settings=preferredColorScheme=0"]

# Before anything of the page runs.
LISTENER = """<body>
<script>
const errors = [];
addEventListener("error", (event) => errors.push(event.message));
addEventListener("unhandledrejection", (event) => errors.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => errors.push("refused " + event.blockedURI));
</script>"""

# Waits, clicks, and puts down what the page shows. STEPS is put in.
HARNESS = """
<script>
(async () => {
  const seen = [];
  const texts = (selector) => [...document.querySelectorAll(selector)].map((x) => x.textContent);
  const box = (selector) => document.querySelector(selector).getBoundingClientRect().toJSON();
  const point = (id, type, x, y) => {
    const target = document.getElementById(id), box = target.getBoundingClientRect();
    target.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: box.left + x, clientY: box.top + y}));
  };
  const key = (name) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
  /** The colour of the current element on the map, beside its frame and its mark. */
  const colour = () => {
    const tile = document.getElementById("failure").hidden ? current_tile() : null;
    if (!tile || state.slot < 0 || tile.rows[state.slot] < 0) return null;
    const [x, y] = map_scale(tile), dot = new OffscreenCanvas(1, 1).getContext("2d");
    dot.drawImage(document.getElementById("cells"), -tile.x(state.slot) * x - 2, -tile.rows[state.slot] * y - (y >> 1));
    return `rgb(${[...dot.getImageData(0, 0, 1, 1).data].slice(0, 3).join(", ")})`;
  };
  const look = () => seen.push({
    title: document.title, failure: texts("#failure:not([hidden])").join(), verdict: texts("#verdict").join(), reference: texts("#reference").join(),
    part: texts("#part").join(), notes: texts("#notes li"), stages: texts("#stages table"), rows: texts("#worst_rows tr"),
    map: texts("#map_title").join(), missing: texts("#missing").join(), hidden: document.getElementById("map").hidden, colour: colour(),
    legend: Object.fromEntries([...document.querySelectorAll("#legend span")].map((item) => [item.lastChild.textContent, item.firstChild.style.backgroundColor])),
    value: Object.fromEntries([...document.querySelectorAll("#value tr")].map((row) => [row.cells[0].textContent.trim(), row.cells[1].textContent])),
    chain: texts("#value tr").slice(texts("#value tr").findIndex((row) => row.startsWith("chain"))),
    lanes: texts("#lanes td"), current: texts("#lanes td.current"), bits: texts("#bit_table td"), metadata: texts("#metadata td"),
    inks: [...document.querySelectorAll("#lanes td[style]")].map((cell) => [getComputedStyle(cell).color, getComputedStyle(cell).backgroundColor]),
    hash: location.hash, paper: getComputedStyle(document.body).backgroundColor, images: document.images.length,
    focus: document.activeElement.dataset.key ?? document.activeElement.id,
    needs: document.documentElement.scrollWidth, window: [innerWidth, innerHeight], value_box: box("#value"), map_box: box("#cells"), aside_box: box("aside")});
  const wait = () => new Promise((done) => setTimeout(done, 20));
  await wait();
  STEPS
  await wait();
  parent.postMessage({seen, errors}, "*");
})();
</script>
</body>"""

# Around the page, which has the size of a window that no window of a headless Chromium can have.
WINDOW = """<!doctype html>
<meta name="color-scheme" content="light dark">
<body style="margin: 0">
<script>
addEventListener("message", ({data}) => {
  const result = document.createElement("script");
  result.type = "application/json";
  result.id = "result";
  result.textContent = JSON.stringify(data).replaceAll("<", "\\\\u003c");
  document.body.append(result);
});
</script>
<iframe src="NAME" width="WIDTH" height="HEIGHT" style="border: 0"></iframe>
</body>"""


def find():
    """The path of a Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


def call(folder, page, *options):
    """The process of Chromium, ended, that opened the file `page`."""
    return subprocess.run(
        [find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
         "--enable-logging=stderr", *options, page.as_uri()], capture_output=True, text=True, timeout=120)


def look_at(folder, page, steps="look();", window=(1400, 900), options=()):
    """What each look() of `steps` saw of the file `page` in a `window` of so many pixels, the errors that
    its scripts threw, and what it logged."""
    copy, around = folder / "copy.html", folder / "window.html"
    text = page.read_text()
    assert text.count("<body>") == text.count("</body>") == 1
    copy.write_text(text.replace("<body>", LISTENER).replace("</body>", HARNESS.replace("STEPS", steps)))
    around.write_text(WINDOW.replace("NAME", copy.name).replace("WIDTH", str(window[0])).replace("HEIGHT", str(window[1])))
    done = call(folder, around, "--virtual-time-budget=20000", *options, "--dump-dom")
    found = re.search(r'<script type="application/json" id="result">(.*?)</script>', done.stdout, re.DOTALL)
    assert found, f"the page did not get to the end\n{done.stderr[-2000:]}"
    result = json.loads(found[1])
    return result["seen"], result["errors"], [line for line in done.stderr.splitlines() if "CONSOLE" in line]
