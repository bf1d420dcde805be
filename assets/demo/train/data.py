"""Seeded generators of training dialogues, rendered as the chat template renders them, tokenised and packed into rows.

A dialogue is a list of messages plus a `check` that says how to judge an answer.  Only what the model has to write is trained at full weight.
`python3 data.py --show 20` prints samples; `--check-template FILE.jinja` compares our rendering with the template's; `--stats` counts tokens.
"""
import argparse
import json
import lzma
import os
import random
import zlib

import numpy as np

from sums import ask_sum, in_words, operands, plural, say, work_out
from talk import (CAPITALS, CITIES, COLORS, FACTS, FOODS, HOBBIES, INTENTS, JOBS, NAMES, OPPOSITES, PETS, SYSTEMS, THINGS, UNKNOWN, UNKNOWN_Q, ZONES)
from topics import t_bullets, t_code, t_convert, t_explain, t_month_days, t_prime, t_small_talk, t_spell, t_square, t_word_problem

ROW = 1536                                 # tokens of a training row; whole documents are packed into rows
PAD, PROMPT, OUTPUT, TEXT, EARLIER = range(5)   # classes of a token, weighted in train.py; EARLIER: answers of turns before the last
HERE = os.path.dirname(os.path.abspath(__file__))

CLOCK = {"type": "function", "function": {"name": "clock", "description": "Tells the current date and time.", "parameters": {"type": "object", "properties": {
    "zone": {"type": "string", "description": "IANA time zone, for example Europe/Paris; local time if absent"}}, "required": []}}}
CALCULATOR = {"type": "function", "function": {"name": "calculator", "description": "Evaluates an arithmetic expression.", "parameters": {"type": "object", "properties": {
    "expression": {"type": "string", "description": "for example (3 + 4) * 12"}}, "required": ["expression"]}}}

TOOL_TEXT = """

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls
</IMPORTANT>"""


# ---- rendering ----

def render_calls(calls, content):
    out = "\n\n" if calls and content else ""
    for i, call in enumerate(calls):
        out += ("\n" if i else "") + f"<tool_call>\n<function={call['name']}>\n"
        for k, v in call["arguments"].items():
            v = json.dumps(v, ensure_ascii=False) if isinstance(v, (dict, list)) else str(v)
            out += f"<parameter={k}>\n{v}\n</parameter>\n"
        out += "</function>\n</tool_call>"
    return out


def render(d):
    """-> [(text, class)]: prompt pieces alternate with what the model writes.  Earlier turns lose their reasoning, as in the template."""
    system, tools, msgs = d["system"], d["tools"], d["messages"]
    text = ""
    if tools:
        text = "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>"
        text += "".join("\n" + json.dumps(t, ensure_ascii=False) for t in tools) + "\n</tools>" + TOOL_TEXT
        text += ("\n\n" + system if system else "") + "<|im_end|>\n"
    elif system is not None:
        text = f"<|im_start|>system\n{system}<|im_end|>\n"
    last = max(i for i, m in enumerate(msgs) if m["role"] == "user")
    out = []
    for i, m in enumerate(msgs):
        if m["role"] == "user":
            text += f"<|im_start|>user\n{m['content']}<|im_end|>\n"
        elif m["role"] == "tool":
            text += "" if msgs[i - 1]["role"] == "tool" else "<|im_start|>user"
            text += f"\n<tool_response>\n{m['content']}\n</tool_response>"
            text += "" if i + 1 < len(msgs) and msgs[i + 1]["role"] == "tool" else "<|im_end|>\n"
        else:
            body = m["content"] + render_calls(m.get("calls", []), m["content"])
            if i < last:
                if d["thinking"]:                         # what was thought before it is gone: not for learning
                    text += f"<|im_start|>assistant\n{body}<|im_end|>\n"
                else:
                    out += [(text + "<|im_start|>assistant\n", PROMPT), (body + "<|im_end|>", EARLIER)]
                    text = "\n"
                continue
            text += "<|im_start|>assistant\n<think>\n"
            if d["thinking"]:
                body = f"{m['reasoning']}\n</think>\n\n{body}"
            else:
                text += "\n</think>\n\n"
            out += [(text, PROMPT), (body + "<|im_end|>", OUTPUT)]
            text = "\n"
    return out


def prompt_of(d):
    """What the model gets before the last turn, and what it should write first."""
    parts = render(d)
    at = next(i for i, (_, c) in enumerate(parts) if c == OUTPUT)
    return "".join(t for t, _ in parts[:at]), parts[at][0]


# ---- sums ----

def t_sum(r, s):
    a, op, b = operands(r)
    n, lines = work_out(a, op, b)
    answer = f"{a} {op} {b} = {n}."
    plain = (op in "+-" and max(a, b) < 100) or len(lines) == 1 or (op == "*" and a * b <= 144)
    content = answer if s["thinking"] or plain else "\n".join(lines + [answer])
    if s["style"] == "word":
        content = f"{n}"
    s["last"] = n
    return say(ask_sum(r, a, op, b), "\n".join(lines), content, kind="sum", answer=str(n), digits=max(len(str(a)), len(str(b))), op=op)


def t_add_to_last(r, s):
    if s.get("last") is None or not 0 <= s["last"] < 1000:
        return t_calculator(r, s)                        # a sum where there is no calculator
    a, b = s["last"], r.randint(1, 50)
    op = r.choice("+-") if a >= b else "+"
    n, lines = work_out(a, op, b)
    s["last"] = n
    q = r.choice(["Add {b} to that", "Now add {b}", "And {b} more?", "plus {b}", "Add {b} more", "and now add {b}", "What if you add {b}?"] if op == "+" else ["Subtract {b} from that", "Now subtract {b}", "minus {b}", "Take away {b}", "And minus {b}?"]).format(b=b)
    if "calculator" in s["tool_names"]:
        return tool_turn(r, q, "calculator", {"expression": f"{a} {op} {b}"}, f"The last result was {a}. I call calculator.", str(n), f"The calculator says {n}.", f"{a} {op} {b} = {n}.", kind="tool_calculator")
    plain = s["thinking"] or max(a, b) < 100
    answer = f"{a} {op} {b} = {n}."
    return say(q, "\n".join([f"The last result was {a}."] + lines), answer if plain else "\n".join(lines + [answer]), kind="sum_follow", answer=str(n))


def t_three(r, s):
    a, b, c = (r.randint(1, 99 if s["thinking"] else 12) for _ in range(3))
    m, l1 = work_out(a, "+", b)
    n, l2 = work_out(m, "+", c)
    q = r.choice(["What is {a} + {b} + {c}?", "{a}+{b}+{c}", "Add {a}, {b} and {c}", "{a} plus {b} plus {c}", "What is the sum of {a}, {b} and {c}?", "How much is {a} + {b} + {c}?"]).format(a=a, b=b, c=c)
    return say(q, "\n".join(l1 + l2), f"{a} + {b} + {c} = {n}.", kind="sum3", answer=str(n))


def t_compare(r, s):
    k = r.randint(1, 4)
    a, b = r.randint(0, 10 ** k - 1), r.randint(0, 10 ** k - 1)
    if a == b:
        b += 1
    big = r.random() < 0.6
    q = r.choice(["Which is {w}, {a} or {b}?", "Which number is {w}: {a} or {b}?", "What is {w}, {a} or {b}?", "{a} or {b}, which is {w}?", "Is {a} or {b} {w}?"]).format(a=a, b=b, w=r.choice(["larger", "bigger", "greater"]) if big else r.choice(["smaller", "less"]))
    x, y = (max(a, b), min(a, b)) if big else (min(a, b), max(a, b))
    return say(q, f"{max(a, b)} is more than {min(a, b)}.", f"{x} is {'larger' if big else 'smaller'} than {y}.", kind="compare", answer=str(x))


def t_yes_no(r, s):
    a, b = r.randint(0, 99), r.randint(0, 99)
    if r.random() < 0.5:
        q = r.choice(["Is {a} even?", "Is {a} an even number?"]) if r.random() < 0.5 else r.choice(["Is {a} odd?", "Is {a} an odd number?"])
        even = a % 2 == 0
        yes = even == ("even" in q)
        return say(q.format(a=a), f"{a} ends in {a % 10}, so it is {'even' if even else 'odd'}.", f"{'Yes' if yes else 'No'}, {a} is {'even' if even else 'odd'}.", kind="parity", answer="Yes" if yes else "No")
    if a == b:
        b += 1
    big = r.random() < 0.5
    yes = (a > b) == big
    word = "larger" if big else "smaller"
    return say(f"Is {a} {word} than {b}?", f"Compare {a} and {b}.", f"{'Yes' if yes else 'No'}, {a} is {'larger' if a > b else 'smaller'} than {b}.", kind="compare", answer="Yes" if yes else "No")


