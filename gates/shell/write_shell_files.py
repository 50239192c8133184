#!/usr/bin/env python3
"""write_shell_files.py PROGRAM BASH ZSH FISH MAN: writes completions for three shells and the manual page of
PROGRAM into these files, from the table of its commands and options that it gives itself."""

import json
import pathlib
import subprocess
import sys


def rows_of(table):
    """Of a command: what stands without a name, in order, and its options."""
    return ([row for row in table["options"] if row["positional"]],
            [row for row in table["options"] if not row["positional"]])


def bash(table):
    """By the word before the cursor, where that is an option that takes a value; else by the command."""
    def words(row):
        found = [f'compgen -W "{" ".join(row["values"])}" -- "$cur"'] if row["values"] else []
        if row["file_ending"]:
            found += [f'compgen -f -X "!*{row["file_ending"]}" -- "$cur"', 'compgen -d -S / -- "$cur"']
        return "; ".join(found) or ":"

    common = rows_of(table)[1]
    lines = [f"# bash completion of lanescope {table['version']}; made by gates/shell/write_shell_files.py",
             "_lanescope() {", '  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}',
             "  local command= place=0 i", "  for ((i = 1; i < COMP_CWORD; ++i)); do",
             '    case ${COMP_WORDS[i]} in']
    valued = sorted({name for of in [table, *table["commands"]] for row in of["options"] if row["takes_value"]
                     for name in row["names"] if name.startswith("-")})
    lines += [f'      {"|".join(valued)}) ((++i)) ;;', "      -*) ;;",
              '      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; else ((++place)); fi ;;',
              "    esac", "  done", "  local found", "  case $command:$before in"]
    for command in table["commands"]:
        for row in rows_of(command)[1] + common:
            if row["takes_value"]:
                pattern = "|".join(f'{command["command"]}:{name}' for name in row["names"])
                lines.append(f"    {pattern}) found=$({words(row)}) ;;")
    lines.append('    :--format) found=$(compgen -W "text json" -- "$cur") ;;')
    lines += ["    *)", "      case $command:$place:$cur in"]
    names = " ".join(command["command"] for command in table["commands"])

    def options(rows):
        return " ".join(name for row in rows for name in row["names"])

    lines.append(f'        :*:-*) found=$(compgen -W "{options(common)}" -- "$cur") ;;')
    lines.append(f'        :*) found=$(compgen -W "{names}" -- "$cur") ;;')
    for command in table["commands"]:
        name, (places, own) = command["command"], rows_of(command)
        lines.append(f'        {name}:*:-*) found=$(compgen -W "{options(own + common)}" -- "$cur") ;;')
        for i, row in enumerate(places):
            place = "*" if row["repeats"] else i
            lines.append(f"        {name}:{place}:*) found=$({words(row)}) ;;")
    lines += ["      esac ;;", "  esac", "  mapfile -t COMPREPLY < <(printf '%s' \"$found\")",
              '  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; fi',
              "}", "complete -o filenames -F _lanescope lanescope", ""]
    return "\n".join(lines)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(table):
    def action(row):
        parts = []
        if row["values"]:
            parts.append(f"compadd -- {' '.join(row['values'])}")
        if row["file_ending"]:
            parts.append(f"_files -g \"*{row['file_ending']}\"")
        return "{" + "; ".join(parts) + "}" if parts else " "

    def specs(rows):
        for row in rows:
            about = row["about"].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
            value = f":value:{action(row)}" if row["takes_value"] else ""
            several = "*" if row["repeats"] else ""
            for name in row["names"]:
                others = f"({' '.join(row['names'])})" if not several else ""
                yield quoted(f"{others}{several}{name}[{about}]{value}")

    common = rows_of(table)[1]
    lines = ["#compdef lanescope", f"# lanescope {table['version']}; made by gates/shell/write_shell_files.py",
             "_lanescope() {", "  local state line", "  local -a commands=("]
    lines += [f"    {quoted(command['command'] + ':' + command['about'])}" for command in table["commands"]]
    lines += ["  )", "  local -a common=(", *(f"    {spec}" for spec in specs(common)), "  )",
              "  _arguments -C $common '1: :->command' '*:: :->rest'", "  case $state in",
              "    command) _describe command commands ;;", "    rest)", "      case $line[1] in"]
    for command in table["commands"]:
        places, own = rows_of(command)
        lines.append(f"        {command['command']}) _arguments $common \\")
        arguments = list(specs(own))
        for i, row in enumerate(places, 1):
            place = "*" if row["repeats"] else i
            arguments.append(quoted(f"{place}:{row['names'][0]}:{action(row)}"))
        lines += [f"          {argument} \\" for argument in arguments]
        lines[-1] = lines[-1].removesuffix(" \\") + " ;;"
    return "\n".join([*lines, "      esac ;;", "  esac", "}", '_lanescope "$@"', ""])


