"""More turns of a dialogue: letters of words, problems told in words, small questions of newcomers.  Each takes the random source and the
dialogue's state and returns a turn, as in data.py."""
import re

from sums import in_words, plural, say, work_out
from talk import BULLETS, CITIES, CODE, COLORS, EXPLAIN, LIKES, NAMES, THINGS


# ---- letters ----

def any_word(r, s):
    """Any lemma of the dictionary that is on this side of the split; sometimes a name."""
    p = r.random()
    return r.choice(NAMES + CITIES) if p < 0.05 and not s["unseen"] else r.choice(s["spell"])


def t_spell(r, s):
    w = any_word(r, s)
    letters = "-".join(w)
    k = r.choices(range(6), (38, 22, 12, 8, 7, 13))[0]
    if k == 0:
        q = r.choice(["Spell {w}", "Spell {w}", "Spell {w}.", "Spell the word {w}", "How do you spell {w}?", "Please spell '{w}'", "Can you spell {w}?", "How is {w} spelled?", "spell \"{w}\"", "spell {w}", "What are the letters of {w}?", "How do I spell {w}?", "Now spell {w}"])
        return say(q.format(w=w), f"I take the letters of {w} one by one.", f"{letters}.", kind="spell", answer=letters)
    if k == 1 and len(w) <= 7:
        q = r.choice(["Reverse the word {w}", "Write {w} backwards", "What is {w} backwards?", "Reverse '{w}'", "Reverse {w}", "Spell {w} backwards", "reverse {w}", "Say {w} backwards"])
        work = f"Forwards: {letters}\nBackwards: {'-'.join(w[::-1])}"
        return say(q.format(w=w), work, w[::-1] if s["thinking"] else f"{work}\n{w[::-1]}", kind="reverse", answer=w[::-1])
    if k <= 2:
        q = r.choice(["How many letters are in {w}?", "How many letters does {w} have?", "Count the letters of {w}", "How long is the word {w}?", "How many letters has the word {w}?"])
        work = ", ".join(f"{c} {i + 1}" for i, c in enumerate(w))
        a = f"The word {w} has {len(w)} letters."
        return say(q.format(w=w), work, a if s["thinking"] else f"{work}. {a}", kind="letters", answer=str(len(w)))
    if k == 3:
        first = r.random() < 0.5
        q = r.choice(["What is the {p} letter of {w}?", "Which letter is the {p} in {w}?", "{p} letter of {w}?", "{w}: what is the {p} letter?"]).format(w=w, p="first" if first else "last")
        x = w[0] if first else w[-1]
        a = f"The {'first' if first else 'last'} letter of {w} is {x}."
        return say(q, letters, a if s["thinking"] or first else f"{letters}. {a}", kind="letter", answer=x)
    if k == 4:
        up = r.random() < 0.7
        q = r.choice(["Write {w} in {c} case", "Put {w} in {c} case", "{w} in {c} case please", "Convert {w} to {c} case"]).format(w=w if up else w.upper(), c="upper" if up else "lower")
        return say(q, letters.upper() if up else letters, w.upper() if up else w.lower(), kind="case", answer=w.upper() if up else w.lower())
    c = r.choice(w).lower() if r.random() < 0.8 else r.choice("aeinorst")
    n, parts = 0, []
    for x in w:
        n += x.lower() == c
        parts.append(f"{x} {n}" if x.lower() == c else x)
    q = r.choice(["How many {c} are in {w}?", "How many {c}'s are in {w}?", "How often is the letter {c} in {w}?", "How many times does {c} appear in {w}?", "Count the letter {c} in {w}", "How many {c}s are in {w}?", "How many {c}'s are there in the word {w}?"])
    a = f"The letter {c} is in {w} {n} time{'' if n == 1 else 's'}."
    return say(q.format(c=c, w=w), ", ".join(parts), a if s["thinking"] else f"{', '.join(parts)}. {a}", kind="letter_count", answer=str(n))


# ---- problems in words ----

