"""What a hostile or hapless user gives the program, a row each: the exit code, words of what it must say, the
arguments, and what of the environment is changed.

{dump} is a good dump of mma softmax_only, {module} its module, {files} a folder of files that are no good."""

from typing import NamedTuple

from support.program import DIVERGED, ENVIRONMENT, MISMATCH, OK, USAGE

RUN = "mma softmax_only --backend sim"
PLAIN = "hostile.so fused --shape s=64,d=64"


class Case(NamedTuple):
    code: int
    words: str  # a regular expression: of stderr; of stdout and stderr where the code is 0 or 1
    arguments: str | list  # separated by blanks; a list where one holds blanks or is empty
    environment: dict = {}
    shell: str = ""  # what a shell does to itself before it becomes the program, whose redirections stand in `redirect`
    redirect: str = ""


def usage(words, *lines):
    return [Case(USAGE, words, line) for line in lines]


COMMAND_LINE = [
    *usage("which command.*list, run, diff", [], "-v", "--quiet", "--format json", "-v --format=text"),
    *usage(r"no command 'dif' \(did you mean diff\?\)", "dif", "-q dif mma fused", "--format text dif"),
    *usage(r"did you mean locate\?", "loacte mma", "locat mma", "Locate mma", "LOCATE mma"),
    *usage(r"did you mean show\?", "shwo {dump} m", "shows {dump} m"), *usage(r"did you mean resources\?", "resource mma", "res mma"),
    *usage("no command '.*dump.safetensors'", "{dump}"), *usage("no command 'nope'; commands: list", "nope", "nope --help me"),
    *usage(r"no command '\?\[31mred'", ["\x1b[31mred"]), *usage(r"no command '\?'", ["\n"]), *usage("which command", [""]),
    *usage(r"no command 'd{80}\.\.\.'", "d" * 100_000), *usage(r"no command '\?+'", ["diff\udcff\udcfe"[4:]]),
    *usage(r"no command 'x{80}\.\.\.'", ["x" * 81]), *usage("no option --nope", "--nope"), *usage("not expected: --nope", "--nope diff mma fused"),
    *usage(r"--formt \(did you mean --format\?\)", "--formt json list", "--formt json"), *usage("no option -x", "-x"), *usage("not expected: -x", "-x list"),
    *usage("format", "--format", "--format yaml list", "list --format xml", "list --format="), *usage("text,json", "list --format JSON "),
    *usage(r"--shpe \(did you mean --shape\?\)", f"diff {RUN} --shpe s=4"), *usage(r"--sead.*did you mean --seed", f"run {RUN} --sead 3"),
    *usage(r"--cuasal.*did you mean --causal", f"check {RUN} --cuasal"), *usage("--specimen", f"diff {RUN} --specimens swapped_row_max"),
    *usage("not expected: --zzzzzzzz;", f"diff {RUN} --zzzzzzzz"), *usage("not expected", f"show {{dump}} m more", "list more", "help diff more"),
    *usage("kernel is required", "run", "check", "locate", "watch", "bench", "resources"), *usage("gate is required", "run mma", "check mma", "watch mma"),
    *usage("what is required", "diff", "diff --causal"), *usage("dump is required", "show"), *usage("dumps is required", "report -o x.html"),
    *usage("which site.*q, k, v", "show {dump}"), *usage("--output is required", "report {dump}"),
    *usage("help: there is no command 'dif'.*did you mean diff", "help dif", "help dif --format json"),
    *usage("no option -;", "-"), *usage("--seed takes a value", f"diff {RUN} --seed"),
    *usage("--shape", f"diff {RUN} --shape"), *usage("KERNEL GATE", "diff mma", "diff mma fused more", "diff {dump} fused", "diff fused {dump}",
                                                     "diff {dump} {dump} {dump}"), *usage("is empty", ["diff", "mma", "fused", ""]),
    *usage("one dump, or two", "report {dump} {dump} {dump} -o x.html"), *usage("--maps", "list --backend sim"),
    *usage("where to", f"run {RUN}"), *usage("--untraced", "locate mma --untraced --backend sim"),
    Case(OK, r"\d+\.\d+\.\d+", "--version"), Case(OK, "Subcommands", "--help"), Case(OK, "Subcommands", "help"),
    Case(OK, "Usage", "diff --help --nope"), Case(OK, "Usage", "help resources"), Case(OK, "match", f"-q diff {RUN} -q"),
]

