#!/usr/bin/env python3
"""report_page_test.py PROGRAM NINJA: the pages of `lanescope report` in headless Chromium
(support/browser.py). A script added to a copy of a page points, clicks and types as a user would, and
says what it then sees. NINJA builds the modules that are needed. Where there is no Chromium, what needs
none is tested and the rest skipped (77)."""

import json
import math
import re
import resource
import struct
import subprocess
import sys
import unittest

from support import browser
from support.program import DIVERGED, ENVIRONMENT, MISMATCH, USAGE, ProgramTest, header_of, take_arguments

SPECIMEN = ["mma", "fused", "--backend", "sim", "--specimen", "swapped_row_max", "--shape", "s=100,d=64"]

def read_dump(path):
    """The header as JSON and the data of a safetensors file."""
    data = path.read_bytes()
    header, start = header_of(data)
    return header, bytearray(data[start:])


def contrast(*colours):
    """Of two colours as CSS has them, by WCAG 2: from 1 to 21; text takes 4.5."""
    def light(part):
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
    lights = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in
                    ([light(int(part) / 255) for part in re.findall(r"\d+", colour)[:3]] for colour in colours))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def write_dump(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class PageTest(ProgramTest):
    """Has the pages of `bad.safetensors`, a dump of SPECIMEN."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump_of("bad.safetensors", *SPECIMEN)

    def page(self, *dumps, options=()):
        path = self.folder / "page.html"
        self.call("report", *dumps, "-o", path, *options)
        return path

    def look_at(self, page, steps="look();", **how):
        """What each look() of `steps` saw; the page may neither throw, log nor fetch anything."""
        seen, errors, logged = browser.look_at(self.folder, page, steps, **how)
        self.assertEqual((errors, logged), ([], []))
        self.assertEqual([look["failure"] for look in seen], [""] * len(seen))
        return seen

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


class PageFileTest(PageTest):
    """What needs no browser."""

    def test_a_full_disk_leaves_the_older_page(self):
        page = self.page("bad.safetensors")
        older, names = page.read_bytes(), set(self.folder.iterdir())
        def fill_disk():  # Python ignores SIGXFSZ; `restore_signals` undoes that
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        done = subprocess.run([self.program, "report", "bad.safetensors", "-o", page], cwd=self.folder, preexec_fn=fill_disk,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(f"{page}: cannot be written: File too large", done.stderr)
        self.assertEqual(page.read_bytes(), older)
        self.assertEqual(set(self.folder.iterdir()), names)

    def test_what_is_no_page_of_this_dump(self):
        for option, value in [("--block", "2"), ("--tile", "0..2"), ("--tile", "x")]:
            self.refuses(USAGE, option, "report", "bad.safetensors", "-o", "x.html", option, value)
        self.refuses(USAGE, r"\.html", "report", "bad.safetensors", "-o", "x.txt")
        self.call("report", self.changed("stale.safetensors", source_hash="0"), "-o", "x.html", code=MISMATCH)

    def test_no_external_resources(self):
        text = self.page("bad.safetensors").read_text()
        self.assertNotRegex(text.split('id="data"')[0], "https?:")


@unittest.skipUnless(browser.find(), "there is no chromium (Debian: apt-get install chromium)")
class ReportPageTest(PageTest):
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
        self.assertEqual(keyed["focus"], "cells")
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
        legend = nan["legend"]
        self.assertEqual([nan["colour"], infinite["colour"], unwritten["colour"]],
                         [legend["nan or inf"], legend["nan or inf"], legend["unwritten"]])

    def test_nan_that_was_received(self):
        """What a stage makes of a nan is right by what it received: it must not look like a right number."""
        values = self.json_of("show", "bad.safetensors", "o_final")["values"]
        slot = next(value["row"] * 64 + value["col"] for value in values if value["value"] == "nan")
        local, chain = self.look_at(self.page("bad.safetensors"), f"""
            location.hash = "#site=o_final&block=0&tile=0&slot={slot}&by=local"; await wait(); look();
            key("c"); look();""")
        self.assertEqual(local["value"]["local"], "holds, it comes of what was received")
        self.assertEqual(local["value"]["chain"], "diverged")
        self.assertEqual(local["colour"], local["legend"]["nan or inf, received"])
        self.assertEqual(chain["colour"], chain["legend"]["nan or inf"])
        self.assertNotIn(local["colour"], [local["legend"]["0"], local["legend"]["1 bound"], chain["colour"]])

    def test_rows_never_written(self):
        gap = [("o_final", 64 * 7 + d, 0xffb1) for d in range(64)]
        seen, = self.look_at(self.page(self.changed("gap.safetensors", gap)))
        self.assertTrue(any(re.match("007never written", row) for row in seen["rows"]), seen["rows"])

    def flat_page(self):
        self.call("run", "mma", "fused", "--backend", "sim", "--untraced", "--shape", "s=100,d=64", "-o", "flat.safetensors")
        return self.page("flat.safetensors")

    def test_no_tiles(self):
        shown, lacking = self.look_at(self.flat_page(), """
            location.hash = "#site=o_final&block=1&tile=0&slot=70&by=chain"; await wait(); look(); key("]"); key("k"); look();""")
        self.assertRegex(shown["verdict"], r"^match\d+ comparisons")
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
        self.assertTrue(same["title"].endswith(": different"), same["title"])
        for b, words, verdict in [(other, "the two dumps: different", "diverged"), ("bad.safetensors", "the two dumps: the same bits", "match")]:
            done = self.call("report", "bad.safetensors", b, "-o", "page.html", "--format", "json")
            self.assertIn(f"bad.safetensors against the reference: diverged; {words}", done.stderr)
            self.assertEqual(json.loads(done.stdout)["bits"], verdict)
        self.assertRegex(same["verdict"], r"^different1 of \d+ values, first in p: tile 0, block 0")
        self.assertRegex(same["reference"], r"^bad.safetensors against the reference: divergedfirst in softmax / m")
        self.assertEqual(same["value"]["apart"], "the same")
        self.assertEqual(apart["value"]["apart"], "1 representable numbers")
        self.assertEqual((apart["value"]["bits"], apart["value"]["its bits"]), (f"0x{bits:04x}", f"0x{bits ^ 1:04x}"))
        self.assertIn("slot=77", apart["hash"])
        self.assertEqual(apart["bits"].count("1"), 1)
        self.call("diff", "bad.safetensors", other, code=DIVERGED)

    def test_two_dumps_of_the_same_bits(self):
        seen, = self.look_at(self.page("bad.safetensors", "bad.safetensors"))
        self.call("diff", "bad.safetensors", "bad.safetensors")
        self.assertRegex(seen["verdict"], r"^the same bits\d+ values of \d+ tensors")
        self.assertIn("diverged", seen["reference"])

    def test_a_part_of_a_dump(self):
        page = self.page("bad.safetensors", options=["--block", "1", "--tile", "0"])
        seen, there = self.look_at(page, """
            location.hash = "#site=s&block=1&tile=1"; await wait(); look(); key("["); look();""")
        self.assertTrue(seen["hidden"])
        self.assertRegex(seen["missing"], r"lanescope report bad.safetensors --block 1 --tile 1 -o tile.html")
        self.assertFalse(there["hidden"])
        self.assertEqual(seen["part"], "Not all of the problem: 1 of 2 blocks are judged (1).")
        self.assertTrue(seen["title"].endswith(": diverged in part"), seen["title"])

    def test_a_part_of_a_problem(self):
        self.call("run", "mma", "qk_only", "--backend", "sim", "--shape", "s=100,d=64", "--where", "block=0,tile=1", "-o", "part.safetensors")
        seen, = self.look_at(self.page("part.safetensors"))
        self.assertEqual(seen["part"], "Not all of the problem: 1 of 2 blocks are judged (0); the sites were traced in 1 of 2 blocks (0); "
                                       "1 of 2 tiles were traced (1).")
        self.assertRegex(seen["verdict"], "^match in part")

    def test_runs_that_broke_off(self):
        faults = ["segfault", "hang", "trap", "abort", "leave", "leave_at_once", "raise", "overflow_stack"]
        build, modules = self.program.parent.parent, [f"tests/faulty.{fault}.sim.so" for fault in faults]
        self.build_targets(*modules, "tests/faulty.combine_segfault.sim.so")
        runs = {module: [build / module, "fused", "--shape", "s=200,d=64"] for module in modules}
        runs["combine"] = [build / "tests" / "faulty.combine_segfault.sim.so", "fused", "--shape", "h=3,s=16,skv=128,d=64", "--splits", 2]
        runs["loop"] = ["scalar", "fused", "--specimen", "loop_past_the_end", "--shape", "s=64,d=64"]
        runs["endless"] = ["wmma_registers", "fused", "--specimen", "endless_reduction", "--shape", "s=64,d=64"]
        for name, run in runs.items():
            with self.subTest(name):
                self.result_of("run", *run, "--backend", "sim", "--timeout", 1, "-o", "broken.safetensors")
                seen, = self.look_at(self.page("broken.safetensors", options=["--stale-ok"]))
                self.assertRegex(seen["verdict"], "^diverged")
                self.assertRegex(seen["notes"][0], "^the run did not end: ")
                self.assertTrue(any(" came to " in note for note in seen["notes"]), seen["notes"])
                self.assertTrue(any("unwritten" in stage for stage in seen["stages"]))
                self.assertFalse(seen["hidden"], "it opens at a tile that it holds")

    def test_no_value_is_wrong_and_yet(self):
        for name, metadata, verdict, note in [
                ("ended", {"incomplete": "it crashed", "stop": '{"kind":"crash","combining":false}'}, "the run did not end; nothing", "did not end: it crashed"),
                ("stray", {"incomplete": "it wrote there", "stop": '{"kind":"input","combining":false}'}, "wrote where it must not", "it wrote there"),
                ("false", {"seed": "77"}, "the dump contradicts itself", "contradiction: the inputs in the dump are not those")]:
            with self.subTest(name):
                self.call("run", "mma", "qk_only", "--backend", "sim", "--shape", "s=100,d=64", "-o", "right.safetensors")
                header, data = read_dump(self.folder / "right.safetensors")
                header["__metadata__"].update(metadata)
                write_dump(self.folder / f"{name}.safetensors", header, data)
                seen, = self.look_at(self.page(f"{name}.safetensors"))
                self.assertRegex(seen["verdict"], f"^diverged.*{verdict}")
                self.assertIn(note, seen["notes"][0])
        self.assertEqual(self.look_at(self.flat_page())[0]["notes"], [], "there are no tiles of which it could hold a part")

    def test_a_script_that_fails_says_so(self):
        page = self.page("bad.safetensors")
        page.write_text(page.read_text().replace('"sites":[', '"sites":null,"other_sites":['))
        (seen,), errors, logged = browser.look_at(self.folder, page)
        self.assertTrue(errors and logged)
        self.assertRegex(seen["failure"], "^This page is not complete, its script failed: .*TypeError")

    def test_sizes_of_windows(self):
        page = self.page("bad.safetensors")
        for width, height in [(420, 900), (1400, 900), (2500, 1300)]:
            with self.subTest(width):
                seen, = self.look_at(page, """location.hash = "#site=s&block=0&tile=0&slot=9&by=chain"; await wait(); look();""", window=(width, height))
                self.assertEqual(seen["window"], [width, height])
                self.assertLessEqual(seen["needs"], width, "it scrolls sideways")
                self.assertLessEqual(seen["map_box"]["right"], width)
                if width > 1000:
                    self.assertLess(seen["value_box"]["bottom"], height, "the value is not in sight")
                    self.assertGreater(seen["aside_box"]["right"], 0.97 * width, "the right is empty")

    def test_keys(self):
        page = self.page("bad.safetensors")
        moved, tile, lane = self.look_at(page, """
            const before = location.hash; key("ArrowDown"); seen.push({...{}, failure: "", hash: location.hash, before});
            document.querySelector('[data-key="tile s 1"]').focus(); document.activeElement.click(); look();
            document.querySelector('[data-key="lane 9"]').focus(); document.activeElement.click(); look();""")
        self.assertEqual(moved["hash"], moved["before"], "arrows scroll unless the map has the focus")
        self.assertEqual(tile["focus"], "tile s 1", "the focus stays where it was")
        self.assertTrue(tile["map"].startswith("s, block 0, tile 1"))
        self.assertEqual(lane["focus"], "lane 9")
        self.assertEqual(lane["value"]["warp, lane"], "0, 9")

    def test_light_and_dark(self):
        page = self.page("bad.safetensors")
        light, = self.look_at(page, options=browser.LIGHT)
        dark, = self.look_at(page, options=browser.DARK)
        self.assertNotEqual(light["paper"], dark["paper"])
        for look in [light, dark]:
            self.assertTrue(look["inks"])
            for ink, ground in look["inks"]:
                self.assertGreater(contrast(ink, ground), 4.5, f"{ink} on {ground}: hard to read")

    def test_size_of_the_preset_debug(self):
        self.call("run", "mma", "fused", "--backend", "sim", "-o", "debug.safetensors")
        page = self.page("debug.safetensors", "debug.safetensors")
        self.assertLess(page.stat().st_size, 5_000_000)
        self.assertEqual(self.look_at(page)[0]["notes"], [])


if __name__ == "__main__":
    take_arguments(__doc__)
    done = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not done.wasSuccessful() else 0 if browser.find() else 77)
