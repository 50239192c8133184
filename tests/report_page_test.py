#!/usr/bin/env python3
"""report_page_test.py PROGRAM NINJA: the pages of `lanescope report` in headless Chromium. A script
added to a copy of a page points, clicks and types as a user would, and says what it then sees. NINJA
builds the modules that are needed. Skipped (77) where there is no Chromium."""

import json
import math
import re
import shutil
import struct
import subprocess
import sys
import unittest

from program import DIVERGED, MISMATCH, USAGE, ProgramTest, header_of, take_arguments

SPECIMEN = ["mma", "fused", "--backend", "sim", "--specimen", "swapped_row_max", "--shape", "s=100,d=64"]

# Waits, clicks, and puts down what the page shows. `steps` is put in by the test.
HARNESS = """
<script>
(async () => {
  const seen = [], errors = [];
  addEventListener("error", (event) => errors.push(event.message));
  addEventListener("securitypolicyviolation", (event) => errors.push("refused " + event.blockedURI));
  const texts = (selector) => [...document.querySelectorAll(selector)].map((x) => x.textContent);
  const point = (id, type, x, y) => {
    const target = document.getElementById(id), box = target.getBoundingClientRect();
    target.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: box.left + x, clientY: box.top + y}));
  };
  const key = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
  const look = () => seen.push({
    title: document.title, verdict: texts("#verdict").join(), notes: texts("#notes li"), stages: texts("#stages table"),
    map: texts("#map_title").join(), missing: texts("#missing").join(), hidden: document.getElementById("map").hidden,
    value: Object.fromEntries([...document.querySelectorAll("#value tr")].map((row) => [row.cells[0].textContent.trim(), row.cells[1].textContent])),
    chain: texts("#value tr").slice(texts("#value tr").findIndex((row) => row.startsWith("chain"))),
    lanes: texts("#lanes td"), current: texts("#lanes td.current"), bits: texts("#bit_table td"), metadata: texts("#metadata td"),
    hash: location.hash, paper: getComputedStyle(document.body).backgroundColor, images: document.images.length});
  const wait = () => new Promise((done) => setTimeout(done, 20));
  await wait();
  STEPS
  await wait();
  const result = document.createElement("script");
  result.type = "application/json";
  result.id = "result";
  result.textContent = JSON.stringify({seen, errors}).replaceAll("<", "\\\\u003c");
  document.body.append(result);
})();
</script>
</body>"""


def read_dump(path):
    """The header as JSON and the data of a safetensors file."""
    data = path.read_bytes()
    header, start = header_of(data)
    return header, bytearray(data[start:])