# An option, values that are wrong, and what is said of them.
VALUES = [
    ("--preset", "no preset '{}'", ["nope", "x" * 50, "debug,small", "-1", "Debug "]),
    ("--preset", "did you mean mission", ["mision", "missoin", "Mission"]), ("--preset", "is empty", [""]),
    ("--shape", "is empty", [""]), ("--shape", "name=value", ["64", "s", "s=64,", ",s=64", "s=1,,d=2"]),
    ("--shape", "there is no ''", ["=4"]), ("--shape", "there is no 'x'.*skv", ["x=1", "s=4,x=1"]), ("--shape", "there is no 'S'", ["S=4"]),
    ("--shape", "1 or more", ["s=0", "b=0", "h=0", "d=0", "skv=0"]), ("--shape", "not a number", ["s=-4", "s=", "s=4.5", "s=1e3", "s=0x10", "s= 4",
                                                                                            "s=4 ", "s=99999999999999999999", "s=four", "s=+4"]),
    ("--shape", "twice", ["s=1,s=2"]), ("--shape", "no multiple", ["h=3,hkv=2", "h=1,hkv=2"]), ("--shape", "d=64", ["d=129", "d=100000"]),
    ("--shape", "1 TiB", ["s=999999999999", "b=9223372036854775807", "b=1000000,h=1000000"]),
    ("--dtype", "no type '{}'.*bf16", ["nope", "F16", "f16,bf16", "tf32"]), ("--dtype", "is empty", [""]), ("--dtype", "does not take {} inputs", ["e4m3", "f32"]),
    ("--backend", "no backend '{}'.*sim", ["nope", "SIM", "gpu"]), ("--backend", "is empty", [""]),
    ("--tile-shape", "is empty", [""]), ("--tile-shape", "like 64x32", ["64", "64X64", "64*64"]),
    ("--tile-shape", "not a number", ["x", "64x", "x64", "ax8", "-1x64", "64x64x64"]), ("--tile-shape", "no tile", ["16x16", "0x0", "4294967360x64", "64x65"]),
    ("--input", "no '{}'.*counting", ["nope", "Random", "randm", ".", "/dev/zero"]), ("--input", "is empty", [""]),
    ("--input", "No such file", ["gone.safetensors"]), ("--input", "regular file", ["{files}/folder.safetensors"]),
    ("--layout", "bhsd, bshd", ["nope", "BHSD", "sbhd"]), ("--layout", "is empty", [""]),
    ("--seed", "seed", ["-1", "18446744073709551616", "x", "1.5", "1e3", "0x10", "+1", " 1", "", "nan"]),
    ("--schedule", "schedule", ["-1", "18446744073709551616", "x", ""]), ("--threads", "threads", ["-1", "1025", "100000", "x", "1.5", "", "9" * 30]),
    ("--splits", "does not split", ["2", "1000"]), ("--splits", "splits", ["0", "-1", "x", "", "9" * 30]),
    ("--timeout", "timeout", ["nan", "NaN", "-nan", "inf", "-inf", "0", "-1", "1e7", "x", "", "0.09", "1e400"]),
    ("--arch", "no '{}'.*hopper, ampere", ["nope", "Hopper", "sm_90"]), ("--arch", "is empty", [""]),
    ("--specimen", "no specimen '{}'.*swapped_row_max", ["nope", "columns_swapped", "../swapped_row_max"]),
    ("--specimen", "did you mean swapped_row_max", ["swaped_row_max", "swapped_row_maxx", "swapped"]), ("--specimen", "is empty", [""]),
    ("--where", "is empty", [""]), ("--where", "name=value", ["block", "0"]), ("--where", "there is no 'row'", ["row=1"]),
    ("--where", "'x'", ["tile=x"]), ("--where", "ends before", ["block=1..0"]), ("--where", "block 0\\.\\.1", ["block=2", "block=0..2"]),
    ("--where", "tile 0\\.\\.1", ["tile=2", "tile=0..99"]), ("--where", "not a number", ["block=-1", "block=0..", "block=..1", "block=0...1", "block=9" * 9]),
    ("--where", "twice", ["block=0,block=1"]), ("--where", "show --warp", ["warp=0", "lane=3"]),
    ("--output", "\\.safetensors", ["x", "x.bin", "x.safetensors.gz", ".", "/"]), ("--output", "no folder", ["gone/x.safetensors", "/nowhere/at/all/x.safetensors"]),
    ("--output", "regular file|Is a directory", ["{files}/folder.safetensors"]), ("--output", "/proc", ["/proc/x.safetensors"]), ("--output", "is empty", [""]),
]