def problem(r, hi):
    """-> text, steps [(a, op, b)], answer with {x}"""
    n, m = r.sample(NAMES, 2)
    one = r.choice(THINGS)
    t = plural(one)
    a, b = r.randint(3, hi), r.randint(2, hi)
    x, y = max(a, b), min(a, b)
    p, g = r.randint(2, 10), r.randint(2, 10)
    c = r.choice(CITIES)
    more = r.choice(["gets", "buys", "finds", "receives", "is given"])
    fewer = r.choice(["loses {y}", "gives {y} to {m}", "sells {y}", "eats {y}", "breaks {y}", "gives away {y}", "uses {y}"]).format(y=y, m=m)
    had = r.random() < 0.3
    has, do = ("had", "does") if had else ("has", "does")
    ask = r.choice([f"How many {t} {do} {n} have?", f"How many {t} {do} {n} have now?", f"How many {t} are there now?", "How many is that?", f"How many {t} does {n} have in total?"])
    left = r.choice([f"How many {t} does {n} have left?", f"How many {t} are left?", f"How many {t} does {n} still have?", "How many are left?"])
    return r.choice([
        lambda: (f"{n} {has} {a} {t} and {more} {b} more. {ask}", [(a, "+", b)], f"{n} has {{x}} {t}."),
        lambda: (f"{n} {has} {a} {t}. {n} {more} {b} more {t}. {ask}", [(a, "+", b)], f"{n} has {{x}} {t}."),
        lambda: (f"{n} {has} {x} {t} and {fewer}. {left}", [(x, "-", y)], f"{n} has {{x}} {t} left."),
        lambda: (f"{n} {has} {x} {t}. {n} {fewer}. {left}", [(x, "-", y)], f"{n} has {{x}} {t} left."),
        lambda: (f"If {n} has {x} {t} and {fewer}, how many are left?", [(x, "-", y)], f"{n} has {{x}} {t} left."),
        lambda: (f"If I have {a} {t} and buy {b} more, how many {t} do I have?", [(a, "+", b)], f"You have {{x}} {t}."),
        lambda: (f"I have {x} {t} and {r.choice(['lose', 'eat', 'sell', 'give away', 'use'])} {y}. How many are left?", [(x, "-", y)], f"You have {{x}} {t} left."),
        lambda: (f"{n} {has} {a} {t} and {m} has {b} {t}. {r.choice([f'How many {t} do they have together?', f'How many {t} do they have in total?', 'How many is that together?'])}", [(a, "+", b)], f"Together they have {{x}} {t}."),
        lambda: (f"{n} has {x} {t} and {m} has {y}. How many more does {n} have?", [(x, "-", y)], f"{n} has {{x}} more."),
        lambda: (f"There are {p} boxes with {g} {t} {r.choice(['each', 'in each box'])}. How many {t} are there{r.choice(['', ' in total', ' altogether'])}?", [(p, "*", g)], f"There are {{x}} {t}."),
        lambda: (f"{n} buys {p} {t} for {g} {r.choice(['euros', 'dollars', 'coins'])} each. How much does {n} pay?", [(p, "*", g)], f"{n} pays {{x}}."),
        lambda: (f"A {one} costs {g} euros. How much do {p} {t} cost?", [(p, "*", g)], f"{p} {t} cost {{x}} euros."),
        lambda: (f"There are {x} {t}. {n} takes {y}. {left}", [(x, "-", y)], f"{{x}} {t} are left."),
        lambda: (f"{p * g} {t} are shared by {p} children. How many {t} does each child get?", [(p * g, "/", p)], f"Each child gets {{x}} {t}."),
        lambda: (f"{n} {r.choice(['shares', 'divides'])} {p * g} {t} among {p} friends. How many {t} does each get?", [(p * g, "/", p)], f"Each gets {{x}} {t}."),
        lambda: (f"A bus has {x} people. {y} get off at {c}. How many people are left?", [(x, "-", y)], "{x} people are left."),
        lambda: (f"A train has {a} people. {b} get on in {c}. How many people are on the train?", [(a, "+", b)], "{x} people are on the train."),
        lambda: (f"{n} reads {g} pages a day. How many pages does {n} read in {p} days?", [(g, "*", p)], f"{n} reads {{x}} pages."),
        lambda: (f"{n} walks {a} km and then {b} km. How far does {n} walk?", [(a, "+", b)], f"{n} walks {{x}} km."),
        lambda: (f"{n} is {x} years old and {m} is {y}. How much older is {n}?", [(x, "-", y)], f"{n} is {{x}} years older."),
        lambda: (f"{n} is {a} years old. How old will {n} be in {g} years?", [(a, "+", g)], f"{n} will be {{x}} years old."),
        lambda: (f"A book has {x} pages. {n} has read {y}. How many pages are left?", [(x, "-", y)], "{x} pages are left."),
        lambda: (f"{n} has {x} {r.choice(['euros', 'dollars'])} and buys a {one} for {y}. How much money is left?", [(x, "-", y)], "{x} is left."),
        lambda: (f"{n} has {x} {t}, {r.choice(['loses', 'gives away', 'sells'])} {y} and then {more} {g} more. {ask}", [(x, "-", y), (x - y, "+", g)], f"{n} has {{x}} {t}."),
        lambda: (f"{n} has {a} {t}, {more} {b} more and then {r.choice(['loses', 'gives away', 'sells'])} {min(g, a)}. {ask}", [(a, "+", b), (a + b, "-", min(g, a))], f"{n} has {{x}} {t}."),
        lambda: (f"There are {a} red {t}, {b} blue {t} and {g} green {t}. How many {t} are there?", [(a, "+", b), (a + b, "+", g)], f"There are {{x}} {t}."),
        lambda: (f"{n} has {p} bags with {g} {t} each and {y} more {t}. How many {t} does {n} have?", [(p, "*", g), (p * g, "+", y)], f"{n} has {{x}} {t}."),
    ])()