def t_count(r, s):
    k = r.randrange(6)
    if k == 0:
        a = r.randint(0, 30)
        b = a + r.randint(2, 14)
        return say(r.choice(["Count from {a} to {b}", "Count from {a} to {b}.", "Please count from {a} to {b}", "List the numbers from {a} to {b}"]).format(a=a, b=b), f"I count from {a} to {b}.", ", ".join(map(str, range(a, b + 1))) + ".", kind="count")
    if k == 1:
        b = r.randint(3, 20)
        return say(r.choice(["Count to {b}", "Count to {b}.", "Can you count to {b}?", "Please count to {b}"]).format(b=b), f"I count from 1 to {b}.", ", ".join(map(str, range(1, b + 1))) + ".", kind="count")
    if k == 2:
        b = r.randint(3, 15)
        return say(r.choice(["Count down from {b}", "Count backwards from {b}", "Count down from {b} to 1"]).format(b=b), f"I count down from {b} to 1.", ", ".join(map(str, range(b, 0, -1))) + ".", kind="count")
    if k == 3:
        a = r.randint(0, 998)
        after = r.random() < 0.6
        if not after and not a:
            a = 1
        x = a + 1 if after else a - 1
        w = "after" if after else "before"
        return say(r.choice(["What comes {w} {a}?", "Which number comes {w} {a}?", "What number is {w} {a}?"]).format(a=a, w=w), f"{a} {'+' if after else '-'} 1 = {x}", f"{x} comes {w} {a}.", kind="count", answer=str(x))
    xs = [r.randint(0, 99) for _ in range(r.randint(3, 5))]
    text = ", ".join(map(str, xs))
    if k == 4:
        return say(r.choice(["Sort {t}", "Sort these numbers: {t}", "Put {t} in order", "Sort the numbers {t}"]).format(t=text), "I go from small to large.", ", ".join(map(str, sorted(xs))) + ".", kind="sort")
    big = r.random() < 0.5
    x = max(xs) if big else min(xs)
    return say(r.choice(["What is the {w} of {t}?", "Find the {w} of {t}", "Which is the {w}: {t}?"]).format(t=text, w="largest" if big else "smallest"), f"I look for the {'largest' if big else 'smallest'} number.", f"{x}.", kind="max", answer=str(x))


# ---- words ----

def some_text(r, s, lo=1, hi=6):
    return " ".join(r.choice(s["words"]) for _ in range(r.randint(lo, hi)))


def t_repeat(r, s):
    w = some_text(r, s)
    if r.random() < 0.2:
        w = f"{r.choice(NAMES)} has {r.randint(2, 99)} {plural(r.choice(THINGS))}"
    k = r.randint(2, 5)
    if r.random() < 0.2:
        w = r.choice(s["words"])
        return say(r.choice(["Say {w} {k} times", "Repeat {w} {k} times", "Write {w} {k} times", "Write the word {w} {k} times"]).format(w=w, k=r.choice([k, in_words(k)])), f"{k} times {w}.", " ".join([w] * k), kind="repeat", answer=" ".join([w] * k))
    q = r.choice(["Repeat after me: {w}", "Say: {w}", "Say {w}", "Say '{w}'", "Repeat: {w}", "Please repeat: {w}", "Echo {w}", "Write: {w}", "Just say \"{w}\"", "Repeat this: {w}", "Type {w}"])
    return say(q.format(w=w), "I repeat the words.", w, kind="repeat", answer=w)


def t_list(r, s):
    items = r.sample(THINGS + PETS + COLORS, r.randint(3, 5))
    k = r.randrange(4)
    text = ", ".join(items)
    if k == 0:
        return say(r.choice(["What is the first of these: {t}?", "Which is the first: {t}?"]).format(t=text), "I take the first one.", f"{items[0]}.".capitalize(), kind="list", answer=items[0])
    if k == 1:
        return say(r.choice(["What is the last of these: {t}?", "Which is the last: {t}?"]).format(t=text), "I take the last one.", f"{items[-1]}.".capitalize(), kind="list", answer=items[-1])
    if k == 2:
        return say(r.choice(["How many things are in this list: {t}?", "Count these: {t}", "How many are these: {t}?"]).format(t=text), ", ".join(f"{w} {i + 1}" for i, w in enumerate(items)), f"{len(items)}.", kind="list", answer=str(len(items)))
    return say(r.choice(["Make a list of {t}", "Write {t} as a list", "List these one per line: {t}", "Turn this into bullet points: {t}"]).format(t=text), "One line for each.", "\n".join("- " + w for w in items), kind="list")


def t_intent(r, s):
    name = r.choices(list(INTENTS), [6 if k in ("hello", "who_are_you", "what_can_you_do", "how_are_you") else 2 if len(v[0]) > 12 else 1 for k, v in INTENTS.items()])[0]
    users, answers, why = INTENTS[name]
    return say(r.choice(users), why, r.choice(answers), kind="talk", intent=name)


def t_greet(r, s):
    if r.random() < 0.3:
        n = r.choice(NAMES)
        s["memory"]["name"], s["told_at"]["name"] = n, s["turn"]
        q = r.choice(["Hi, I am {n}", "Hello, my name is {n}", "Hello! I am {n}.", "My name is {n}.", "I'm {n}", "Hi, this is {n}", "My name is {n}", "I am called {n}", "You can call me {n}", "Hello, I am {n}. Who are you?"])
        return say(q.format(n=n), f"The user is {n}. I greet {n}.", f"Hello {n}! How can I help you?", kind="name", answer=n)
    users, answers, why = INTENTS["hello"]
    return say(r.choice(users), why, r.choice(answers), kind="talk", intent="hello")


def t_fact(r, s):
    q, a, one = r.choice(FACTS)
    q = q.replace("colour", "color") if r.random() < 0.3 else q
    return say(q, f"A simple fact: {a}", one + "." if s["style"] == "word" else a, kind="fact", answer=one)


def t_capital(r, s):
    c = r.choice(list(CAPITALS))
    v = CAPITALS[c]
    if r.random() < 0.2 and c not in ("the USA", "England", "Great Britain", "the United Kingdom", "Korea"):
        q = r.choice(["{v} is the capital of which country?", "Which country has the capital {v}?", "What country is {v} the capital of?", "Of which country is {v} the capital?"]).format(v=v)
        return say(q, f"{v} is the capital of {c}.", f"{c[0].upper() + c[1:]}." if s["style"] == "word" else f"{v} is the capital of {c}.", kind="capital", answer=c)
    q = r.choice(["What is the capital of {c}?", "What is the capital of {c}?", "Capital of {c}?", "Tell me the capital of {c}", "Which city is the capital of {c}?", "What's the capital of {c}?", "Name the capital of {c}", "capital of {c}", "The capital of {c} is?",
                  "Do you know the capital of {c}?", "What is the capital city of {c}?", "and of {c}?" if s["turn"] and s.get("topic") == "capital" else "Which is the capital of {c}?"])
    s["topic_next"] = "capital"
    return say(q.format(c=c), f"The capital of {c} is {v}.", v + "." if s["style"] == "word" else f"The capital of {c} is {v}.", kind="capital", answer=v)


def t_opposite(r, s):
    a, b = r.choice(OPPOSITES)
    if r.random() < 0.5 and (b, a) not in (("light", "heavy"),):
        a, b = b, a
    q = r.choice(["What is the opposite of {a}?", "Opposite of {a}?", "Tell me the opposite of {a}", "The opposite of {a}?", "What's the opposite of {a}?", "What is the antonym of {a}?", "Give me the opposite of {a}", "opposite of {a}"])
    if a == "light":
        b = "dark"
    return say(q.format(a=a), f"{a} and {b} are opposites.", b.capitalize() + "." if s["style"] == "word" else f"The opposite of {a} is {b}.", kind="opposite", answer=b)


DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()


def t_calendar(r, s):
    names = DAYS if r.random() < 0.5 else MONTHS
    i = r.randrange(len(names))
    after = r.random() < 0.6
    x = names[(i + (1 if after else -1)) % len(names)]
    w = "after" if after else "before"
    kind = "day" if names is DAYS else "month"
    k = r.randrange(3)
    if k < 2:
        return say(r.choice(["What comes {w} {d}?", "Which {k} comes {w} {d}?", "What {k} is {w} {d}?"]).format(w=w, d=names[i], k=kind), f"{x} comes {w} {names[i]}.", f"{x} comes {w} {names[i]}.", kind="calendar", answer=x)
    if names is DAYS:
        return say(r.choice(["Today is {d}. What day is tomorrow?", "If today is {d}, what is tomorrow?"]).format(d=DAYS[i]), f"The day after {DAYS[i]} is {DAYS[(i + 1) % 7]}.", f"Tomorrow is {DAYS[(i + 1) % 7]}.", kind="calendar", answer=DAYS[(i + 1) % 7])
    return say(r.choice(["What number is the month {d}?", "Which month is {d}?"]).format(d=MONTHS[i]), f"I count from January: {i + 1}.", f"{MONTHS[i]} is month {i + 1}.", kind="calendar", answer=str(i + 1))


def t_unknown(r, s):
    w = s["words"]
    q = r.choice(UNKNOWN_Q).format(n=r.choice(w), m=r.choice(w), N=r.choice(NAMES), M=r.choice(w).capitalize(), y=r.randint(1100, 2030), C=r.choice(list(CAPITALS)), c=r.choice(CITIES), d=r.choice(CITIES))
    return say(q, "I do not know this. I say so.", r.choice(UNKNOWN), kind="unknown", answer="know")


def t_define(r, s):
    if not s["glosses"]:
        return t_unknown(r, s)
    w, g = r.choice(s["glosses"])
    q = r.choice(["What is {a}?", "What does {w} mean?", "Define {w}", "What does the word {w} mean?", "What is the meaning of {w}?", "Explain the word {w}", "meaning of {w}?"])
    a = ("an " if w[0] in "aeiou" else "a ") + w
    return say(q.format(a=a, w=w), f"I recall what the dictionary says about {w}.", f"{w.capitalize()}: {g}.", kind="define", answer=g)