def fish(table):
    def choices(row):
        text = f" -a {quoted(' '.join(row['values']))}" if row["values"] else ""
        if row["file_ending"]:
            text = f" -a {quoted(' '.join([*row['values'], '(__fish_complete_suffix ' + row['file_ending'] + ')']))}"
        return text

    def option(when, row):
        names = "".join(f" -{'s' if len(name) == 2 else 'l'} {name.lstrip('-')}" for name in row["names"])
        value = f" -x{choices(row)}" if row["takes_value"] else ""
        return f"complete -c lanescope{when}{names}{value} -d {quoted(row['about'])}"

    lines = [f"# lanescope {table['version']}; made by gates/shell/write_shell_files.py", "complete -c lanescope -f"]
    lines += [option("", row) for row in rows_of(table)[1]]
    for command in table["commands"]:
        lines.append(f"complete -c lanescope -n __fish_use_subcommand -a {command['command']} -d {quoted(command['about'])}")
        when = f" -n {quoted('__fish_seen_subcommand_from ' + command['command'])}"
        places, own = rows_of(command)
        lines += [option(when, row) for row in own if row["names"] != ["-h", "--help"]]
        lines += [f"complete -c lanescope{when}{choices(row)}" for row in places if choices(row)]
    return "\n".join([*lines, ""])


def man(table):
    def escaped(text):
        text = text.replace("\\", "\\e").replace("-", "\\-")
        return "\\&" + text if text.startswith((".", "'")) else text

    def usage(command):
        places, _ = rows_of(command)
        words = [row["names"][0].upper() if row["required"] else f"[{row['names'][0].upper()}]" for row in places]
        return " ".join([f"\\fB{command['command']}\\fR", "[OPTIONS]", *words])

    def described(rows):
        for row in rows:
            names = ", ".join(f"\\fB{escaped(name if name.startswith('-') else name.upper())}\\fR" for name in row["names"])
            yield from [".TP", names + (" \\fIVALUE\\fR" if row["takes_value"] and not row["positional"] else ""),
                        escaped(row["about"] or "see above")]
            if not all(value in row["about"] for value in row["values"]) and len(row["values"]) <= 12:
                yield "One of: " + escaped(", ".join(row["values"])) + (", or a file." if row["file_ending"] else ".")

    lines = [f'.TH LANESCOPE 1 "" "lanescope {table["version"]}"', ".SH NAME",
             f"lanescope \\- {escaped(table['about'])}", ".SH SYNOPSIS",
             ".B lanescope", "[OPTIONS] COMMAND [OPTIONS] ...", ".SH OPTIONS", *described(rows_of(table)[1]),
             ".SH COMMANDS"]
    for command in table["commands"]:
        places, own = rows_of(command)
        lines += [f".SS {usage(command)}", escaped(command["about"]), *described(places),
                  *described(row for row in own if row["names"] != ["-h", "--help"])]
    lines.append(".SH EXIT STATUS")
    for row in table["exit_codes"]:
        lines += [".TP", str(row["code"]), escaped(row["meaning"])]
    return "\n".join([*lines, ""])


def main():
    program, *files = sys.argv[1:]
    said = subprocess.run([program, "help", "--format", "json"], check=True, capture_output=True, text=True)
    table = json.loads(said.stdout)
    for write, file in zip((bash, zsh, fish, man), files, strict=True):
        pathlib.Path(file).write_text(write(table))


if __name__ == "__main__":
    main()