def write_dump(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class ReportPageTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump_of("bad.safetensors", *SPECIMEN)

    def page(self, *dumps, options=()):
        path = self.folder / "page.html"
        self.call("report", *dumps, "-o", path, *options)
        return path

    def look_at(self, page, steps="look();", options=()):
        """What each look() of `steps` saw; the page may neither log nor fetch anything."""
        copy = self.folder / "copy.html"
        text = page.read_text()
        self.assertEqual(text.count("</body>"), 1)
        copy.write_text(text.replace("</body>", HARNESS.replace("STEPS", steps)))
        done = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/profile",
             "--enable-logging=stderr", "--virtual-time-budget=20000", *options, "--dump-dom", copy.as_uri()],
            capture_output=True, text=True, timeout=120)
        self.assertNotIn("CONSOLE", done.stderr)
        found = re.search(r'<script type="application/json" id="result">(.*?)</script>', done.stdout, re.DOTALL)
        self.assertTrue(found, f"the page did not get to the end\n{done.stderr[-2000:]}")
        result = json.loads(found[1])
        self.assertEqual(result["errors"], [])
        return result["seen"]

    def changed(self, name, values=(), **metadata):
        """A copy of the specimen's dump: (tensor, element, bits) put in, metadata replaced."""
        header, data = read_dump(self.folder / "bad.safetensors")
        header["__metadata__"].update(metadata)
        for tensor, element, bits in values:
            size = 4 if header[tensor]["dtype"] == "F32" else 2
            start = header[tensor]["data_offsets"][0] + size * element
            data[start:start + size] = bits.to_bytes(size, "little")
        write_dump(self.folder / name, header, data)
        return name

    def test_first_divergence(self):
        first = self.json_of("diff", "bad.safetensors", code=DIVERGED)["first"]
        page = self.page("bad.safetensors")
        start, clicked, hovered, keyed = self.look_at(page, """
            document.getElementById("site").value = "o_final";
            document.getElementById("site").dispatchEvent(new Event("change"));
            look();
            document.getElementById("first").click(); await wait(); look();
            key("Escape"); point("cells", "mousemove", 30, 150); look();
            key("]"); key("j"); key("f"); await wait(); key("ArrowDown"); look();""")
        self.assertIn("o_final", start["map"])
        self.assertIn(f"{first['stage']} / {first['site']}, {first['judgement']}: tile {first['tile']}", start["verdict"])
        value = clicked["value"]
        self.assertTrue(clicked["map"].startswith(f"{first['site']}, block {first['block']}, tile {first['tile']}, local"))
        self.assertAlmostEqual(float(value["value"]), first["got"], delta=1e-8 * abs(first["got"]))
        self.assertAlmostEqual(float(value["reference"]), first["want"], delta=1e-6 * abs(first["want"]))
        self.assertEqual(value["warp, lane"], f"{first['warp']}, {first['lane']}")
        self.assertEqual(value["register"], str(first["reg"]))
        self.assertEqual(value["query"], str(first["query"]))
        self.assertEqual(value["local"], "diverged")
        self.assertEqual(struct.pack("<f", first["got"])[::-1].hex(), value["bits"][2:])
        self.assertEqual(len(clicked["lanes"]), 32)
        self.assertEqual(clicked["current"][0].split()[0], str(first["lane"]))
        # Another element under the mouse: its row, the lane that holds it, and that lane in the grid.
        self.assertNotEqual(hovered["value"]["row, column"], value["row, column"])
        self.assertEqual(hovered["current"][0].split()[0], hovered["value"]["warp, lane"].split(", ")[1])
        self.assertEqual(keyed["value"]["row, column"], f"{first['row'] + 1}, {first['col']} of the tile")

    def test_values_are_the_dumps(self):
        page = self.page("bad.safetensors")
        shown, = self.look_at(page, 'location.hash = "#site=s&block=1&tile=1&slot=1234&by=chain"; await wait(); look();')
        warp, lane, reg = 1234 // 1024, 1234 // 32 % 32, 1234 % 32
        place = ["--block", 1, "--tile", 1, "--warp", warp, "--lane", lane]
        dump = self.json_of("show", "bad.safetensors", "s", *place)["values"][reg]
        self.assertEqual(shown["value"]["bits"], dump["bits"])
        self.assertEqual(shown["value"]["warp, lane"], f"{warp}, {lane}")
        self.assertEqual(shown["value"]["row, column"], f"{dump['row']}, {dump['col']} of the tile")
        self.assertEqual(shown["value"]["query"], str(64 + dump["row"]))

    def test_special_values(self):
        special = {1000: 0x7fc00000, 1001: 0xff800000, 1002: 0xffb1ffb1}
        dump = self.changed("special.safetensors", [("o", element, bits) for element, bits in special.items()])
        steps = "".join(f'location.hash = "#site=o&block=0&tile=0&slot={slot}&by=chain"; await wait(); look();' for slot in special)
        nan, infinite, unwritten = self.look_at(self.page(dump), steps)
        for seen, text in [(nan, "nan"), (infinite, "-inf"), (unwritten, "never written")]:
            self.assertEqual(seen["value"]["value"], text)
            self.assertTrue(seen["chain"][0].endswith("diverged"), seen["chain"])
            self.assertTrue(math.isfinite(float(seen["value"]["reference"])))
        self.assertIn("1 unwritten", "".join(nan["stages"]))
        self.assertIn("····", "".join(unwritten["lanes"]))

    def test_no_tiles(self):
        self.call("run", "mma", "fused", "--backend", "sim", "--untraced", "--shape", "s=100,d=64", "-o", "flat.safetensors")
        shown, lacking = self.look_at(self.page("flat.safetensors"), """
            location.hash = "#site=o_final&block=1&tile=0&slot=70&by=chain"; await wait(); look(); key("]"); key("k"); look();""")
        self.assertRegex(shown["verdict"], r"^match: \d+ comparisons")
        self.assertEqual((shown["value"]["query"], shown["value"]["d"]), ("65", "6"))
        self.assertEqual(len(lacking["stages"]), 1)

    def test_hostile_text(self):
        text = "</script><img src=x onerror=alert(1)><b>&amp;\"'"
        dump = self.changed("hostile.safetensors", device=text, input=text, incomplete=f"illegal address {text}")
        seen, = self.look_at(self.page(dump))
        self.assertEqual(seen["images"], 0)
        self.assertIn(text, seen["metadata"])
        self.assertIn(f"the run did not end: illegal address {text}", seen["notes"])

    def test_splits_and_heads(self):
        """Three splits, with four heads in a tile of Q: places, holders and the outputs of a row tile."""
        self.call("run", "splitk", "fused", "--backend", "sim", "--shape", "b=1,h=8,hkv=2,s=3,skv=230,d=64", "--splits", 3,
                  "-o", "split.safetensors")
        places = ["site=s&block=4&tile=1&slot=64", "site=k_smem&block=4&tile=2&slot=65", "site=o_partial&block=4&tile=0&slot=330",
                  "site=o_partial&block=4&tile=0&slot=1000", "site=o_final&block=4&tile=0&slot=330"]
        scores, keys, partial, padding, output = self.look_at(self.page("split.safetensors"), "".join(
            f'location.hash = "#{place}&by=local"; await wait(); look();' for place in places))
        for seen in [scores, keys, partial]:
            self.assertEqual((seen["value"]["split"], seen["value"]["local"]), ("1", "holds"))
        shown = self.json_of("show", "split.safetensors", "s", "--block", 4, "--tile", 1)
        value = shown["values"][64]
        first_key = (1 * 3 + 1) * 32  # 8 tiles of 32 keys in 3 splits
        self.assertEqual(scores["value"]["bits"], value["bits"])
        self.assertEqual(scores["value"]["key"], str(first_key + value["col"]))
        self.assertEqual(keys["value"]["key"], str(first_key + 32 + 1))
        head, query = divmod(5, 3)  # row 5 of three queries of each head
        self.assertEqual((partial["value"]["batch, head"], partial["value"]["query"]), (f"0, {4 + head}", str(query)))
        self.assertIn("warp, lane", partial["value"])
        self.assertEqual(padding["value"]["value"], "never written")
        self.assertEqual(output["value"]["local"], "holds")
        self.assertNotIn("split", output["value"])
        self.assertNotIn("warp, lane", output["value"], "its tiles' registers are not those of the combine pass")

    def test_two_dumps(self):
        header, _ = read_dump(self.folder / "bad.safetensors")
        self.assertEqual(header["p"]["dtype"], "F16")
        _, data = read_dump(self.folder / "bad.safetensors")
        at = header["p"]["data_offsets"][0] + 2 * 77
        bits, = struct.unpack_from("<H", data, at)
        other = self.changed("other.safetensors", [("p", 77, bits ^ 1)])
        same, apart = self.look_at(self.page("bad.safetensors", other), """
            location.hash = "#site=p&block=0&tile=0&slot=76&by=bits"; await wait(); look();
            [...document.querySelectorAll("#bit_table a")][0].click(); await wait(); look();""")
        self.assertEqual(same["value"]["apart"], "the same")
        self.assertEqual(apart["value"]["apart"], "1 representable numbers")
        self.assertEqual((apart["value"]["bits"], apart["value"]["its bits"]), (f"0x{bits:04x}", f"0x{bits ^ 1:04x}"))
        self.assertIn("slot=77", apart["hash"])
        self.assertEqual(apart["bits"].count("1"), 1)

    def test_a_part_of_a_dump(self):
        page = self.page("bad.safetensors", options=["--block", "1", "--tile", "0"])
        seen, there = self.look_at(page, """
            location.hash = "#site=s&block=1&tile=1"; await wait(); look(); key("["); look();""")
        self.assertTrue(seen["hidden"])
        self.assertRegex(seen["missing"], r"lanescope report bad.safetensors --block 1 --tile 1 -o tile.html")
        self.assertIn("1 of 2 blocks", seen["notes"][0])
        self.assertFalse(there["hidden"])
        for option, value in [("--block", "2"), ("--tile", "0..2"), ("--tile", "x")]:
            self.refuses(USAGE, option, "report", "bad.safetensors", "-o", "x.html", option, value)
        self.refuses(USAGE, r"\.html", "report", "bad.safetensors", "-o", "x.txt")
        self.call("report", self.changed("stale.safetensors", source_hash="0"), "-o", "x.html", code=MISMATCH)

    def test_light_and_dark(self):
        page = self.page("bad.safetensors")
        light, = self.look_at(page, options=["--blink-settings=preferredColorScheme=1"])
        dark, = self.look_at(page, options=["--blink-settings=preferredColorScheme=0"])
        self.assertNotEqual(light["paper"], dark["paper"])

    def test_size_of_the_preset_debug(self):
        self.call("run", "mma", "fused", "--backend", "sim", "-o", "debug.safetensors")
        page = self.page("debug.safetensors", "debug.safetensors")
        self.assertLess(page.stat().st_size, 5_000_000)
        self.assertEqual(self.look_at(page)[0]["notes"], [])
        self.assertNotRegex(page.read_text().split('id="data"')[0], "https?:")


if __name__ == "__main__":
    take_arguments(__doc__)
    chromium = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if not chromium:
        print("skipped: there is no chromium (Debian: apt-get install chromium)")
        sys.exit(77)
    unittest.main(verbosity=2)