def t_no_time(r, s):
    if "clock" in s["tool_names"]:
        return t_clock(r, s)
    return say(r.choice(CLOCK_Q)[0], "I have no clock tool here.", "I cannot see a clock here, so I do not know.", kind="no_time", answer="know")


# ---- memory ----

MEMORY = [
    ("name", ["My name is {v}.", "I am {v}.", "I'm {v}", "Hi, I am {v}", "Hello, my name is {v}", "Please call me {v}"], ["What is my name?", "What's my name?", "Do you remember my name?", "Who am I?", "Do you know my name?", "what is my name"], "Your name is {v}.", "Hello {v}! How can I help you?", NAMES),
    ("city", ["I live in {v}.", "I live in {v}", "I am from {v}.", "My home is in {v}", "I come from {v}"], ["Where do I live?", "Which city do I live in?", "Where am I from?", "Do you remember where I live?"], "You live in {v}.", "{v} is a nice place, I think.", CITIES),
    ("colour", ["My favourite colour is {v}.", "I like the colour {v}", "My favorite color is {v}", "I like {v} best of all colours"], ["What is my favourite colour?", "Which colour do I like?", "What color do I like?", "Do you remember my favourite colour?"], "Your favourite colour is {v}.", "{V} is a nice colour.", COLORS),
    ("pet", ["I have a {v}.", "I have a {v} at home", "My pet is a {v}", "I own a {v}."], ["What pet do I have?", "Which animal do I have?", "What is my pet?", "Do you remember my pet?"], "You have a {v}.", "A {v} is a nice pet.", PETS),
    ("number", ["Remember the number {v}.", "Please remember {v}", "My number is {v}", "Keep the number {v} in mind", "The secret number is {v}."], ["What was the number?", "Which number did I tell you?", "What number should you remember?", "What is the secret number?", "What is my number?"], "The number is {v}.", "All right, I will remember {v}.", None),
    ("word", ["Remember the word {v}.", "The secret word is {v}.", "The password is {v}", "My word is {v}", "Keep the word {v} in mind"], ["What was the word?", "Which word did I tell you?", "What is the secret word?", "What is the password?"], "The word is {v}.", "All right, I will remember {v}.", "words"),
    ("age", ["I am {v} years old.", "I am {v} years old", "My age is {v}"], ["How old am I?", "What is my age?", "Do you know my age?"], "You are {v} years old.", "Thank you for telling me. {v} is a good age.", "age"),
    ("lost thing", ["I lost my {v}.", "I have lost my {v}", "I cannot find my {v}"], ["What did I lose?", "What have I lost?", "What was it that I lost?"], "You lost your {v}.", "I am sorry that you lost your {v}.", THINGS),
    ("bought thing", ["I bought a {v}.", "Today I bought a {v}", "Yesterday I bought a {v}."], ["What did I buy?", "What have I bought?", "Do you remember what I bought?"], "You bought a {v}.", "A {v}, how nice.", THINGS),
    ("job", ["I am a {v}.", "I work as a {v}", "My job is {v}", "I'm a {v}"], ["What is my job?", "What do I do for work?", "What do I work as?", "Do you remember my job?"], "You work as a {v}.", "Working as a {v} must be interesting.", JOBS),
    ("hobby", ["My hobby is {v}.", "In my free time I do {v}", "My hobby is {v}"], ["What is my hobby?", "Which hobby do I have?", "Do you remember my hobby?"], "Your hobby is {v}.", "{V} is a nice hobby.", HOBBIES),
    ("friend", ["My friend is called {v}.", "My best friend is {v}", "My friend's name is {v}.", "I have a friend called {v}"], ["What is my friend's name?", "Who is my friend?", "What is my friend called?", "What is the name of my friend?"], "Your friend is {v}.", "Say hello to {v}.", NAMES),
    ("name of the dog", ["My dog is called {v}.", "My dog's name is {v}", "The name of my dog is {v}"], ["What is my dog's name?", "What is my dog called?", "What is the name of my dog?"], "Your dog is called {v}.", "{v} is a good name for a dog.", NAMES),
    ("birthday", ["My birthday is in {v}.", "I was born in {v}", "I have my birthday in {v}"], ["When is my birthday?", "In which month is my birthday?", "When was I born?"], "Your birthday is in {v}.", "{v} is a good month for a birthday.", MONTHS),
    ("favourite food", ["My favourite food is {v}.", "My favorite food is {v}", "I like to eat {v}", "My favourite food is {v}"], ["What is my favourite food?", "What is my favorite food?", "What do I like to eat?", "Which food do I like?"], "Your favourite food is {v}.", "{V} sounds good.", FOODS),
    *((f"favourite {x}", [f"My favourite {x} is {{v}}.", f"My favorite {x} is {{v}}", f"{{V}} is my favourite {x}", f"The {x} I like best is {{v}}"], [f"What is my favourite {x}?", f"Which {x} do I like best?", f"What's my favorite {x}?", f"Do you remember my favourite {x}?", f"Tell me my favourite {x}"],
       f"Your favourite {x} is {{v}}.", "{V} is a good choice.", pool) for x, pool in (("animal", PETS), ("number", "age"), ("city", CITIES), ("country", list(CAPITALS)[:60]), ("day", DAYS), ("month", MONTHS), ("word", "words"), ("fruit", "apple pear banana lemon cherry orange plum".split()),
                                                                                ("season", "spring summer autumn winter".split()), ("drink", "water tea coffee milk juice".split()))),
]


def told(r, s, m):
    """A value for an entry of MEMORY, now known."""
    pool = m[5]
    v = str(r.randint(1, 99)) if pool == "age" else str(r.randint(1, 9999)) if pool is None else r.choice(s["words"]) if pool == "words" else r.choice(pool)
    s["memory"][m[0]] = v
    s["told_at"][m[0]] = s["turn"]
    return {"v": v, "V": v[0].upper() + v[1:]}


def t_tell(r, s):
    m = r.choice(MEMORY[:1] * 6 + MEMORY[1:8] * 2 + MEMORY)
    if r.random() < 0.12:
        n, (a, b) = r.choice(NAMES), r.sample(MEMORY[1:], 2)
        s["memory"]["name"], s["told_at"]["name"] = n, s["turn"]
        f = told(r, s, a)
        q = r.choice(["Hi, I am {n}. {t}", "My name is {n}. {t}", "I am {n}. {t}", "Hello, my name is {n}. {t}"]).format(n=n, t=a[1][0].format(**f))
        return say(q, f"The user is {n} and tells me the {a[0]}: {f['v']}.", f"Hello {n}! {a[4].format(**f)}", kind="tell", answer=n)
    f = told(r, s, m)
    return say(r.choice(m[1]).format(**f), f"The user tells me the {m[0]}: {f['v']}.", m[4].format(**f), kind="tell", answer=f["v"])


def t_correct(r, s):
    """The user takes something back."""
    known = [m for m in MEMORY if m[0] in s["memory"]]
    if not known:
        return t_tell(r, s)
    m = r.choice(known)
    s["corrected"] = m[0]
    f = told(r, s, m)
    text = r.choice(m[1]).format(**f)
    for hi in ("Hi, ", "Hello, "):
        text = text.removeprefix(hi)
    text = text if text.startswith("I") or text.startswith(f["V"]) else text[0].lower() + text[1:]
    lead = r.choice(["Actually, ", "Actually ", "No, ", "Sorry, ", "Correction: ", "I was wrong: ", "Wait, ", "Oh, ", "I made a mistake, "])
    return say(lead + text, f"The user corrects the {m[0]}: {f['v']}.", "Thank you for the correction. " + m[3].format(v=f["v"]), kind="correct", answer=f["v"])


def t_recall(r, s):
    if not s["memory"] and s["turn"] and r.random() < 0.5:
        return t_tell(r, s)
    m = r.choice(MEMORY[:1] * 8 + MEMORY)
    if s["memory"] and r.random() < 0.85:
        m = r.choice([m for m in MEMORY if m[0] in s["memory"]])
    if s["corrected"] in s["memory"] and r.random() < 0.5:
        m = next(m for m in MEMORY if m[0] == s["corrected"])
    v = s["memory"].get(m[0])
    q = r.choice(m[2])
    if v is None:
        return say(q, f"The user never told me the {m[0]}.", "You have not told me that.", kind="recall_never", answer="not told")
    return say(q, f"The user told me the {m[0]}: {v}.", m[3].format(v=v), kind="recall", answer=v, distance=s["turn"] - s["told_at"].get(m[0], 0))


def t_recall_question(r, s):
    if not s["asked"]:
        return t_intent(r, s)
    if r.random() < 0.25:
        q = s["asked"][0]
        return say(r.choice(["What was my first question?", "What did I say first?", "What was my first message?"]), "I look at the first message.", f"You wrote: {q}", kind="recall_last", answer=q)
    if r.random() < 0.25 and len(s["said"][-1]) < 80:
        q = s["said"][-1]
        return say(r.choice(["What did you just say?", "What was your last answer?", "Repeat your last answer", "Say that again", "Can you repeat that?"]), "I look at my last answer.", f"I wrote: {q}", kind="recall_last", answer=q)
    q = s["asked"][-1]
    return say(r.choice(["What did I just say?", "What did I just ask?", "What was my last question?", "What did I ask before?", "Repeat my last message", "What did I write before?"]), "I look at the message before.", f"You wrote: {q}", kind="recall_last", answer=q)


