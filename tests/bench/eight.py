"""Eight clients of one server: two main conversations and six clients that send side requests.  By hand:

    q35chat serve --model assets/demo --listen 127.0.0.1:8411 &
    python3 tests/bench/eight.py http://127.0.0.1:8411 KEY [TURNS [TOKENS [PER_MINUTE]]]

TURNS: of each main conversation, 5 if not given.  TOKENS: of its first prompt, 20000.  PER_MINUTE: side requests of all six together; not given: as
fast as they are answered.  Prints a table of the turns and the side requests, and fails if less than 99 % of a turn's known prompt was cached.
"""
import json, sys, threading, time, urllib.request

url, key = sys.argv[1], sys.argv[2]
turns, tokens, per_minute = [int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((3, 5), (4, 20000), (5, 0))]
over = threading.Event()


def get(path, body=None):
    q = urllib.request.Request(url + path, json.dumps(body).encode() if body else None, {'Authorization': 'Bearer ' + key})
    with urllib.request.urlopen(q, timeout=3600) as r:
        return r.read().decode()


def ask(messages, n):
    return json.loads(get('/v1/chat/completions', {'messages': messages, 'max_tokens': n, 'temperature': 0,
                                                   'chat_template_kwargs': {'enable_thinking': False}}))


def main(name, results):
    words = ' '.join(f'{name}{i % 97}' for i in range(tokens * 2))
    count = lambda text: ask([{'role': 'user', 'content': text}], 1)['usage']['prompt_tokens'] / len(text)
    words = words[:int(tokens / count(words[:2000]))]
    messages = [{'role': 'user', 'content': words}]
    known = 0
    for turn in range(turns):
        begun = time.monotonic()
        a = ask(messages, 8)
        u = a['usage']
        cached = u['prompt_tokens_details']['cached_tokens']
        results.append((name, turn + 1, u['prompt_tokens'], cached, cached / known if known else 1, time.monotonic() - begun))
        print(f'{name}: turn {turn + 1} of {turns}', file=sys.stderr, flush=True)
        known = u['prompt_tokens']
        messages += [{'role': 'assistant', 'content': a['choices'][0]['message']['content'] or '-'}, {'role': 'user', 'content': f'And {turn}?'}]


def side(i):
    n = 0
    while not over.is_set():
        n += 1
        begun = time.monotonic()
        ask([{'role': 'user', 'content': f'A title for talk {i}.{n}, please.'}], 1 + n % 4)
        waited.append(time.monotonic() - begun)
        over.wait(max(0, 360 / per_minute - waited[-1]) if per_minute else 0)


results, waited, begun = [[], []], [], time.monotonic()
mains = [threading.Thread(target=main, args=(name, r)) for name, r in zip(('north', 'south'), results)]
sides = [threading.Thread(target=side, args=(i,)) for i in range(6)]
for t in mains + sides:
    t.start()
for t in mains:
    t.join()
over.set()
for t in sides:
    t.join()
minutes = (time.monotonic() - begun) / 60
print(f'{"conversation":12} {"turn":>5} {"prompt":>8} {"cached":>8} {"of known":>9} {"seconds":>8}')
for name, turn, prompt, cached, part, took in results[0] + results[1]:
    print(f'{name:12} {turn:5} {prompt:8} {cached:8} {part:9.2%} {took:8.1f}')
print(f'{"side":12} {len(waited)} requests in {minutes:.1f} min, {len(waited) / minutes:.0f} a minute, '
      f'median {sorted(waited)[len(waited) // 2]:.1f} s, longest {max(waited):.1f} s')
print('\n'.join(l for l in get('/metrics').splitlines() if l.startswith(('q35chat_evicted', 'q35chat_moved', 'q35chat_prompt', 'q35chat_resident'))))
least = min(row[4] for r in results for row in r)
print(f'{"ok" if least >= 0.99 else "not ok"} the least cached part of what was known in a turn: {least:.2%}')
sys.exit(least < 0.99)
