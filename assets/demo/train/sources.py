"""Makes text.xz, the plain text of the training data, from Debian's wordnet-base (WordNet 3.0, Princeton's permissive licence).

usage: sources.py WORDNET_DIR OUT.xz      (apt-get download wordnet-base; dpkg -x wordnet-base_*.deb X; WORDNET_DIR = X/usr/share/wordnet)
Lines `=<TAB>word<TAB>definition` are the commonest nouns with their first sense; all others are definitions with example sentences.
"""
import lzma
import os
import random
import sys

# crude or touchy words keep out of a demo
AVOID = ("sex", "genital", "offensive", "slang", "slur", "obscene", "vulgar", "disparag", "nazi", "rape", "prostitut", "naked", "erotic", "penis", "vagina", "breast", "murder", "suicide", "kill", "terror", "drug", "fuck", "shit", "whore", "negro", "slave")


def synsets(path):
    """-> (offset, words, gloss)"""
    for line in open(path, encoding="utf-8"):
        if line.startswith("  "):
            continue
        head, _, gloss = line.partition(" | ")
        f = head.split()
        yield f[0], [f[4 + 2 * i].replace("_", " ").split("(")[0] for i in range(int(f[3], 16))], gloss.strip()


def main(src, out):
    r = random.Random(1)
    nouns = {off: (words, gloss) for off, words, gloss in synsets(os.path.join(src, "data.noun"))}
    first = {}
    for line in open(os.path.join(src, "index.noun"), encoding="utf-8"):
        if line.startswith("  "):
            continue
        f = line.split()
        first[f[0]] = f[-int(f[2])]
    count = {}
    for line in open(os.path.join(src, "cntlist.rev"), encoding="utf-8"):
        key, _, n = line.split()
        lemma, kind = key.split("%")
        if kind.startswith("1:"):
            count[lemma] = count.get(lemma, 0) + int(n)
    ok = lambda t: t.isascii() and not any(a in t.lower() for a in AVOID)
    lines = []
    for lemma in sorted(count, key=lambda w: (-count[w], w)):
        if lemma in first and lemma.isalpha() and len(lemma) >= 3:
            gloss = nouns[first[lemma]][1].split(";")[0].split("(")[0].strip()
            if ok(gloss) and ok(lemma) and len(gloss) > 10:
                lines.append(f"=\t{lemma}\t{gloss}")
        if len(lines) == 2500:
            break
    text = []
    for part in ("noun", "verb", "adj", "adv"):
        for _, words, gloss in synsets(os.path.join(src, "data." + part)):
            bits = [b.strip() for b in gloss.split("; ")]
            body = bits[0][:1].upper() + bits[0][1:] + "." if bits[0] else ""
            for b in bits[1:]:
                b = b.strip('"').strip()
                if len(b) > 8:
                    body += " " + b[:1].upper() + b[1:] + ("" if b[-1] in ".?!" else ".")
            one = f"{words[0].capitalize()}: {body}"
            if ok(one) and ok(" ".join(words)) and len(one) < 400 and "genus" not in one and "family" not in one:
                text.append(one)
    r.shuffle(text)
    with lzma.open(out, "wt", encoding="utf-8", preset=9) as f:
        f.write("\n".join(lines + text) + "\n")
    print(f"{len(lines)} common nouns, {len(text)} definitions, {sum(map(len, text))} characters, {os.path.getsize(out)} bytes packed")


if __name__ == "__main__":
    main(*sys.argv[1:])