OPTIONS = [
    *[Case(USAGE, words.replace("{}", value.replace(".", "\\.")), ["diff", *(RUN.split()[:2] if option == "--backend" else RUN.split()), option, value])
      for option, words, values in VALUES for value in values],
    *usage("no folder", f"run {RUN} -o gone/x.safetensors"), *usage("\\.safetensors", f"run {RUN} -o x.bin", f"run {RUN} -o x"),
    *usage("/proc", f"run {RUN} -o /proc/x.safetensors"), *usage("regular file", f"run {RUN} -o {{files}}/folder.safetensors"),
    *usage("no kernel 'nma'.*did you mean mma", "diff nma fused", "run nma fused -o x.safetensors", "check nma fused", "locate nma", "watch nma fused"),
    *usage("no kernel 'wmma_register'.*did you mean wmma_registers", "diff wmma_register fused"), *usage("no kernel 'mma.cu'", "diff mma.cu fused"),
    *usage("no gate 'softmax'.*did you mean softmax_only", "diff mma softmax", "run mma softmax -o x.safetensors", "check mma softmax"),
    *usage("gate: is empty", ["run", "mma", "", "-o", "x.safetensors"]), *usage("no gate 'combine_only' in this build", f"diff mma combine_only --backend sim"),
    *usage("no kernel 'nma'", "diff nma fused --specimen swapped_row_max"), *usage("a kernel that splits|does not split", "locate mma --splits 2 --backend sim"),
    *usage("is given 2 times \\(", f"diff {RUN} --backend sim", f"diff {RUN} --seed 1 --seed 2"), *usage("no 'volta'", "calibrate --backend sim --arch volta"),
    *usage("times a GPU", "bench mma --backend sim"), *usage("repeats", "bench mma --repeats 0", "bench mma --repeats 1001", "bench mma --repeats x"),
    *usage("check runs on sim", "check mma fused --backend cuda"),
    *usage("the dump has no site 'mm'.*did you mean m", "show {dump} mm", "show {dump} --site mm"), *usage("no site 'o_final'", "show {dump} o_final"),
    *usage("no site '\\?\\[31m'", ["show", "{dump}", "\x1b[31m"]), *usage("is empty", ["show", "{dump}", ""]),
    *usage("tile 0 to 1", "show {dump} m --tile 2", "show {dump} m --tile -1"), *usage("block 0 to 1", "show {dump} m --block 2", "show {dump} m --block 99999999999"),
    *usage("warp 0 to 3", "show {dump} m --warp 4"), *usage("lane 0 to 31", "show {dump} m --lane 32", "show {dump} m --lane -1"),
    *usage("block", "show {dump} m --block x", "show {dump} m --block 1.5", "show {dump} m --block 99999999999999999999"),
    *usage("not in registers", "show {dump} q --lane 1", "show {dump} q --warp 1", "show {dump} q --as lanes"), *usage("--col", "show {dump} m --col 1"),
    *usage("columns 0 to 127", "show {dump} q --col 128", "show {dump} q --col -1"), *usage("lanes, tile, heat", "show {dump} m --as nope"),
    *usage("--watch follows", "show {dump} m --watch --tile 1", "show {dump} m --watch --as tile"),
    *usage("and a dump has been run", *(f"diff {{dump}} {option}" for option in [
        "--shape s=4", "--causal", "-o x.safetensors", "--timeout 3", "--seed 1", "--where block=0", "--specimen swapped_row_max", "--untraced"])),
    *usage("\\.html", "report {dump} -o x", "report {dump} -o x.htm"), *usage("no folder", "report {dump} -o gone/x.html"),
    *usage("--block", "report {dump} -o x.html --block x", "report {dump} -o x.html --block 9", "report {dump} -o x.html --block 1..0"),
    *usage("--tile", "report {dump} -o x.html --tile -1"), *usage("no module gone.so", "diff gone.so fused", "locate gone.so", "resources gone.so"),
    *usage("is gate softmax_only", "diff {module} fused", "check {module} fused"), *usage("for f16", "diff {module} softmax_only --dtype bf16"),
    *usage("of tile 64x64", "diff {module} softmax_only --tile-shape 64x32"), *usage("backend sim", "diff {module} softmax_only --backend cuda"),
    *usage("traced", "diff {module} softmax_only --untraced"), *usage("no specimen can be planted", "diff {module} softmax_only --specimen swapped_row_max"),
    *usage("not compiled for the memory checker", "check {module} softmax_only"), *usage("only cuda modules", "resources {module}"),
]

