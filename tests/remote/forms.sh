#!/bin/sh
# Answers in a form that is asked for: by the options --schema, --pattern and --choices, and by the fields of requests to a server.
. tests/remote/serve.inc

schema='{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"],
         "additionalProperties": false}'
printf '%s' "$schema" > "$tmp/person.json"
ask() {         # options: the answer in $out, what was printed beside it in $err, the status in $found
    timeout $patience "$q" --model "$demo" --no-attach --no-stdin --temperature 0 "$@" > "$tmp/out" 2> "$tmp/err"
    found=$? out=$(cat "$tmp/out") err=$(cat "$tmp/err")
}
# The keys of a JSON object, and the types of their values.
keys() { printf '%s' "$1" | python3 -c 'import json, sys; print({k: type(v).__name__ for k, v in json.load(sys.stdin).items()})'; }
person="{'name': 'str', 'age': 'int'}"

for think in --think --no-think; do
    ask $think --schema "$schema" "Write a JSON object with name Otto and age 7."
    is "an answer is what the schema says ($think)" "$found $(keys "$out")" "0 $person"
    ask $think --schema "$tmp/person.json" --draft 0 "What is the capital of France?"
    is "... whatever is asked, with the schema in a file ($think)" "$found $(keys "$out")" "0 $person"
done
ask --no-think --schema "$schema" --temperature 1 --seed 5 "Tell me a story"
is "... at a temperature, too" "$found $(keys "$out")" "0 $person"
ask --no-think --pattern '[A-Z]{3}-\d{2}' "Say something"
is "an answer matches a pattern" "$found $(printf %s "$out" | grep -cE '^[A-Z]{3}-[0-9]{2}$')" "0 1"
ask --no-think --choices "no way,by all means" "Is it cold?"
is "an answer is one of some choices" "$found $(printf '%s\n' "$out" | grep -cxE 'no way|by all means')" "0 1"
ask --no-think --strict -n 3 --schema "$schema" "Write a JSON object"
is "a cut answer fails with --strict" "$found" 5
has "... and says so" "$err" "the answer was cut off"
ask --no-think -n 3 --schema "$schema" "Write a JSON object"
is "... and without: what was cut does not have the form" "$found" 5
member() { printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin).get(sys.argv[1]))' $1; }
ask --no-think --json --schema "$schema" "Otto is 7"
is "--json has the value" "$found $(member parsed)" "0 {'name': 'Otto', 'age': 7}"
ask --no-think --json -n 3 --schema "$schema" "Otto is 7"
is "... which a cut answer has not" "$found $(member parsed) $(member finish)" "5 None length"
ask --no-think --json --stop '":' --schema "$schema" "Otto is 7"
is "... nor one that a stop string ended" "$found $(member parsed) $(member finish)" "1 None stop_text"
has "... which is said" "$err $(member invalid)" "the answer is not what the schema wants: not valid JSON"
loose='{"type": "object", "properties": {"k": {"type": "array", "items": {"type": "string", "pattern": "^a$"},
        "minItems": 2, "maxItems": 2, "uniqueItems": true}},
        "required": ["k"], "additionalProperties": false}'
ask --no-think --json --schema "$loose" "x"
has "a keyword that cannot be enforced is refused by its place" "$found $err" '2 q35chat: --schema: #/properties/k: "uniqueItems"'
printf %s "$loose" > "$tmp/loose.json"
ask --schema "$tmp/loose.json" "x"
has "... in a file by that, too" "$found $err" "2 q35chat: --schema $tmp/loose.json: #/properties/k: \"uniqueItems\""
ask --no-think --json --schema-loose --schema "$loose" "x"
is "... with --schema-loose it is checked afterwards" "$found $(member parsed)" "1 None"
has "... and the answer is said to differ" "$err" "the answer is not what the schema wants"
ask --no-think --json --schema "$schema" --verbose "Otto is 7"
with=$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"]["prompt"])')
ask --no-think --json --schema "$schema" --no-schema-prompt "Otto is 7"
without=$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"]["prompt"])')
[ "$with" -gt $((without + 30)) ] && ok "the prompt has the schema" || bad "the prompt has the schema" "$with tokens, $without without"
ask --no-think --json --schema "$schema" 'Write "name" and "age": Otto is 7'
[ "$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"]["prompt"])')" -lt $((without + 20)) ] &&
    ok "... unless it names all properties" || bad "... unless it names all properties" "$out"