def t_word_problem(r, s):
    """The working is written out also when the model does not think first."""
    text, steps, answer = problem(r, r.choice((12, 20, 20, 50, 90)))
    if r.random() < 0.05:
        text = re.sub(r"\d+", lambda m: in_words(int(m[0])) if int(m[0]) < 100 else m[0], text)
    lines, short = [], []
    for a, op, b in steps:
        x, work = work_out(a, op, b)
        lines += work
        short.append(f"{a} {op} {b} = {x}.")
    content = answer.format(x=x)
    return say(text, "\n".join(lines), content if s["thinking"] else " ".join(short + [content]), kind="word_problem", answer=str(x), expression=expression(steps))


def expression(steps):
    a, op, b = steps[0]
    if len(steps) == 1:
        return f"{a} {op} {b}"
    return f"{a} {op} {b} {steps[1][1]} {steps[1][2]}"


# ---- small questions ----

def t_prime(r, s):
    n = r.randint(1, 100)
    d = next((d for d in (2, 3, 5, 7) if n % d == 0 and n != d), None)
    q = r.choice(["Is {n} a prime number?", "Is {n} prime?", "Is {n} a prime?", "is {n} a prime number"]).format(n=n)
    if n == 1:
        return say(q, "1 is not prime by definition.", "No, 1 is not a prime number.", kind="prime", answer="No")
    if d:
        return say(q, f"{n} = {d} * {n // d}", f"No, {n} = {d} * {n // d}.", kind="prime", answer="No")
    return say(q, f"No smaller number divides {n}.", f"Yes, {n} is a prime number.", kind="prime", answer="Yes")


def t_square(r, s):
    k = r.randrange(5)
    n = r.randint(0, 20)
    if k == 0:
        return say(r.choice(["What is the square root of {m}?", "Square root of {m}?", "What is the root of {m}?", "sqrt({m})"]).format(m=n * n), f"{n} * {n} = {n * n}", f"The square root of {n * n} is {n}.", kind="square", answer=str(n), expression=None)
    if k == 1:
        n, p = r.randint(1, 200), r.choice((10, 50, 100))
        n = n * 10 if p == 10 else n * 2 if p == 50 else n
        x = n * p // 100
        return say(r.choice(["What is {p} % of {n}?", "{p}% of {n}", "How much is {p} percent of {n}?", "What is {p}% of {n}?"]).format(p=p, n=n), f"{p} % of {n} is {x}.", f"{p} % of {n} is {x}.", kind="percent", answer=str(x), expression=f"{n} * {p} / 100")
    if k == 2:
        n = r.randint(1, 250)
        two = r.random() < 0.5
        x = 2 * n
        if two:
            return say(r.choice(["What is half of {x}?", "Half of {x}?", "What is {x} divided by two?"]).format(x=x), f"{x} / 2 = {n}", f"Half of {x} is {n}.", kind="half", answer=str(n), expression=f"{x} / 2")
        return say(r.choice(["What is double {n}?", "What is twice {n}?", "Double {n}", "What is the double of {n}?"]).format(n=n), f"{n} * 2 = {x}", f"Twice {n} is {x}.", kind="half", answer=str(x), expression=f"{n} * 2")
    return say(r.choice(["What is the square of {n}?", "What's the square of {n}?", "Square of {n}?", "What is {n} squared?", "{n} squared", "{n}^2", "Square {n}", "What is {n}^2?"]).format(n=n), f"{n} * {n} = {n * n}", f"The square of {n} is {n * n}.", kind="square", answer=str(n * n), expression=f"{n} * {n}")


UNITS = [("km", "m", 1000), ("m", "cm", 100), ("cm", "mm", 10), ("kg", "g", 1000), ("hours", "minutes", 60), ("minutes", "seconds", 60), ("days", "hours", 24), ("weeks", "days", 7), ("years", "months", 12), ("l", "ml", 1000), ("m", "mm", 1000), ("t", "kg", 1000)]
LONG = {"km": "kilometres", "m": "metres", "cm": "centimetres", "mm": "millimetres", "kg": "kilograms", "g": "grams", "l": "litres", "ml": "millilitres", "t": "tonnes"}