OPTIONS += [
    *usage("which kernel", "sweep"), *usage("did you mean mma", "sweep nma"), *usage("no gate 'nope'", "sweep mma nope"),
    *[Case(USAGE, "is no whole number from 1", ["sweep", "mma", option, value])
      for option in ["--runs", "--failures"] for value in ["0", "-1", "x", "1.5", "9" * 20]],
    *usage("there is no 'nope'", "sweep mma --over nope=1"), *usage("ends before it begins", "sweep mma --over s=9..1"),
    *usage("no number from 1 on", "sweep mma --over s=0"), *usage("is not like 1/8", *(f"sweep mma --shard {shard}" for shard in ["9/8", "0/0", "x", "1/"])),
    *usage("minutes", "sweep mma --minutes nan", "sweep mma --minutes -1"), *usage("check", "sweep mma --check nan", "sweep mma --check 101"),
    *usage("gone.jsonl: No such file", "sweep mma --baseline gone.jsonl", "sweep --report gone.jsonl -o x.html"),
    *usage(r"\.jsonl", "sweep mma -o x", "sweep mma -o /proc/x"), *usage("no folder", "sweep mma -o gone/x.jsonl"),
]

FILES = [
    *[Case(USAGE, f"{name}.safetensors.*", f"{command} {{files}}/{name}.safetensors{rest}")
      for name in ["empty", "text", "start", "half", "folder", "gone", "loop", "fifo", "unreadable"]
      for command, rest in [("diff", ""), ("diff {dump}", ""), ("show", " m"), ("report", " -o x.html")]],
    *[Case(USAGE, f"{name}.safetensors.*|tensor", f"diff {RUN} --input {{files}}/{name}.safetensors")
      for name in ["empty", "text", "start", "half", "lacks", "flat", "f64"]],
    *usage("device.*regular|regular", "show /dev/zero m", "show /dev/null m", "show / m"), *usage("No such|too long", "show " + "x" * 5000 + " m"),
    Case(MISMATCH, "--stale-ok", "diff {files}/stale.safetensors"), Case(MISMATCH, "--stale-ok", "report {files}/stale.safetensors -o x.html"),
    Case(OK, "match", "diff {files}/stale.safetensors --stale-ok"), Case(OK, "match", "diff {files}/link.safetensors"),
    Case(OK, "match", ["diff", "{files}/a name; with $(blanks).safetensors"]), Case(OK, "match", "diff {dump} {dump}"),
    *[Case(USAGE, f"{name}.so: it is no", f"diff {{files}}/{name}.so fused") for name in ["empty", "text", "folder"]],
    *usage("half_header.so: it cannot be loaded", "diff {files}/half_header.so fused"), *usage("garbled.so: (loading it was tried.*SIGSEGV|it cannot be loaded)", "diff {files}/garbled.so fused"),
    *usage("loading it was tried.*SIGBUS", "diff {files}/half.so fused"),
    *usage("lanescope_module", "diff {files}/other.so fused"),
    *usage("a link that leads nowhere|symbolic links", f"run {RUN} -o {{files}}/loop.safetensors", f"run {RUN} -o {{files}}/dangling.safetensors",
           "report {dump} -o {files}/dangling.html"), *usage("regular file", f"run {RUN} -o {{files}}/fifo.safetensors"),
    *usage("too long", f"run {RUN} -o {'n' * 300}.safetensors"),
    *[Case(OK, "safetensors: . blocks", ["run", *RUN.split(), "-o", f"{{files}}/{name}.safetensors"])
      for name in ["two words", "$(id)", "'\"", "\u00fcn\u00ef\U0001f642", "-dash", "n" * 240, "link", "{}", "%s%n", "*", "\\"]],
    *[Case(OK, r"\?\.safetensors: 4 blocks|2 blocks|blocks", ["run", *RUN.split(), "-o", f"{{files}}/{name}.safetensors"]) for name in ["\x1b[31m", "a\nb"]],
    *[Case(OK, "match", "diff {dump}", shell=f"touch -d {day}-01-01 dump.safetensors") for day in ["2099", "1970"]],
    *usage("the site is given twice", "show {dump} m --site m"), *usage("takes no value", f"diff {RUN} --causal=1", "show {dump} m --watch=3", "check mma fused --untraced=x"),
    *usage("cannot start (\\./)?(nope|/.*dump)", "exec nope", "exec {dump}", "exec ./nope --format json", "--format json exec nope --format text"),
    *usage("--shape takes a value", f"diff {RUN} --seed 1 --shape"), *usage("3 times \\(1, 2, 3\\)", f"diff {RUN} --seed=1 --seed=2 --seed 3"),
]

