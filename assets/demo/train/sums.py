"""Sums: asking for them in words and working them out column by column, as the model is to write it."""
def columns_add(a, b):
    n = max(len(str(a)), len(str(b)))
    x, y = str(a).zfill(n), str(b).zfill(n)
    lines, carry, done = [f"{x} + {y}"], 0, ""
    for p, q in zip(reversed(x), reversed(y)):
        s = int(p) + int(q) + carry
        head = f"{p} + {q}" + (" + 1" if carry else "") + f" = {s}"
        done, carry = str(s % 10) + done, s // 10
        lines.append(head + (f", write {s % 10}, carry 1: {done}" if carry else f": {done}"))
    if carry:
        lines.append(f"carry 1: 1{done}")
    return lines


def columns_sub(a, b):
    if a < b:
        return [f"{a} is less than {b}, so the result is negative."] + columns_sub(b, a)
    n = len(str(a))
    x, y = str(a), str(b).zfill(n)
    lines, borrow, done = [f"{x} - {y}"], 0, ""
    for p, q in zip(reversed(x), reversed(y)):
        s = int(p) - int(q) - borrow
        head = f"{p} - {q}" + (" - 1" if borrow else "")
        borrow = int(s < 0)
        if borrow:
            head += f", borrow: 1{p} - {q}" + (" - 1" if "- 1" == head[-3:] and len(head) > 5 else "")
            s += 10
        done = str(s) + done
        lines.append(f"{head} = {s}: {done}")
    return lines


def columns_mul(a, b):
    if a < 10 and b < 10:
        return [f"{a} * {b} = {a * b}"]
    if a < b:
        a, b = b, a
    if b >= 10:
        ones, tens = b % 10, b // 10
        lines = [f"{a} * {b} = {a} * {tens * 10} + {a} * {ones}"]
        lines += columns_mul(a, tens) + [f"{a} * {tens * 10} = {a * tens * 10}"]
        if not ones:
            return lines
        return lines + columns_mul(a, ones) + columns_add(a * tens * 10, a * ones)
    lines, carry, done = [f"{a} * {b}"], 0, ""
    for p in reversed(str(a)):
        s = int(p) * b + carry
        head = f"{p} * {b}" + (f" + {carry}" if carry else "") + f" = {s}"
        done, carry = str(s % 10) + done, s // 10
        lines.append(head + (f", write {s % 10}, carry {carry}: {done}" if carry else f": {done}"))
    if carry:
        lines.append(f"carry {carry}: {carry}{done}")
    return lines


def work_out(a, op, b):
    if op == "+":
        return a + b, columns_add(a, b)
    if op == "-":
        return a - b, columns_sub(a, b)
    if op == "*":
        return a * b, columns_mul(a, b)
    return a // b, [f"{b} * {a // b} = {a}, so {a} / {b} = {a // b}"]


SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(n):
    if n < 20:
        return SMALL[n]
    return TENS[n // 10 - 2] + ("-" + SMALL[n % 10] if n % 10 else "")


ASK = {
    "+": ["{a} plus {b}", "{a} + {b}", "{a}+{b}", "add {a} and {b}", "the sum of {a} and {b}", "{a} and {b} together", "add {b} to {a}", "{a} add {b}"],
    "-": ["{a} minus {b}", "{a} - {b}", "{a}-{b}", "subtract {b} from {a}", "the difference of {a} and {b}", "{a} less {b}", "take {b} from {a}", "{a} take away {b}"],
    "*": ["{a} times {b}", "{a} * {b}", "{a}*{b}", "{a} x {b}", "multiply {a} by {b}", "the product of {a} and {b}", "{a} multiplied by {b}", "{a} × {b}"],
    "/": ["{a} divided by {b}", "{a} / {b}", "{a}/{b}", "divide {a} by {b}", "{a} : {b}", "{a} over {b}", "{a} ÷ {b}"],
}
VERBS = ("add", "subtract", "multiply", "divide", "take")
WHAT = ["What is {q}?", "What is {q}?", "What is {q}?", "What's {q}?", "{q}", "{q}", "{q} =", "{q} = ?", "{q}=?", "{q}=", "{q}?", "what is {q}?", "Calculate {q}", "Compute {q}", "How much is {q}?", "Please compute {q}.", "Work out {q}", "Can you tell me {q}?",
        "Tell me {q}", "I need {q}", "Solve {q}", "solve: {q}", "And {q}?", "What does {q} make?", "what is {q}", "whats {q}", "Do you know what {q} is?", "Please calculate {q}", "How much is {q}", "Evaluate {q}", "What do you get for {q}?",
        "Give me {q}", "What is the result of {q}?", "Quick: {q}", "Now {q}", "Find {q}", "Could you compute {q}, please?", "{q} please", "Let us try {q}"]
DO = ["{Q}", "{Q}.", "Please {q}", "Please {q}.", "{q}", "Can you {q}?", "{Q}, please.", "Could you {q}?", "Now {q}", "I want you to {q}", "What do you get if you {q}?", "What is it if I {q}?"]


def ask_sum(r, a, op, b):
    x, y = (in_words(a), in_words(b)) if a < 100 and b < 100 and r.random() < 0.06 else (a, b)
    q = r.choice(ASK[op]).format(a=x, b=y)
    t = r.choice(DO if q.startswith(VERBS) else WHAT)
    return t.format(q=q, Q=q[0].upper() + q[1:])


def operands(r):
    op = r.choices("+-*/", (42, 27, 25, 6))[0]
    if op in "+-":
        n = r.choices((1, 2, 3, 4), (12, 44, 26, 18))[0]
        m = n if r.random() < 0.7 else r.randint(1, n)
        a, b = (r.randint(0 if k == 1 else 10 ** (k - 1), 10 ** k - 1) for k in (n, m))
        if op == "-" and a < b and r.random() < 0.75:
            a, b = b, a
        elif op == "+" and r.random() < 0.5:
            a, b = b, a
    elif op == "*":
        a, b = r.choices([(r.randint(0, 10), r.randint(0, 10)), (r.randint(2, 12), r.randint(2, 12)), (r.randint(10, 99), r.randint(2, 9)), (r.randint(100, 999), r.randint(2, 9)), (r.randint(10, 99), r.randint(10, 99))], (25, 15, 22, 10, 28))[0]
    else:
        b = r.randint(1, 12)
        a = b * r.randint(1, 12)
    return a, op, b


def plural(w):
    if w.endswith(("s", "x", "sh", "ch")):
        return w + "es"
    if w.endswith("y") and w[-2] not in "aeiou":
        return w[:-1] + "ies"
    if w.endswith(("knife",)):
        return "knives"
    return {"fish": "fish", "potato": "potatoes", "tomato": "tomatoes", "bread": "breads"}.get(w, w + "s")


def say(user, reasoning, content, **check):
    """A turn of a dialogue: what the user says, one step of the model, how to judge it."""
    return {"user": user, "steps": [{"role": "assistant", "reasoning": reasoning, "content": content}], "check": check}