def t_convert(r, s):
    u, v, f = r.choice(UNITS)
    n = r.randint(2, 20 if f in (1000, 100, 10) else 10)
    a, b, x, y = u, v, n, n * f
    if r.random() < 0.35:
        a, b, x, y = v, u, n * f, n
    if r.random() < 0.3 and a in LONG:
        a, b = LONG[a], LONG[b]
    q = r.choice(["Convert {x} {a} to {b}", "How many {b} are {x} {a}?", "How many {b} are in {x} {a}?", "What is {x} {a} in {b}?", "{x} {a} in {b}", "Convert {x} {a} into {b}.", "convert {x} {a} to {b}"])
    return say(q.format(x=x, a=a, b=b), f"{x} {'*' if x == n else '/'} {f} = {y}", f"{x} {a} are {y} {b}.", kind="convert", answer=str(y))


LENGTHS = dict(zip("January February March April May June July August September October November December".split(), (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)))


def t_month_days(r, s):
    m = r.choice(list(LENGTHS))
    n = "28 days, in a leap year 29" if m == "February" else f"{LENGTHS[m]} days"
    return say(r.choice(["How many days are in {m}?", "How many days does {m} have?", "Days in {m}?", "How long is {m}?"]).format(m=m), f"{m} has {n}.", f"{m} has {n}.", kind="month_days", answer=n)


def t_code(r, s):
    users, lang, text = r.choice(CODE)
    why = f"The user wants {lang}. I know this small example."
    return say(r.choice(users), why, f"```{lang.lower()}\n{text}\n```", kind="code")


def t_explain(r, s):
    x = r.choice(list(EXPLAIN))
    q = r.choice(["Explain {x}", "Explain {x}.", "What is {x}?", "Can you explain {x}?", "explain {x} to me", "Explain {x} in one sentence", "Tell me what {x} is", "What does {x} mean?", "Define {x}", "Please explain {x}"])
    return say(q.format(x=x), f"I know a sentence about {x}.", EXPLAIN[x], kind="explain", answer=EXPLAIN[x])


def t_bullets(r, s):
    k, items = r.choice(list(BULLETS.items()))
    n = r.randint(2, min(5, len(items)))
    w = r.choice([str(n), in_words(n)])
    if r.random() < 0.6:
        q = r.choice(["List {n} {k}", "List {n} {k}.", "Make a list of {n} {k}", "Give me a list of {n} {k}", "list {n} {k}", "Write a list of {n} {k}", "Show me {n} {k} as a list", "{n} {k} as bullet points"])
        return say(q.format(n=w, k=k), f"I list {n} {k}, one per line.", "\n".join("- " + x for x in items[:n]), kind="bullets")
    if r.random() < 0.3:
        q = r.choice(["Give me a numbered list of {n} {k}", "Numbered list of {n} {k}", "List {n} {k} with numbers"])
        return say(q.format(n=w, k=k), f"I number {n} {k}.", "\n".join(f"{i + 1}. {x}" for i, x in enumerate(items[:n])), kind="bullets")
    q = r.choice(["Name {n} {k}", "Name {n} {k}.", "Tell me {n} {k}", "Give me {n} {k}", "name {n} {k}", "Can you name {n} {k}?"])
    text = ", ".join(items[:n - 1]) + " and " + items[n - 1]
    return say(q.format(n=w, k=k), f"I name {n} {k}.", text[0].upper() + text[1:] + ".", kind="bullets")


def t_small_talk(r, s):
    """Remarks about oneself that the model can only be friendly about."""
    k = r.randrange(3)
    if k == 0:
        x = r.choice(LIKES)
        return say(r.choice(["I like {x}", "I love {x}.", "I really like {x}", "I enjoy {x}.", "{X} is great", "I like {x} very much"]).format(x=x, X=x.capitalize()), f"The user likes {x}. I am friendly.", r.choice(["That sounds nice.", f"I am glad that you like {x}."]), kind="small_talk")
    if k == 1:
        x = r.choice(LIKES)
        return say(r.choice(["Do you like {x}?", "What about {x}?", "Do you enjoy {x}?"]).format(x=x), "I am a program. I say so kindly.", f"I am only a program, but {x} sounds nice.", kind="small_talk")
    x, y = r.sample(LIKES + COLORS + THINGS, 2)
    return say(r.choice(["Which is better, {x} or {y}?", "Do you prefer {x} or {y}?", "{x} or {y}?", "What do you like more, {x} or {y}?"]).format(x=x, y=y), "I pick the first one.", f"I would take {x}.", kind="small_talk")