MODULES = [
    *[Case(USAGE, f"hostile.so: loading it was tried.*{words}", f"diff {PLAIN}", {"HOSTILE": way}) for way, words in [
        ("exits", r"exit\(0\)"), ("aborts", "SIGABRT"), ("wild_name", "SIGSEGV"), ("coordinate_crashes", "SIGSEGV"), ("hangs", "did not end within 10 s")]],
    *[Case(USAGE, f"hostile.so: .*{words}", f"diff {PLAIN}", {"HOSTILE": way}) for way, words in [
        ("null", "returns a null pointer"), ("null_name", "kernel is a null pointer"), ("escape_in_name", "kernel is no text"),
        ("null_function", "functions is a null pointer"), ("null_sites", "sites is a null pointer"), ("many_sites", "site_count is 1073741824"),
        ("no_threads", "threads is 0"), ("huge_tile", "br is 1073741824"), ("unknown_gate", "gate is 99"),
        ("rule_beyond_p", "the rescale rule of site alpha, of P in e4m3, is 12, not 0 to 8"),
        ("wild_coordinate", "site m has an element at row 1000")]],
    Case(MISMATCH, "hostile.so: .*version 1 .*build the module again", f"diff {PLAIN}", {"HOSTILE": "other_abi"}),
    *[Case(DIVERGED, "diverged", f"diff {PLAIN}", {"HOSTILE": way}) for way in ["forks", "forks_and_crashes", "prints", ""]],
    Case(DIVERGED, '"verdict": "diverged"', f"diff {PLAIN} --format json", {"HOSTILE": "prints"}),
    Case(DIVERGED, "fault: ", "locate hostile.so --shape s=64,d=64", {"HOSTILE": "forks_and_crashes"}),
    Case(USAGE, "not compiled for the memory checker", f"check {PLAIN}"), Case(USAGE, "gate fused", "diff hostile.so qk_only"),
]

MODULES += [
    Case(ENVIRONMENT, words, line, {"HOSTILE": way, "LANESCOPE_MODULES": "modules"})
    for line in ["list --maps --backend sim", "list --maps --backend sim --format json", "calibrate --backend sim"]
    for way, words in {"": "undefined symbol", "exits": r"exit\(0\)", "aborts": "SIGABRT"}.items()]