ask --schema '{"type": "x' "x"
is "a schema that is none ends with a sentence" "$found" 2
has "... which has the place" "$err" "not valid JSON at byte"
ask --schema false "x"
has "... and one that nothing satisfies" "$found $err" "2 q35chat: --schema: no text satisfies the schema"
ask --no-think --choices "no way, by all means" "Is it cold?"
is "blanks around the commas of choices are no part of them" "$found $(printf '%s\n' "$out" | grep -cxE 'no way|by all means')" "0 1"
ask --no-think --choices '["no, not at all", "yes, a bit"]' "Is it cold?"
is "choices of a JSON list may have commas" "$found $(printf '%s\n' "$out" | grep -cxE 'no, not at all|yes, a bit')" "0 1"
ask --choices " " "x"
has "... and a blank choice is none" "$found $err" "2 q35chat: choices must be texts with commas between, none of them empty"
ask --schema "$tmp/missing.json" "x"
has "so does a file that is not there" "$err" "missing.json"
ask --choices a,b --pattern a "x"
has "an answer has one form" "$err" "cannot be combined"
cat > "$tmp/lines" << 'END'
{"prompt": "x", "choices": ["one", "two"]}
{"prompt": "x", "choices": "one,two"}
{"prompt": "x", "schema": {"type": "object", "properties": {"k": {"const": 5}}, "required": ["k"], "additionalProperties": false}}
END
timeout $patience "$q" --model "$demo" --no-attach --no-think --temperature 0 --batch --batch-json < "$tmp/lines" > "$tmp/out" 2> "$tmp/err"
is "lines of a batch have forms of their own" "$(python3 -c 'import json, sys
print([json.loads(l)["answer"] in ("one", "two", "{\"k\": 5}") for l in open(sys.argv[1])])' "$tmp/out")" "[True, True, True]"
is "... and their values" "$(tail -n 1 "$tmp/out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["parsed"])')" "{'k': 5}"


begin "$demo"
cat > "$tmp/post.py" << 'END'
import http.client, json, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
c = Unix("x", timeout=120)
body = json.loads(sys.argv[2])
asked = {"messages": [{"role": "user", "content": "Weather in Paris? Anna is 7."}], "max_tokens": 300, "temperature": 0}
c.request("POST", "/v1/chat/completions", json.dumps({**asked, **body}))
r = c.getresponse()
a = json.loads(r.read())
if sys.argv[3:]:
    print(a["usage"]["prompt_tokens"])
elif r.status != 200:
    print(r.status, a["error"]["param"], a["error"]["message"])
else:
    m, why = a["choices"][0]["message"], a["choices"][0]["finish_reason"]
    calls = [(t["function"]["name"], sorted(json.loads(t["function"]["arguments"]))) for t in m.get("tool_calls") or []]
    print(why, calls if calls else m["content"])
END
post() { timeout $patience python3 "$tmp/post.py" "$socket" "$1"; }
prompted() { timeout $patience python3 "$tmp/post.py" "$socket" "$1" usage; }
asked="\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"p\", \"schema\": $schema}}"
bare=$(prompted "{$asked, \"schema_prompt\": false}")
[ "$(prompted "{$asked}")" -gt $((bare + 30)) ] && ok "a served prompt has the schema, unless it shall not" ||
    bad "a served prompt has the schema, unless it shall not" "$(prompted "{$asked}"), $bare without"
is "... and not where vLLM's clients have put it" "$(prompted "{\"guided_json\": $schema}")" "$bare"