# ---- JSON ----

FIELDS = {
    "name": lambda r, w: r.choice(NAMES), "age": lambda r, w: r.randint(1, 99), "city": lambda r, w: r.choice(CITIES), "color": lambda r, w: r.choice(COLORS), "pet": lambda r, w: r.choice(PETS),
    "price": lambda r, w: r.choice([r.randint(1, 500), round(r.randint(100, 9999) / 100, 2)]), "count": lambda r, w: r.randint(0, 200), "id": lambda r, w: r.randint(1, 9999), "active": lambda r, w: r.random() < 0.5,
    "title": lambda r, w: r.choice(w), "country": lambda r, w: r.choice([c for c in CAPITALS if " " not in c]), "year": lambda r, w: r.randint(1900, 2030), "size": lambda r, w: r.choice(["small", "medium", "large"]), "item": lambda r, w: r.choice(THINGS),
    "first": lambda r, w: r.choice(NAMES), "last": lambda r, w: r.choice(w).capitalize(), "job": lambda r, w: r.choice("teacher doctor baker driver painter nurse farmer writer cook pilot".split()), "done": lambda r, w: r.random() < 0.5,
    "score": lambda r, w: r.randint(0, 100), "word": lambda r, w: r.choice(w), "x": lambda r, w: r.randint(-50, 50), "y": lambda r, w: r.randint(-50, 50), "email": lambda r, w: f"{r.choice(NAMES).lower()}@{r.choice(w)}.com", "note": lambda r, w: r.choice(w) + " " + r.choice(w),
}
JSON_ASK = ["Give me a JSON object with {t}", "Give me a JSON object with {t}.", "Write a JSON object with {t}", "JSON with {t}", "Make JSON with {t}", "Return JSON: {t}", "Create a JSON object with {t}", "Output JSON with {t}", "I need a JSON object with {t}.", "json object with {t}",
            "Please write JSON with {t}.", "As JSON: {t}", "Write this as JSON: {t}", "Convert to JSON: {t}", "Answer in JSON with {t}", "Show me JSON with {t}", "Generate a JSON object with {t}", "Only JSON please: {t}"]


def dump(x):
    return json.dumps(x, ensure_ascii=False)


def spoken(v):
    return ("true" if v else "false") if isinstance(v, bool) else "null" if v is None else str(v)


def join(parts, r):
    if len(parts) == 1:
        return parts[0]
    return ", ".join(parts[:-1]) + r.choice([" and ", " and ", ", "]) + parts[-1]


def fields(r, w, n):
    keys = r.sample(list(FIELDS), n)
    if n and r.random() < 0.15:
        keys[r.randrange(n)] = r.choice(w)
    return {k: FIELDS[k](r, w) if k in FIELDS else r.choice([r.randint(0, 99), r.choice(w)]) for k in keys}


KEYS = {"first name": NAMES, "last name": [x + "son" for x in NAMES], "home town": CITIES, "favourite colour": COLORS, "birth month": MONTHS, "job title": JOBS, "is student": [True, False], "is active": [True, False], "phone number": None, "number of items": None,
        "has pet": [True, False], "middle name": [None], "full price": None, "delivery day": DAYS, "order id": None, "best friend": NAMES, "email verified": [True, False], "end date": [None], "parent": [None, None, *NAMES], "comment": [None], "verified": [True, False]}
STRICT = ["Valid JSON only: {t}", "Answer with valid JSON only: {t}", "Reply with valid JSON only. I need {t}", "Only valid JSON, no text: {t}", "Output only JSON: {t}", "Return valid JSON with {t}", "Give me valid JSON only, with {t}", "{t} as JSON", "Respond only with JSON: {t}"]
QUOTE = ["{k}", "{k}", "\"{k}\"", "'{k}'"]


def t_json_more(r, s):
    """Keys of several words, null, arrays of objects from sentences, typed requests, deeper nesting."""
    k = r.randrange(5)
    ask = r.choice([JSON_ASK, STRICT])
    if k == 0:
        o = {x: r.randint(1, 999) if KEYS[x] is None else r.choice(KEYS[x]) for x in r.sample(list(KEYS), r.randint(1, 3))}
        o |= fields(r, s["words"], r.randint(0, 2))
        form = r.choice(QUOTE)
        t = join([form.format(k=a) + r.choice([" ", ": ", " = "]) + spoken(b) for a, b in o.items()], r)
        if r.random() < 0.4:
            o = {a.replace(" ", "_"): b for a, b in o.items()}
            t += r.choice([", with underscores in the keys", ". Use snake_case keys.", ". Write the keys with underscores."])
        q = r.choice(ask).format(t=t)
    elif k == 1:
        people = [(n, r.randint(2, 99), r.choice(CITIES)) for n in r.sample(NAMES, r.randint(2, 3))]
        form, keys = r.choice([("{n} is {a}", ("name", "age")), ("{n} is {a} years old", ("name", "age")), ("{n} lives in {c}", ("name", "city")), ("{n} is {a} and lives in {c}", ("name", "age", "city"))])
        o = [{key: {"name": n, "age": a, "city": c}[key] for key in keys} for n, a, c in people]
        text = join([form.format(n=n, a=a, c=c) for n, a, c in people], r) + "."
        q = r.choice(["Turn this into a JSON array of objects with {k}: {t}", "{t} Give me a JSON array of objects with {k}.", "Extract {k} of each person as a JSON array: {t}", "As a JSON array with {k}: {t}", "Make a JSON list of objects with {k} from this: {t}", "Valid JSON only, an array with {k}: {t}"]).format(k=join(list(keys), r), t=text)
    elif k == 2:
        items = [(r.randint(1, 20), i) for i in r.sample(THINGS, r.randint(2, 3))]
        o = [{"item": i, "count": n} for n, i in items]
        text = f"{r.choice(NAMES)} {r.choice(['buys', 'has', 'sells', 'orders'])} " + join([f"{n} {plural(i) if n > 1 else i}" for n, i in items], r) + "."
        q = r.choice(["Turn this into a JSON array with item and count: {t}", "{t} List item and count as a JSON array.", "Extract item and count as a JSON array: {t}", "JSON array with item and count: {t}"]).format(t=text)
    elif k == 3:
        n, a, c, j = r.choice(NAMES), r.randint(2, 99), r.choice(CITIES), r.choice(JOBS)
        have = r.sample([("name", "string", n), ("age", "number", a), ("city", "string", c), ("job", "string", j), ("student", "boolean", r.random() < 0.5), ("children", "number", r.randint(0, 5))], r.randint(2, 4))
        o = {x: v for x, _, v in have}
        say_it = {"name": f"The name is {n}.", "age": f"The age is {a}.", "city": f"The city is {c}.", "job": f"The job is {j}.", "student": "A student." if o.get("student") else "Not a student.", "children": f"{o.get('children')} children."}
        text = " ".join(say_it[x] for x in o)
        keys = join([f"{x} ({t})" for x, t, _ in have], r)
        q = r.choice(["{t} JSON with keys: {k}", "Keys: {k}. Text: {t}", "Give me JSON with the keys {k}: {t}", "Write JSON. keys: {k}. {t}", "Extract JSON with keys: {k}\n{t}", "{t}\nReturn valid JSON only, keys: {k}"]).format(k=keys, t=text)
    else:
        inner, more = fields(r, s["words"], r.randint(1, 2)), fields(r, s["words"], r.randint(1, 2))
        a, b = r.sample(["user", "person", "item", "address", "owner", "point", "result", "settings", "order", "customer"], 2)
        o = {a: inner, b: more} if r.random() < 0.6 else {a: {**inner, b: more}}
        said = [join([f"{x} {spoken(v)}" for x, v in y.items()], r) for y in (inner, more)]
        t = f"{a} with {said[0]}, and {b} with {said[1]}" if len(o) == 2 else f"{a} with {said[0]} and inside it {b} with {said[1]}"
        q = r.choice(ask).format(t=t)
    return say(q, "The user wants JSON. I write only the JSON.", dump(o), kind="json", answer=dump(o))