# tests/support/lying_kernel.cc: a kernel that is right, and then does what no kernel should.
LIAR = "lying.so fused --shape h=2,s=70,d=64 --timeout 2"
LIARS = [
    *[Case(OK, "match: 8960 comparisons", f"diff {LIAR}", {"LIE": way}) for way in [
        "", "late_thread", "late_process", "ignores_signals", "changes_folder", "changes_locale", "leaves_its_session", "floods_stdout"]],
    *[Case(DIVERGED, rf"(?s)diverged: .*{words}", f"diff {LIAR}", {"LIE": way}) for way, words in [
        ("scales_q_in_place", "its input q .*70 pieces"), ("clears_v", "its input v .*70 pieces"), ("spoils_q", "its input q"),
        ("spoils_last_v", "its input v .*: 1 piece of 256 bytes changed, the first from byte 17664"), ("rounds_to_zero", "o_final"),
        ("nan_at_the_end", "o_final, row 5, column 63"), ("negates", "o_final"), ("swaps_rows", "o_final, row 0"), ("leaves_poison", "o_final, row 0"),
        ("writes_far_behind", "behind buffer o .*the first 16384 behind its end"),
        ("stops", "did not end within 2 s"), ("hangs_deaf", "did not end within 2 s"), ("throws", "nobody catches: a reason"),
        ("throws_number", "nobody catches: of an unknown type"), ("leaves", "exit code 0"), ("interrupts_itself", "SIGINT"), ("says_nowhere", "SIGSEGV")]],
    *[Case(DIVERGED, f"fault: {cause}", f"locate {LIAR.replace(' fused', '')}", {"LIE": way}) for way, cause in [
        ("spoils_q", "write_to_input"), ("writes_far_behind", "out_of_bounds"), ("throws", "crash"), ("stops", "hang")]],
    Case(ENVIRONMENT, "memory", f"diff {LIAR}", {"LIE": "kills_itself"}), Case(ENVIRONMENT, "memory", f"diff {LIAR}", {"LIE": "takes_limits"}),
    *[Case(USAGE, f"refuses this run{words}", f"diff {LIAR}", {"LIE": way}) for way, words in [
        ("says_an_escape", r": not \?\[31mthis"), ("says_nothing", ", and does not say why"), ("says_much", ": x{500,1100}")]],
    *[Case(OK, "match", f"diff {LIAR}", {"LIE_NAME": name}) for name in ["mma", "mma+swapped_row_max", " ", "../x", "%s%n", "{}", "<b>", "\udcff"]],
    *[Case(USAGE, "kernel is no text", f"diff {LIAR}", {"LIE_NAME": name}) for name in ["a\nb", "\x1b[31m", "n" * 5000]],
]