# The words are gone from a question once the next one is there; what was computed before them is used again.
cat > "$tmp/turns.py" << 'END'
import http.client, json, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
said = [{"role": "system", "content": "You are brief and kind. " * 80}]
for name in ("Otto", "Anna", "Ines", "Paul"):
    said.append({"role": "user", "content": f"Tell me about {name}, who is 7. " + "Think of what was said before. " * 20})
    c = Unix("x", timeout=120)
    c.request("POST", "/v1/chat/completions", json.dumps({"messages": said, "temperature": 0, "enable_thinking": False, "response_format":
        {"type": "json_schema", "json_schema": {"name": "p", "schema": json.loads(sys.argv[2])}}}))
    a = json.loads(c.getresponse().read())
    said.append(a["choices"][0]["message"])
    used = a["usage"]
    read = used["prompt_tokens"] - used["prompt_tokens_details"]["cached_tokens"]
print(read < used["prompt_tokens"] / 2, read, used["prompt_tokens"])
END
has "a turn with a schema reads its own part alone" "$(timeout $patience python3 "$tmp/turns.py" "$socket" "$schema")" "True"

# The other two dialects.
cat > "$tmp/other.py" << 'END'
import http.client, json, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
def post(path, body):
    c = Unix("x", timeout=120)
    c.request("POST", path, json.dumps(body))
    r = c.getresponse()
    return r.status, json.loads(r.read())
schema, asked = json.loads(sys.argv[2]), "Tell me about Otto, who is 7"
begun = {"model": "demo", "max_tokens": 400, "messages": [{"role": "user", "content": asked}],
         "output_config": {"format": {"type": "json_schema", "schema": schema}}}
_, m = post("/v1/messages", begun)
print(next(b["text"] for b in m["content"] if b["type"] == "text"))
begun["messages"].append({"role": "assistant", "content": "Otto is"})
status, m = post("/v1/messages", begun)
print(status, m["error"]["type"], m["error"]["message"])
_, r = post("/v1/responses", {"model": "demo", "input": asked, "text": {"format": {"type": "json_schema", "name": "p", "schema": schema}}})
print(next(i["content"][0]["text"] for i in r["output"] if i["type"] == "message"))
END
timeout $patience python3 "$tmp/other.py" "$socket" "$schema" > "$tmp/out" 2>&1
is "Messages: output_config.format" "$(keys "$(head -n 1 "$tmp/out")")" "$person"
has "... a beginning of the answer that does not fit is the client's mistake" "$(sed -n 2p "$tmp/out")" \
    "400 invalid_request_error the beginning of the answer does not fit its schema"
is "Responses: text.format" "$(keys "$(tail -n 1 "$tmp/out")")" "$person"

# Programs that are attached to that server have its engine enforce the form.
attached() {
    timeout $patience "$q" --model "$demo" --no-stdin --temperature 0 --verbose "$@" > "$tmp/out" 2> "$tmp/err"
    found=$? out=$(cat "$tmp/out") err=$(cat "$tmp/err")
}
for think in --think --no-think; do
    attached $think --schema "$schema" "Tell me about Otto, who is 7"
    is "an attached pipe: an answer is what the schema says ($think)" "$found $(keys "$out")" "0 $person"
    has "... by the engine of the server" "$err" "attached to the model"
done
there=$out
ask --no-think --schema "$schema" "Tell me about Otto, who is 7"
is "... and the one that the model says here" "$there" "$out"
attached --no-think --pattern '[A-Z]{3}-\d{2}' "Say something"
is "... a pattern" "$found $(printf %s "$out" | grep -cE '^[A-Z]{3}-[0-9]{2}$')" "0 1"
attached --no-think --choices "no way,by all means" "Is it cold?"
is "... choices" "$found $(printf '%s\n' "$out" | grep -cxE 'no way|by all means')" "0 1"
attached --no-think --think-budget 4 --schema "$schema" "Tell me about Otto"
is "... after a budget of reasoning" "$found $(keys "$out")" "0 $person"
attached --no-think --save kept --schema "$schema" "Tell me about Otto, who is 7"
is "... an attached conversation" "$found $(keys "$out")" "0 $person"
attached --no-think -r kept "Tell me about Anna, who is 9"
is "... which keeps it" "$found $(keys "$out")" "0 $person"
attached --schema '{"type": "object", "not": {"type": "object"}}' "x"
has "... what cannot be is refused" "$found $err" "2 q35chat: "
timeout $patience "$q" --model "$demo" --no-think --temperature 0 --batch --batch-json < "$tmp/lines" > "$tmp/out" 2> "$tmp/err"
is "... in a batch, too" "$(tail -n 1 "$tmp/out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["parsed"])')" "{'k': 5}"
tools='"tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
       "required": ["city"]}}}, {"type": "function", "function": {"name": "wait", "parameters":
       {"type": "object", "properties": {"s": {"type": "integer"}}, "required": ["s"]}}}]'