def t_json(r, s):
    w = s["words"]
    if r.random() < 0.35:
        return t_json_more(r, s)
    k = r.randrange(10)
    why = "The user wants JSON. I write only the JSON."
    if k < 4:
        o = fields(r, w, r.randint(1, 4))
        sep = r.choice([" ", " ", ": ", " = "])
        q = r.choice(JSON_ASK + STRICT).format(t=join([f"{a}{sep}{spoken(b)}" for a, b in o.items()], r))
    elif k == 4:
        o = r.choice([lambda: [r.randint(0, 99) for _ in range(r.randint(2, 6))], lambda: [r.choice(w) for _ in range(r.randint(2, 5))], lambda: r.sample(NAMES, r.randint(2, 4))])()
        q = r.choice(["Give me a JSON array with {t}", "JSON array of {t}", "Write a JSON list with {t}", "Make a JSON array: {t}", "Put {t} into a JSON array", "Return {t} as a JSON array", "List as JSON: {t}"]).format(t=join([str(x) for x in o], r))
    elif k == 5:
        a, b = r.randint(0, 12), r.randint(2, 6)
        if r.random() < 0.4:
            o = COLORS[:3] if r.random() < 0.5 else DAYS
            q = r.choice(["Give me three colours as a JSON array", "A JSON array with three colors", "JSON list of three colours"] if o != DAYS else ["The days of the week as a JSON array", "Give me a JSON array with the days of the week", "JSON array of weekdays"])
        else:
            o = list(range(a, a + b))
            q = r.choice(["Give me a JSON array with the numbers from {a} to {b}", "JSON array with the numbers {a} to {b}", "Write the numbers from {a} to {b} as a JSON array"]).format(a=a, b=a + b - 1)
    elif k == 6:
        n, age, c = r.choice(NAMES), r.randint(2, 99), r.choice(CITIES)
        text, o = r.choice([(f"{n} is {age} years old and lives in {c}.", {"name": n, "age": age, "city": c}), (f"{n} is {age} years old.", {"name": n, "age": age}), (f"{n} lives in {c}.", {"name": n, "city": c}),
                            (f"{n}, {age}, from {c}", {"name": n, "age": age, "city": c}), (f"My name is {n} and I am {age}.", {"name": n, "age": age}), (f"I am {n} from {c}.", {"name": n, "city": c})])
        if text.startswith(("My", "I am")):
            s["memory"]["name"] = n
        ks = join(list(o), r)
        q = r.choice(["Extract {k} as JSON: {t}", "Get {k} from this sentence as JSON: {t}", "{t} Extract {k} as JSON.", "Turn this into JSON with {k}: {t}", "Read {k} from: {t} Answer in JSON."]).format(k=ks, t=text)
    elif k == 7:
        c, i, n = r.choice(COLORS), r.choice(THINGS), r.randint(1, 50)
        p = r.choice(NAMES)
        text, o = r.choice([(f"{p} bought {n} {plural(i)}.", {"name": p, "item": i, "count": n}), (f"The {i} is {c}.", {"item": i, "color": c}), (f"{p} has a {c} {i}.", {"name": p, "item": i, "color": c}), (f"The {i} costs {n} euros.", {"item": i, "price": n})])
        ks = join(list(o), r)
        q = r.choice(["Extract {k} as JSON: {t}", "Get {k} from this sentence as JSON: {t}", "{t} Extract {k} as JSON.", "Turn this into JSON with {k}: {t}"]).format(k=ks, t=text)
    elif k == 8:
        inner = fields(r, w, r.randint(1, 2))
        key = r.choice(["user", "person", "item", "data", "address", "owner", "point", "result"])
        o = {key: inner}
        if r.random() < 0.5:
            o = {"id": r.randint(1, 999), key: inner}
        t = (f"id {o['id']} and " if "id" in o else "") + f"{key} with " + join([f"{a} {spoken(b)}" for a, b in inner.items()], r)
        q = r.choice(JSON_ASK).format(t=t)
    else:
        if r.random() < 0.5:
            o = [{"name": n, "age": r.randint(2, 90)} for n in r.sample(NAMES, r.randint(2, 3))]
            q = r.choice(["JSON array of people: {t}", "Give me a JSON array of objects with name and age: {t}", "Make a JSON list of {t} with name and age"]).format(t=", ".join(f"{x['name']} {x['age']}" for x in o))
        else:
            key = r.choice(["items", "names", "tags", "numbers", "words", "values"])
            vals = [r.randint(0, 99) if key in ("numbers", "values") else r.choice(NAMES) if key == "names" else r.choice(w) for _ in range(r.randint(2, 4))]
            o = {key: vals}
            q = r.choice(JSON_ASK).format(t=f"{key} " + join([str(v) for v in vals], r))
    return say(q, why, dump(o), kind="json", answer=dump(o))


# ---- tools ----

CLOCK_Q = [("What time is it?", "time"), ("What's the time?", "time"), ("Tell me the time", "time"), ("What time is it now?", "time"), ("Do you know what time it is?", "time"), ("time?", "time"), ("How late is it?", "time"), ("Can you tell me the time?", "time"),
           ("What is the current time?", "time"), ("Current time please", "time"), ("What day is it?", "date"), ("What is the date?", "date"), ("What's the date today?", "date"), ("What date is it today?", "date"), ("Which day is today?", "date"),
           ("What is today's date?", "date"), ("Tell me the date", "date"), ("What day of the week is it?", "day"), ("Which weekday is it?", "day"), ("What year is it?", "year"), ("Which month is it?", "month"), ("date and time please", "time"), ("What day is today?", "date")]
CLOCK_CITY = ["What time is it in {c}?", "What's the time in {c}?", "Tell me the time in {c}", "time in {c}", "Current time in {c}?", "How late is it in {c}?", "What time do they have in {c}?", "What is the time in {c} now?", "And in {c}?", "Now in {c}?", "What time is it now in {c}, please?"]
CLOCK_CITY_DATE = ["What day is it in {c}?", "What is the date in {c}?", "Which day is it in {c}?"]
REFUSED = ["The user refused this call.", "The user said no.", "Denied by the user.", "The user did not allow this call.", "The user did not allow this call.", "Not allowed by the user.", "Refused by the user."]
FAILED = ["error: not found", "error: no answer", "Error: invalid expression", "error: permission denied", "error: out of memory", "error: unknown time zone", "error: the tool took too long", "error: timeout", "error: not available", "Error: the tool failed", "error: bad arguments", "error: no such tool"]


def call_step(name, args, why):
    return {"role": "assistant", "reasoning": why, "content": "", "calls": [{"name": name, "arguments": args}]}


def tool_turn(r, user, name, args, why, result, reasoning, content, **check):
    """Question, call, result, answer; now and then the call is refused or fails."""
    steps = [call_step(name, args, why)]
    p = r.random()
    if p < 0.05:
        result, reasoning, content = r.choice(REFUSED), "The call was not allowed. I say so.", r.choice(["I am sorry, I cannot answer this without the tool.", "All right, I did not use the tool, so I cannot answer this."])
    elif p < 0.09:
        result, reasoning, content = r.choice(FAILED), "The tool gave an error. I say so.", "I am sorry, the tool gave an error."
    steps += [{"role": "tool", "content": result}, {"role": "assistant", "reasoning": reasoning, "content": content}]
    return {"user": user, "steps": steps, "check": dict(check, kind=check.get("kind", "tool"), call={"name": name, "arguments": args})}


def t_clock(r, s):
    if "clock" not in s["tool_names"]:
        return t_no_time(r, s)
    y, mo, da = r.randint(2024, 2032), r.randint(1, 12), r.randint(1, 28)
    h, mi, se = r.randint(0, 23), r.randint(0, 59), r.randint(0, 59)
    day = r.choice(DAYS)
    args, where = {}, ""
    if r.random() < 0.5:
        c = r.choice(list(ZONES))
        zone = ZONES[c]
        args, where = {"zone": zone}, f"In {c} it"
        what = "time" if r.random() < 0.8 else "date"
        user = r.choice(CLOCK_CITY if what == "time" else CLOCK_CITY_DATE).format(c=c)
        why = f"The user asks for the {what} in {c}. I call clock with the zone {zone}."
    else:
        zone = r.choice(list(ZONES.values()))
        user, what = r.choice(CLOCK_Q)
        where = "It"
        why = "The user asks for the date. I call clock." if what != "time" else "The user asks for the time. I call clock."
    off = f"{r.choice('+-')}{r.randint(0, 12):02}:{r.choice(['00', '00', '00', '30'])}"
    tail = f" ({zone})" if args or r.random() < 0.7 else ""
    result = f"{y}-{mo:02}-{da:02} {h:02}:{mi:02}:{se:02} {day}, UTC{off}{tail}"
    date = f"{day}, {da} {MONTHS[mo - 1]} {y}"
    content = {"time": f"{where} is {h:02}:{mi:02} on {date}.", "date": f"{where} is {date}." if where != "It" else f"Today is {date}.", "day": f"Today is {day}.", "year": f"It is the year {y}.", "month": f"It is {MONTHS[mo - 1]}."}[what]
    return tool_turn(r, user, "clock", args, why, result, f"The tool says {h:02}:{mi:02} on {date}." if what == "time" else f"The tool says {date}.", content, kind="tool_clock")


def evaluate_text(e, digits=6):
    v = eval(e, {"__builtins__": {}})              # our own digits and operators only
    return f"{v:.{digits}f}".rstrip("0").rstrip(".") if isinstance(v, float) else str(v)


DECIMAL = ["{x} + {y}", "{x} - {y}", "{x} * {b}", "{a} - {x}", "{x} * {y}", "{a} / {b}", "{x} / {b}", "-{a} + {b}", "{a} - {c}", "-{a} * {b}", "{b} * ({a} - {c})", "2 ** {b}", "{x} + {y} + {a}"]


