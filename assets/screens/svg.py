#!/usr/bin/env python3
"""A screen as `tmux capture-pane -e -p -N` prints it (stdin) -> a picture (stdout): svg.py COLUMNS ROWS [CURSOR_X CURSOR_Y].

Text stays text.  The sixteen colours are a light terminal's, or a dark one's where the reader's browser says that it is dark."""
import html
import re
import sys

WIDTH, HEIGHT, SIZE, EDGE = 8.43, 17, 14, 10         # of a cell, of the letters, around all of it
LIGHT = dict(paper="#fbfbf8", ink="#24292f", c=["#24292f", "#b3261e", "#1a7f37", "#8a5a00", "#0550ae", "#8250df", "#12717d", "#6e7781"])
DARK = dict(paper="#16191d", ink="#d7dbe0", c=["#7d8590", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#d7dbe0"])
PLAIN = dict(fg=None, bg=None, bold=False, dim=False, italic=False, underline=False, reverse=False, strike=False)
MARKS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}


def rgb(n):
    if n >= 232:
        return "#" + "%02x" % (8 + 10 * (n - 232)) * 3
    n -= 16
    return "#%02x%02x%02x" % tuple((0, 95, 135, 175, 215, 255)[k] for k in (n // 36, n // 6 % 6, n % 6))


def colour(codes):
    """After 38 or 48: 5;N or 2;R;G;B.  A small number is one of the sixteen."""
    if codes.pop(0) == 5:
        n = codes.pop(0)
        return n & 7 if n < 16 else rgb(n)
    return "#%02x%02x%02x" % tuple(codes.pop(0) for _ in range(3))


def apply(look, codes):
    look = dict(look)
    while codes:
        c = codes.pop(0)
        if c == 0:
            look = dict(PLAIN)
        elif c in MARKS:
            look[MARKS[c]] = True
        elif c == 22:
            look["bold"] = look["dim"] = False
        elif c - 20 in MARKS:
            look[MARKS[c - 20]] = False
        elif 30 <= c <= 37 or 90 <= c <= 97:
            look["fg"] = c % 10
        elif 40 <= c <= 47 or 100 <= c <= 107:
            look["bg"] = c % 10
        elif c in (38, 48):
            look["fg" if c == 38 else "bg"] = colour(codes)
        elif c in (39, 49):
            look["fg" if c == 39 else "bg"] = None
    return look


def wide(ch):
    import unicodedata
    return 0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1


def runs(line, look):
    """(column, columns, text, look) of a row, and the look at its end."""
    out, at, drawing = [], 0, False
    for part in re.findall(r"\x1b\[[\d;:]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x0e|\x0f|[^\x1b\x0e\x0f]+", line):
        if part.startswith("\x1b["):
            look = apply(look, [int(c or 0) for c in re.split("[;:]", part[2:-1])])
        elif part in "\x0e\x0f":
            drawing = part == "\x0e"             # the other character set: lines
        elif part[0] != "\x1b":
            part = part.translate(str.maketrans("qxlkmjntuvw", "─│┌┐└┘┼├┤┴┬")) if drawing else part
            n = sum(map(wide, part))
            out.append((at, n, part, look))
            at += n
    return out, look


def fills(look):
    """Classes of paper and ink: p0..p7 for the sixteen, else a colour; None is the page's own paper."""
    fg, bg = look["fg"], look["bg"]
    if look["reverse"]:
        fg, bg = ("paper" if bg is None else bg), ("ink" if fg is None else fg)
    return "ink" if fg is None else fg, bg


def paint(fill):
    return f'class="k{fill}"' if isinstance(fill, int) else f'class="{fill}"' if fill in ("ink", "paper") else f'fill="{fill}"'


def style(p):
    rules = [f".paper{{fill:{p['paper']}}}.ink{{fill:{p['ink']}}}"]
    rules += [f".k{i}{{fill:{c}}}" for i, c in enumerate(p["c"])]
    return "".join(rules)


def picture(text, columns, rows, cursor):
    w, h = columns * WIDTH + 2 * EDGE, rows * HEIGHT + 2 * EDGE
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h}" viewBox="0 0 {w:.1f} {h}">',
           f"<style>text{{font:{SIZE}px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}}"
           ".b{font-weight:bold}.i{font-style:italic}.d{opacity:.62}.u{text-decoration:underline}.s{text-decoration:line-through}"
           f"{style(LIGHT)}@media(prefers-color-scheme:dark){{{style(DARK)}}}</style>",
           f'<rect class="paper" width="{w:.1f}" height="{h}" rx="6" stroke="#8b949e" stroke-opacity=".4"/>']
    look = dict(PLAIN)
    for row, line in enumerate(text.split("\n")[:rows]):
        parts, look = runs(line, look)
        y = EDGE + row * HEIGHT
        for at, n, piece, how in parts:
            ink, paper = fills(how)
            x = EDGE + at * WIDTH
            if paper is not None:
                out.append(f'<rect {paint(paper)} x="{x:.1f}" y="{y}" width="{n * WIDTH:.1f}" height="{HEIGHT}"/>')
            marks = " ".join(k[0] for k in ("bold", "italic", "dim", "underline", "strike") if how[k])
            fill = paint(ink)
            if marks:
                fill = fill[:-1] + f' {marks}"' if fill.startswith("class") else f'{fill} class="{marks}"'
            # Words in their columns, so that no reader's font and no renderer's idea of blanks moves them.
            for word in re.finditer(r"\S+(?: \S+)*" if not how["underline"] else r".+", piece):
                before, n = sum(map(wide, piece[:word.start()])), sum(map(wide, word.group()))
                out.append(f'<text {fill} x="{x + before * WIDTH:.1f}" y="{y + 13}" textLength="{n * WIDTH:.1f}">'
                           f'{html.escape(word.group(), quote=False)}</text>')
    if cursor:
        x, y = EDGE + cursor[0] * WIDTH, EDGE + cursor[1] * HEIGHT
        out.append(f'<rect class="ink" x="{x:.1f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" opacity=".55"/>')
    return "\n".join(out + ["</svg>"]) + "\n"


numbers = [int(n) for n in sys.argv[1:]]
sys.stdout.write(picture(sys.stdin.read(), numbers[0], numbers[1], numbers[2:4]))
