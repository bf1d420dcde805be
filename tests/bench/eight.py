"""Eight clients of one server: two main conversations of 20,000 tokens and six that send side requests.  By hand:

    q35chat serve --model assets/demo --listen 127.0.0.1:8411 &
    python3 tests/bench/eight.py http://127.0.0.1:8411 KEY [TURNS [TOKENS]]

Prints the cached part of each turn of the main conversations, and fails if one is below 99 %.  Side requests are sent as fast as they are answered.
"""
import json, sys, threading, urllib.request

url, key = sys.argv[1], sys.argv[2]
turns = int(sys.argv[3]) if len(sys.argv) > 3 else 5
tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 20000
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
        a = ask(messages, 8)
        u = a['usage']
        cached = u['prompt_tokens_details']['cached_tokens']
        results.append(cached / known if known else 1)
        print(f'{name}: turn {turn + 1}, prompt {u["prompt_tokens"]}, cached {cached}', flush=True)
        known = u['prompt_tokens']
        messages += [{'role': 'assistant', 'content': a['choices'][0]['message']['content'] or '-'}, {'role': 'user', 'content': f'And {turn}?'}]


def side(i):
    n = 0
    while not over.is_set():
        n += 1
        ask([{'role': 'user', 'content': f'A title for talk {i}.{n}, please.'}], 1 + n % 4)


results = [[], []]
mains = [threading.Thread(target=main, args=(name, r)) for name, r in zip(('north', 'south'), results)]
sides = [threading.Thread(target=side, args=(i,)) for i in range(6)]
for t in mains + sides:
    t.start()
for t in mains:
    t.join()
over.set()
for t in sides:
    t.join()
print('\n'.join(l for l in get('/metrics').splitlines() if l.startswith(('q35chat_evicted', 'q35chat_moved', 'q35chat_prompt', 'q35chat_resident'))))
least = min(min(r) for r in results)
print(f'{"ok" if least >= 0.99 else "not ok"} the least cached part of a turn: {least:.4f}')
sys.exit(least < 0.99)