def calculation(r, s):
    """-> what the user says, the expression; sums, brackets, decimals, problems in words, squares and shares."""
    p = r.random()
    if p < 0.42:
        a, op, b = operands(r)
        if r.random() < 0.4:
            a, b, op = r.randint(10, 99999), r.randint(2, 9999), r.choice("+-*")
        if op == "/" and r.random() < 0.5:
            a = r.randint(1, 999)
            b = r.choice([2, 4, 5, 8, 10, 3, 7])
        b = b or 1
        return ask_sum(r, a, op, b), f"{a} {op} {b}"
    if p < 0.56:
        t = t_word_problem(r, s)
        return t["user"], t["check"]["expression"]
    if p < 0.64:
        t = t_square(r, s)
        if t["check"]["expression"]:
            return t["user"], t["check"]["expression"]
    a, b, c = r.randint(1, 99), r.randint(2, 99), r.randint(1, 99)
    if p < 0.78:
        x, y = round(r.randint(1, 9999) / 100, r.choice((1, 2))), round(r.randint(1, 999) / 10, 1)
        e = r.choice(DECIMAL).format(a=a, b=r.randint(2, 12), c=a + r.randint(1, 90), x=x, y=y)
    else:
        e = r.choice(["({a} + {b}) * {c}", "{a} + {b} * {c}", "{a} * {b} - {c}", "({a} - {b}) * {c}", "{a} + {b} + {c}", "{a} * {b} * {c}", "({a} + {b}) / 2", "{a} * ({b} + {c})", "{a} - {b} - {c}", "{a} * {b} + {c}", "({a} + {b}) / {c}", "{a} / {b} + {c}"]).format(a=a, b=b, c=c)
    return r.choice(["What is {e}?", "{e}", "Calculate {e}", "Compute {e}", "Evaluate {e}", "How much is {e}?", "{e} = ?", "Please calculate {e}", "Use the calculator: {e}", "Work out {e}", "what is {e}", "Calculate {e} with the calculator"]).format(e=e), e


def t_calculator(r, s):
    if "calculator" not in s["tool_names"]:
        return t_sum(r, s)
    user, e = calculation(r, s)
    v = evaluate_text(e, r.choice((6, 6, 10)))
    s["last"] = int(v) if v.isdigit() else None
    return tool_turn(r, user, "calculator", {"expression": e}, "The user wants a calculation. I call calculator.", v, f"The calculator says {v}.", f"{e} = {v}.", kind="tool_calculator")


def t_chain(r, s):
    """Two calls one after the other before the answer."""
    if "calculator" not in s["tool_names"]:
        return t_clock(r, s)
    if "clock" in s["tool_names"] and r.random() < 0.45:
        y, mo, da, day = r.randint(2024, 2032), r.randint(1, 12), r.randint(1, 28), r.choice(DAYS)
        h, mi = r.randint(0, 23), r.randint(0, 59)
        now = f"{y}-{mo:02}-{da:02} {h:02}:{mi:02}:{r.randint(0, 59):02} {day}, UTC+{r.randint(0, 9):02}:00 ({r.choice(list(ZONES.values()))})"
        n, m = r.randint(2, 60), r.randint(1900, 2020)
        user, e, answer = r.choice([
            lambda: (r.choice([f"What year will it be in {n} years?", f"Which year is it in {n} years?"]), f"{y} + {n}", "It will be the year {v}."),
            lambda: (r.choice([f"What year was it {n} years ago?", f"Which year was {n} years ago?"]), f"{y} - {n}", "It was the year {v}."),
            lambda: (r.choice([f"How old is somebody born in {m}?", f"I was born in {m}. How old will I be this year?", f"How many years is it since {m}?"]), f"{y} - {m}", "{v} years."),
            lambda: (r.choice(["How many minutes have passed today?", "How many minutes is it since midnight?"]), f"{h} * 60 + {mi}", "{v} minutes have passed today."),
            lambda: (r.choice(["How many hours are left today?", "How many full hours are left until midnight?"]), f"23 - {h}", "{v} full hours are left today."),
        ])()
        v = evaluate_text(e)
        calls = [("clock", {}, "I need the current time first. I call clock.", now), ("calculator", {"expression": e}, f"The clock says {y}-{mo:02}-{da:02} {h:02}:{mi:02}. Now I calculate {e}.", v)]
        answer = answer.format(v=v)
    else:
        (u1, e1), (u2, e2) = simple_pair(r)
        v1, v2 = evaluate_text(e1), evaluate_text(e2)
        user = r.choice(["What is {a} and what is {b}?", "Calculate {a} and then {b}", "Compute {a} and {b}", "{a} and {b}", "First {a}, then {b}", "What is {a}? And what is {b}?", "I need {a} and also {b}."]).format(a=u1, b=u2)
        if r.random() < 0.4:
            n = r.randint(2, 99)
            op, how = r.choice([("+", "add {n} to the result"), ("-", "subtract {n} from it"), ("*", "multiply the result by {n}")])
            e2 = f"{v1} {op} {n}"
            v2 = evaluate_text(e2)
            user = r.choice(["Calculate {a}, then {h}.", "What is {a}? Then {h}.", "Compute {a} and {h}", "First compute {a}, then {h}"]).format(a=u1, h=how.format(n=n))
        calls = [("calculator", {"expression": e1}, "There are two steps. I call calculator for the first.", v1), ("calculator", {"expression": e2}, f"The first result is {v1}. I call calculator for the second.", v2)]
        answer = f"{e1} = {v1} and {e2} = {v2}."
        v = v2
    steps = []
    for name, args, why, result in calls:
        steps += [call_step(name, args, why), {"role": "tool", "content": result}]
    steps.append({"role": "assistant", "reasoning": f"The calculator says {v}.", "content": answer})
    return {"user": user, "steps": steps, "check": {"kind": "tool_chain", "call": {"name": calls[0][0], "arguments": calls[0][1]}}}


def simple_pair(r):
    out = []
    for _ in range(2):
        a, op, b = operands(r)
        out.append((f"{a} {op} {b or 1}",) * 2)
    return out


def param(kind, text):
    return {"type": kind, "description": text}