found=$(post "{\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"p\", \"strict\": true, \"schema\": $schema}}}")
is "response_format: a schema" "${found%% *} $(keys "${found#* }")" "stop $person"
is "... and any object" "$(post '{"response_format": {"type": "json_object"}, "enable_thinking": false}' | head -c 6)" "stop {"
is "guided_choice" "$(post '{"guided_choice": ["never"]}')" "stop never"
has "... an empty one is refused" "$(post '{"guided_choice": ["never", ""]}')" "400 guided_choice guided_choice has an empty text"
has "... as is an empty pattern" "$(post '{"guided_regex": ""}')" "400 guided_regex guided_regex is empty"
has "... and parameters that are no schema" "$(post '{"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}')" \
    "400 tools[0] tools[0] (f) has parameters that are not a JSON schema"
is "structured_outputs" "$(post '{"structured_outputs": {"regex": "[x]{3}"}, "enable_thinking": false}')" "stop xxx"
is "a call that is required comes" "$(post "{$tools, \"tool_choice\": \"required\"}" | cut -c1-12)" "tool_calls ["
choose() { post "{$tools, \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"$1\"}}}"; }
is "... of the function that is named" "$(choose wait)" "tool_calls [('wait', ['s'])]"
has "a function that is not there is refused" "$(choose no)" "400 tool_choice tool_choice is the name of a function that is not among tools: no"
finite=$(printf %s "$tools" | sed 's/{"city": {"type": "string"}}/{"city": {"enum": ["Paris", "Rome"]}}/')
either() { post "{$finite, \"response_format\": {\"type\": \"json_object\"}, \"enable_thinking\": false, \"logit_bias\": {$1}}" ; }
has "beside tools a form leaves room for calls" "$(either '"<tool_call>": 90')" "tool_calls [('"
has "... and for the form" "$(either '"<tool_call>": -100')" "stop {"
# A tool whose schema is wrong is refused, so that its caller learns of it.
wrong() {
    post "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"look\", $1 \"parameters\": {\"type\": \"object\",
           \"properties\": {\"a\": {\"\$ref\": \"#/\$defs/none\"}}}}}], \"max_tokens\": 5}"
}
is "a tool with a reference that leads nowhere is refused" "$(wrong)" \
    '400 tools[0].function.parameters tools[0].function.parameters: the tool look: #/properties/a: "$ref" leads to no schema of this document'
is "... unless its strict is false" "$(wrong '"strict": false,' | cut -d' ' -f1)" length
# Many patterns at once: an answer comes, or the form is refused; neither takes long, and other answers go on meanwhile.
many() { python3 -c 'import json, string, sys
parts = [{"type": "string", "pattern": sys.argv[2].replace("X", c)} for c in string.ascii_uppercase]
print(json.dumps({"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": {sys.argv[1]: parts}}},
                  "enable_thinking": False, "schema_prompt": False, "max_tokens": 40}))' "$@"; }
has "an answer of one of many patterns comes" "$(post "$(many oneOf '^.*X.*$')" | grep -cE '^(stop|length) "')" 1
has "patterns of too many states are refused by their place" "$(post "$(many allOf '^.*X.{28}$')")" \
    "400 response_format.json_schema.schema response_format.json_schema.schema: #: the values need too many states"
# After the tag of a call nothing but a call may come, whatever the model would write.
begun() {
    post "{$finite, \"enable_thinking\": false, \"max_tokens\": 120, \"temperature\": 1.5, \"seed\": $1, \"parallel_tool_calls\": false,
           \"logit_bias\": {\"<tool_call>\": 30}}" | grep -cE "^tool_calls \[\('(get_weather', \['city'\]|wait', \['s'\])\)\]$"
}
for seed in 1 2 3; do
    is "a call that was begun is a call of a tool" "$(begun $seed)" 1
done
end
exit $status