SHOW = "show {dump} m --lane 3"
ENVIRONMENTS = [
    *[Case(OK, "match", f"diff {RUN}", environment) for environment in [
        {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"}, {"LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"}, {"LANG": "nope"}, {"TERM": ""},
        {"TERM": "dumb"}, {"HOME": ""}, {"HOME": "/nowhere"}, {"NO_COLOR": ""}, {"COLUMNS": "-1", "LINES": "x"}, {"TZ": "nope"},
        {"LANESCOPE_NINJA": ""}, {"LANESCOPE_MODULES": ""}, {"LANESCOPE_SOURCES": ""}, {"OMP_NUM_THREADS": "x"}, {"TMPDIR": "/nowhere"},
        {"MALLOC_PERTURB_": "165"}, {"CUDA_VISIBLE_DEVICES": "x"}, {"POSIXLY_CORRECT": "1"}]],
    Case(ENVIRONMENT, "not built.*ninja -C", f"diff {RUN}", {"LANESCOPE_NINJA": "", "LANESCOPE_MODULES": "/nowhere"}),
    Case(ENVIRONMENT, "cannot start /nowhere", f"diff {RUN}", {"LANESCOPE_NINJA": "/nowhere", "LANESCOPE_MODULES": "/nowhere"}),
    Case(USAGE, "does not compile", f"diff {RUN}", {"LANESCOPE_NINJA": "/bin/false", "LANESCOPE_MODULES": "/nowhere"}),
    Case(OK, "match", f"diff {RUN}", {"LANESCOPE_NINJA": "/bin/true"}), Case(OK, "worst|right|m  f32", SHOW, {"PAGER": "/nowhere"}),
    Case(OK, "match", f"diff {RUN}", {"PATH": "/nowhere", "LANESCOPE_NINJA": ""}), Case(OK, "match", "diff {dump}", {"LANESCOPE_SOURCES": "/nowhere"}),
    Case(OK, "", SHOW, redirect="</dev/null"), Case(OK, "", SHOW, redirect="<&-"), Case(OK, "", f"diff {RUN}", redirect="<&-"),
    Case(OK, "", f"diff {RUN}", redirect="2>&-"), Case(USAGE, "", "nope", redirect="2>&-"), Case(ENVIRONMENT, "stdout.*full", SHOW, redirect=">/dev/full"),
    Case(ENVIRONMENT, "stdout.*full", f"diff {RUN}", redirect=">/dev/full"), Case(ENVIRONMENT, "stdout.*full", "list", redirect=">/dev/full"),
    Case(ENVIRONMENT, "stdout.*full", "help", redirect=">/dev/full"), Case(ENVIRONMENT, "stdout", SHOW, redirect=">&-"),
    Case(OK, "match", f"diff {RUN}", redirect="2>/dev/full"), Case(ENVIRONMENT, "File too large", f"run {RUN} -o big.safetensors", shell="ulimit -f 8"),
    Case(ENVIRONMENT, "File too large", "report {dump} -o big.html", shell="ulimit -f 8"),
    Case(ENVIRONMENT, "", f"diff {RUN}", shell="ulimit -n 4"),
    Case(OK, "match", f"diff {RUN}", shell="ulimit -c 0"), Case(OK, "match", f"diff {RUN}", {"LANESCOPE_NINJA": ""}, shell="ulimit -s 256"),
    Case(OK, "match", "diff {dump}", shell="mkdir -p gone && cd gone && rmdir ../gone"), Case(USAGE, "gone.safetensors", "diff gone.safetensors", shell="cd /"),
    Case(OK, "match", f"diff {RUN}", shell="trap '' PIPE"), Case(OK, "match", f"diff {RUN}", shell="trap '' CHLD"), Case(OK, "match", f"diff {RUN}", shell="umask 777"),
    *[Case(OK, "match", f"diff {RUN}", environment) for environment in [
        {"LD_PRELOAD": "/nowhere.so"}, {"LANESCOPE_EXEC": "x"}, {"GLIBC_TUNABLES": "glibc.malloc.perturb=165"}, {"MALLOC_CHECK_": "3"}, {"PWD": "/nowhere"},
        {"LANGUAGE": "de", "LC_ALL": "C.UTF-8"}, {"CXX": "/nowhere", "CXXFLAGS": "-garbage"}, {"NINJA_STATUS": "x"}, {"PAGER": "exit 3"}, {"LESS": "x"}]],
    Case(OK, "match", f"diff {RUN}", shell="unset HOME PATH LANG TERM"), Case(OK, "match", "diff {dump}", shell="ulimit -v 400000"),
    Case(OK, "match", f"diff {RUN}", shell="ulimit -s unlimited"), Case(OK, "match", f"diff {RUN}", shell="ulimit -l 0"),
    Case(ENVIRONMENT, "no socket|Too many", f"diff {RUN}", {"LANESCOPE_NINJA": ""}, shell="ulimit -n 5"),
    *[Case(OK, words, line, redirect="| head -1") for line, words in {"list": "kernels", "help diff": "compare", "list --format json": "{"}.items()],
    Case(OK, "", "show {dump} s", redirect="| head -1"), Case(OK, "", "list --causes", redirect="| true"),
    Case(ENVIRONMENT, "nobody read", "show {dump} s", shell="set -o pipefail; trap '' PIPE", redirect="| true"),
    *[Case(ENVIRONMENT, "(?s)MiB.*--where.*--shape", f"diff mma softmax_only --backend sim --shape {shape}")
      for shape in ["s=1048576,d=64", "b=64,h=64,s=65536,skv=65536,d=64", "s=2000000000,d=1"]],
]