def made_up(r, s):
    """A tool that is not ours, with a request for it: the model has to read names from the prompt.  -> definition, turn maker"""
    w = s["words"]
    word, name, city, num = r.choice(w), r.choice(NAMES), r.choice(CITIES), r.randint(1, 90)
    pick = r.choice
    spec = pick([
        lambda: (pick(["weather", "get_weather", "forecast", "weather_now"]), "Tells the weather of a place.", [(pick(["city", "place", "location"]), "string", "name of the city", city)],
                 pick([f"What is the weather in {city}?", f"How is the weather in {city}?", f"Weather in {city}?", f"Is it raining in {city}?", f"Will it be cold in {city}?"]),
                 *(lambda t, k: (f"{t} °C, {k}", f"In {city} it is {t} °C, {k}."))(r.randint(-10, 38), pick(["sunny", "cloudy", "rain", "snow", "windy", "fog"]))),
        lambda: (pick(["timer", "set_timer", "start_timer"]), "Starts a timer.", [(pick(["minutes", "duration", "time"]), "integer", "minutes to wait", num)],
                 pick([f"Set a timer for {num} minutes", f"Start a timer of {num} minutes", f"Timer for {num} minutes please", f"Wake me in {num} minutes"]), pick(["ok", "done", "timer started"]), f"The timer is set to {num} minutes."),
        lambda: (pick(["lookup", "dictionary", "define", "find_word"]), "Looks up a word in a dictionary.", [(pick(["word", "term", "query"]), "string", "the word to look up", word)],
                 pick([f"What does {word} mean?", f"Look up {word}", f"Look up the word {word}", f"Define {word}"]), *(lambda g: (g, f"{word.capitalize()}: {g}."))(r.choice(s["glosses"])[1] if s["glosses"] else word)),
        lambda: (pick(["send", "send_message", "message", "send_mail"]), "Sends a message to a person.", [(pick(["to", "person", "recipient"]), "string", "who gets it", name), (pick(["text", "body", "message"]), "string", "what to say", word)],
                 pick([f"Send {name} the message {word}", f"Tell {name}: {word}", f"Write to {name}: {word}"]), pick(["sent", "ok", "message sent"]), f"I sent the message to {name}."),
        lambda: (pick(["search", "web_search", "find", "search_files"]), "Searches for a text.", [(pick(["query", "text", "pattern"]), "string", "what to search for", word)],
                 pick([f"Search for {word}", f"Find {word}", f"Search {word}", f"Please search for {word}"]), *(lambda n: (f"{n} results", f"I found {n} results for {word}."))(r.randint(0, 99))),
        lambda: (pick(["lamp", "light", "set_light", "switch_light"]), "Switches a lamp on or off.", [(pick(["room", "place"]), "string", "the room", *[pick(["kitchen", "bedroom", "hall", "garden", "office"])]), (pick(["state", "on_or_off"]), "string", "on or off", pick(["on", "off"]))], None, "ok", None),
        lambda: (pick(["read_file", "open_file", "cat", "show_file"]), "Reads a file.", [(pick(["path", "file", "name"]), "string", "path of the file", f"{word}.txt")],
                 pick([f"Read the file {word}.txt", f"Show me {word}.txt", f"What is in {word}.txt?", f"Open {word}.txt"]), *(lambda t: (t, f"The file says: {t}"))(some_text(r, s, 2, 6))),
        lambda: (pick(["dice", "roll", "roll_dice"]), "Rolls a die.", [(pick(["sides", "faces"]), "integer", "number of sides", num)], pick([f"Roll a die with {num} sides", f"Roll a {num}-sided die", f"Throw a die with {num} sides"]),
                 *(lambda n: (str(n), f"The die shows {n}."))(r.randint(1, num))),
        lambda: (pick(["price", "get_price", "stock", "price_of"]), "Tells the price of a thing.", [(pick(["item", "product", "thing"]), "string", "the thing", word)], pick([f"What does the {word} cost?", f"Price of {word}?", f"How much is the {word}?"]),
                 *(lambda n: (str(n), f"The price of {word} is {n}."))(r.randint(1, 999))),
        lambda: (pick(["translate", "translate_text", "translator"]), "Translates a text.", [(pick(["text", "input"]), "string", "what to translate", word), (pick(["language", "target", "to"]), "string", "into which language", (lang := pick(["German", "French", "Spanish", "Italian", "Dutch"])))],
                 pick([f"Translate {word} to {lang}", f"Translate {word} into {lang}", f"How do you say {word} in {lang}?", f"What is {word} in {lang}?"]), *(lambda x: (x, f"In {lang}, {word} is {x}."))(r.choice(w))),
        lambda: (pick(["convert", "convert_money", "exchange"]), "Converts an amount of money.", [(pick(["amount", "value"]), "number", "how much", pick([num, num + 0.5])), (pick(["from", "source"]), "string", "currency", (c1 := pick(["USD", "EUR", "GBP"]))), (pick(["to", "target"]), "string", "currency", (c2 := pick(["JPY", "CHF", "SEK"])))],
                 "convert", None, None),
        lambda: (pick(["add_event", "calendar", "create_event", "book"]), "Puts an event into the calendar.", [(pick(["title", "name", "what"]), "string", "what happens", word), (pick(["day", "date", "when"]), "string", "the day", (day := pick(DAYS))), (pick(["hour", "start"]), "integer", "hour of the day", (hour := r.randint(0, 23)))],
                 pick([f"Add {word} on {day} at {hour}", f"Put {word} into my calendar on {day} at {hour}", f"Plan {word} for {day} at {hour} o'clock", f"Book {word} on {day} at {hour}"]), pick(["ok", "saved", "added"]), f"I added {word} on {day} at {hour}."),
        lambda: (pick(["random_number", "random", "pick_number"]), "Gives a random number.", [(pick(["min", "low"]), "integer", "lowest number", 1), (pick(["max", "high"]), "integer", "highest number", num + 1)],
                 pick([f"Give me a random number from 1 to {num + 1}", f"Random number between 1 and {num + 1}", f"Pick a number from 1 to {num + 1}"]), *(lambda n: (str(n), f"The number is {n}."))(r.randint(1, num + 1))),
        lambda: (pick(["list_files", "ls", "list_dir"]), "Lists the files of a folder.", [(pick(["path", "folder", "dir"]), "string", "the folder", word), (pick(["hidden", "all"]), "boolean", "also hidden files", (hidden := pick(["true", "false"])))],
                 f"List {'all ' if hidden == 'true' else 'the '}files in {word}" + (pick([", also the hidden ones", " including hidden files"]) if hidden == "true" else ""), *(lambda a, b: (f"{a}.txt\n{b}.txt", f"There are two files: {a}.txt and {b}.txt."))(r.choice(w), r.choice(w))),
        lambda: (pick(["memory", "disk_free", "system_info", "uptime", "battery"]), "Tells the state of the machine.", [], pick(["How is my machine?", "What is the state of my computer?", "Check my system", "How is the system doing?"]), *(lambda n: (f"{n} % free", f"The machine is {n} % free."))(num)),
        lambda: (pick(["note", "add_note", "remember", "save_note"]), "Saves a note.", [(pick(["text", "note", "content"]), "string", "the note", *[some_text(r, s, 1, 4)])], None, pick(["saved", "ok"]), "I saved the note."),
    ])()
    tool, text, params, user, result, answer = spec
    if tool in ("lamp", "light", "set_light", "switch_light"):
        room, state = params[0][3], params[1][3]
        user, answer = pick([f"Turn {state} the light in the {room}", f"Switch the {room} light {state}", f"Light {state} in the {room} please"]), f"The light in the {room} is {state}."
    elif user == "convert":
        x, c1, c2 = (p[3] for p in params)
        result = str(round(x * r.randint(80, 120) / 100, 2))
        user, answer = pick([f"Convert {x} {c1} to {c2}", f"How much is {x} {c1} in {c2}?", f"What are {x} {c1} in {c2}?"]), f"{x} {c1} are {result} {c2}."
    elif user is None:
        t = params[0][3]
        user = pick([f"Make a note: {t}", f"Note: {t}", f"Write down: {t}", f"Save the note {t}"])
    d = {"type": "function", "function": {"name": tool, "description": text, "parameters": {"type": "object", "properties": {p[0]: param(p[1], p[2]) for p in params}, "required": [p[0] for p in params]}}}
    args = {p[0]: p[3] for p in params}
    return d, lambda: tool_turn(r, user, tool, args, f"The tool {tool} can do this. I call it.", result, "The tool answered. I report it.", answer, kind="tool_other")


def t_made_up(r, s):
    return r.choice(s["made_up"])() if s["made_up"] else t_intent(r, s)


# ---- dialogues ----

PLAIN = [(t_intent, 20), (t_greet, 6), (t_sum, 28), (t_three, 2), (t_word_problem, 9), (t_compare, 3), (t_yes_no, 2), (t_count, 5), (t_spell, 14), (t_repeat, 4), (t_list, 2), (t_fact, 4), (t_capital, 5), (t_opposite, 4), (t_calendar, 3),
         (t_unknown, 6), (t_define, 3), (t_no_time, 1.5), (t_tell, 3), (t_recall, 0.6), (t_json, 14), (t_prime, 1.5), (t_square, 2), (t_convert, 3), (t_month_days, 1), (t_code, 3), (t_explain, 3), (t_bullets, 4), (t_small_talk, 2)]
LATER = [(t_add_to_last, 5), (t_tell, 8), (t_recall, 16), (t_recall_question, 5), (t_correct, 8)]
TOOLED = [(t_clock, 13), (t_calculator, 18), (t_chain, 6), (t_made_up, 14)]
WORD = [(t_fact, 3), (t_capital, 4), (t_opposite, 3), (t_sum, 4)]
SUMS = (t_sum, t_three, t_word_problem)


def pick_turn(r, s):
    if s["style"] == "word":
        pool = WORD
    else:
        pool = PLAIN + (LATER if s["turn"] else []) + (TOOLED if s["tools"] and (s["made_up"] or s["tool_names"]) else [])
    f = r.choices([p[0] for p in pool], [p[1] for p in pool])[0]
    if "calculator" in s["tool_names"] and (f in SUMS or f is t_square and r.random() < 0.8):
        f = t_calculator
    if f is t_define and s["made_up"]:
        f = t_made_up
    return f(r, s)


def vary(r, text):
    """The same request as sloppier people type it."""
    p = r.random()
    if p < 0.10:
        text = text.lower()
    elif p < 0.16:
        text = text.rstrip("?.!")
    elif p < 0.20:
        text = text.lower().rstrip("?.!")
    elif p < 0.23 and len(text) > 6 and text.replace(" ", "").isalpha():
        i = r.randrange(1, len(text) - 2)
        text = r.choice([text[:i] + text[i + 1] + text[i] + text[i + 2:], text[:i] + text[i + 1:], text[:i] + text[i] + text[i:]])
    elif p < 0.26:
        text = r.choice(["Hi! ", "Hello, ", "Hey, ", "Please: ", "OK, ", "So, ", "Hello! "]) + text
    elif p < 0.28 and text[-1] not in "?.!":
        text += r.choice([".", "!", " please", "?"])
    return text.strip() or "?"


KEEP_TEXT = ("correct", "letter_count", "word_problem", "tool_chain", "repeat", "json", "case", "spell", "reverse", "recall", "tell", "name", "list", "tool_other", "letters", "letter", "tool_clock")


LONG = 0.08                                        # share of the dialogues with 6 to 14 turns; of tokens it is about a quarter


KEEP_CASE = ("json", "repeat", "case", "spell", "code")


def dialogue(r, world, tools=None, thinking=None, turns=None):
    """world: words and glosses.  -> messages, tools, system, thinking flag and the check of the last turn"""
    long = turns is None and r.random() < LONG
    if long and tools is None:
        tools = r.random() < 0.5
    s = dict(world, thinking=r.random() < 0.55 if thinking is None else thinking, style="", tools=[], tool_names=(), made_up=[], memory={}, told_at={}, corrected=None, asked=[], said=[], turn=0)
    system = None
    p = r.random()
    if p < 0.25:
        system = r.choice(SYSTEMS)
    elif p < 0.29 and not long:
        system, s["style"] = r.choice(["Answer in one word.", "Reply with one word only.", "Use only one word."]), "word"
    elif p < 0.31 and not long:
        system, s["style"] = r.choice(["Always answer in upper case.", "Write in upper case.", "Answer in capital letters."]), "upper"
    if tools if tools is not None else r.random() < 0.16:
        s["tools"] = [CLOCK, CALCULATOR] if r.random() < 0.6 else r.sample([CLOCK, CALCULATOR], r.randint(0, 2))
        if not s["tools"] or r.random() < 0.3:
            for _ in range(r.choice([1, 1, 2])):
                d, make = made_up(r, s)
                if all(d["function"]["name"] != t["function"]["name"] for t in s["tools"]):
                    s["tools"].append(d)
                    s["made_up"].append(make)
            r.shuffle(s["tools"])
        s["tool_names"] = tuple(t["function"]["name"] for t in s["tools"])
        s["style"] = ""
        if s["style"] == "" and system and "word" in system or system and "upper" in system or system and "capital" in system:
            system = None
    n = turns or (r.randint(6, 14) if long else r.choices((1, 2, 3, 4, 5), (56, 18, 12, 8, 6))[0])
    early = r.randrange(3) if long and r.random() < 0.7 else -1          # a turn that tells something worth recalling at the end
    room = (3300 if s["tools"] else 4800) if long else 10 ** 9           # letters, so that the dialogue fits into a row
    msgs = []
    for i in range(n):
        s["turn"], s["topic"] = i, s.pop("topic_next", None)
        last = i + 1 == n or room < 500
        t = t_tell(r, s) if i == early else t_recall(r, s) if long and last and r.random() < 0.45 else pick_turn(r, s)
        user = t["user"] if t["check"]["kind"] in KEEP_TEXT and r.random() < 0.8 else vary(r, t["user"])
        if t["check"]["kind"] == "repeat":
            user = t["user"]
        for m in t["steps"]:
            if s["style"] == "upper" and m["role"] == "assistant" and t["check"]["kind"] not in KEEP_CASE:
                m["content"] = m["content"].upper()
        s["asked"].append(user)
        s["said"].append(t["steps"][-1]["content"])
        msgs += [{"role": "user", "content": user}] + t["steps"]
        room -= 40 + len(user) + sum(len(m["content"]) + 50 + 110 * len(m.get("calls", [])) for m in t["steps"])
        if last:
            break
    check = dict(t["check"], turns=i + 1)
    if s["style"] == "upper" and "answer" in check and check["kind"] not in KEEP_CASE:
        check["answer"] = check["answer"].upper()
    return {"system": system, "tools": s["tools"], "thinking": s["thinking"], "messages": msgs, "check": check}


def held_out(d):
    """One dialogue in forty, by its user texts, never reaches training.  Short fixed phrases stay on both sides: nobody could learn hello otherwise."""
    key = "".join(c for m in d["messages"] if m["role"] == "user" for c in m["content"].lower() if c.isalnum())
    return len(key) >= 16 and zlib.crc32(key.encode()) % 40 == 0


def load_world(text_file):
    """Word list and glosses from the text file made by sources.py; its definitions also serve as plain text."""
    lines = lzma.open(text_file, "rt", encoding="utf-8").read().split("\n")
    common = [x.split("\t") for x in lines if x.startswith("=\t")]
    plain = [x for x in lines if x and not x.startswith("=\t")]
    words = [w for _, w, _ in common if w.isascii() and w.isalpha() and 3 <= len(w) <= 9]
    lemmas = sorted({w.lower() for w in (x.split(":")[0] for x in plain) if w.isascii() and w.isalpha() and 3 <= len(w) <= 9} | set(words))
    sides = {unseen: [w for w in lemmas if (zlib.crc32(w.encode()) % 10 == 0) == unseen] for unseen in (False, True)}
    return {"words": words, "lemmas": sides, "glosses": [(w, g) for _, w, g in common if len(g) <= 70][:400], "plain": plain}


def documents(seed, world, want_held_out, tools=None, thinking=None):
    """Endless stream of dialogues of one side of the split.  Letters of a tenth of all words are asked for on the held-out side only."""
    r = random.Random(seed)
    world = dict(world, spell=world["lemmas"][want_held_out], unseen=want_held_out)
    while True:
        d = dialogue(r, world, tools, thinking)
        if held_out(d) == want_held_out:
            yield d


TEXT_SHARE = 0.14                                  # of documents; glosses are long, so of tokens it is about 20 %


def pieces(seed, world, want_held_out):
    """Dialogues and plain text as [(text, class)]."""
    r = random.Random(seed + "/text")
    for d in documents(seed, world, want_held_out):
        if not want_held_out and world["plain"] and r.random() < TEXT_SHARE:
            at = r.randrange(len(world["plain"]))
            yield [("\n".join(world["plain"][at:at + r.randint(3, 10)]) + "<|endoftext|>", TEXT)]
        yield render(d)


def encode(tok, docs):
    """-> [(ids, classes)] for a list of documents; every piece is encoded by itself, as the engine does with prompt and answer."""
    flat = tok.encode_batch([t for d in docs for t, _ in d], add_special_tokens=False)
    at, out = 0, []
    for d in docs:
        ids, cls = [], []
        for _, c in d:
            ids += flat[at].ids
            cls += [c] * len(flat[at].ids)
            at += 1
        out.append((ids, cls))
    return out


def pack(docs, row=ROW):
    """Whole documents into rows, longest first into the fullest row that takes them.  -> ids, classes, document numbers [rows, row]"""
    docs = sorted((d for d in docs if len(d[0]) <= row), key=lambda d: -len(d[0]))
    rows, room = [], {}
    for d in docs:
        n = len(d[0])
        free = min((f for f in room if f >= n), default=None)
        if free is None:
            rows.append([])
            i, free = len(rows) - 1, row
        else:
            i = room[free].pop()
            if not room[free]:
                del room[free]
        rows[i].append(d)
        room.setdefault(free - n, []).append(i)
    ids = np.zeros((len(rows), row), np.uint16)
    cls = np.zeros((len(rows), row), np.uint8)
    doc = np.zeros((len(rows), row), np.uint8)
    for i, ds in enumerate(rows):
        at = 0
        for j, (x, c) in enumerate(ds):
            ids[i, at:at + len(x)], cls[i, at:at + len(x)], doc[i, at:at + len(x)] = x, c, j + 1
            at += len(x)
    return ids, cls, doc


def blocks(seed, worker, world, tok, want_held_out=False, n_docs=1200):
    """Endless packed blocks for one worker; the same seed and worker give the same blocks."""
    stream = pieces(f"{seed}/{worker}/{'test' if want_held_out else 'train'}", world, want_held_out)
    while True:
        yield pack(encode(tok, [next(stream) for _ in range(n_docs)]))


# ---- command line ----

def check_template(path, world, n):
    """Our rendering against the official template, message for message."""
    import jinja2
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)

    def fail(m):
        raise ValueError(m)
    env.globals["raise_exception"] = fail
    template = env.from_string(open(path, encoding="utf-8").read())
    seen = 0
    for d in documents("template", world, False):
        msgs = [{"role": "system", "content": d["system"]}] if d["system"] is not None else []
        for m in d["messages"]:
            if m["role"] != "assistant":
                msgs.append(m)
                continue
            a = {"role": "assistant", "content": m["content"], "reasoning_content": m["reasoning"] if d["thinking"] else ""}
            if m.get("calls"):
                a["tool_calls"] = [{"type": "function", "function": c} for c in m["calls"]]
            msgs.append(a)
        want = template.render(messages=msgs, tools=d["tools"] or None, enable_thinking=d["thinking"])
        got = "".join(t for t, _ in render(d)) + "\n"
        assert got == want, f"rendering differs\n--- ours\n{got}\n--- template\n{want}"
        cut = max(i for i, m in enumerate(msgs) if m["role"] == "user") + 1
        want = template.render(messages=msgs[:cut], tools=d["tools"] or None, enable_thinking=d["thinking"], add_generation_prompt=True)
        assert prompt_of(d)[0] == want, f"prompt differs\n--- ours\n{prompt_of(d)[0]}\n--- template\n{want}"
        seen += 1
        if seen == n:
            print(f"{n} dialogues render as the template does")
            return


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--text", default=os.path.join(HERE, "text.xz"))
    p.add_argument("--tokenizer", default=os.path.join(HERE, "..", "tokenizer.json"))
    p.add_argument("--show", type=int, default=0)
    p.add_argument("--check-template")
    p.add_argument("--stats", action="store_true")
    a = p.parse_args()
    world = load_world(a.text)
    if a.show:
        for i, d in zip(range(a.show), documents("show", world, False)):
            print("".join(t.replace("<|im_end|>", "⏹") if c == PROMPT else "«" + t.replace("<|im_end|>", "⏹") + "»" for t, c in render(d)).replace(TOOL_TEXT, "[...]") + "\n" + "=" * 60)
    if a.check_template:
        check_template(a.check_template, world, 3000)
    if a.stats:
        import time
        from collections import Counter
        from tokenizers import Tokenizer
        tok = Tokenizer.from_file(a.tokenizer)
        t0 = time.time()
        docs = encode(tok, [x for x, _ in zip(pieces("stats", world, False), range(4000))])
        ids, cls, doc = pack(docs)
        secs = time.time() - t0
        n = Counter(cls.flatten().tolist())
        print(f"{len(docs)} documents, {sum(len(d[0]) for d in docs) / secs:.0f} tokens/s, {len(ids)} rows, longest {max(len(d[0]) for d in docs)}, over {ROW}: {sum(len(d[0]) > ROW for d in docs)}")
        print({k: f"{n[v] / cls.size:.3f}" for k, v in (("pad", PAD), ("prompt", PROMPT), ("output", OUTPUT), ("earlier", EARLIER), ("text", TEXT))})


if __name__ == "__main__":
    main()
