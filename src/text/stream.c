#include "text/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "text/pyjson.h"
#include "text/schema.h"

enum state {
    START,              /* only blanks so far; a repeated <think> may follow */
    THINK, CONTENT,     /* text */
    AFTER,              /* directly after a call: closing tags, blanks, another call */
    NAME,               /* after "<function=" */
    BODY,               /* inside a function, between parameters */
    KEY, VALUE,         /* after "<parameter=", after its ">" */
};

/* A part of `out`, up to the next run, that is contiguous in the input. */
struct run { size_t out, in; };

/* A call as a JSON object, after "<tool_call>"; read so far up to in[at]. */
struct object {
    size_t begin, at;
    int    depth;                       /* of its braces and brackets */
    bool   in_string, escaped;
};

/* How much of the arguments of the open call was emitted as pieces. */
struct told {
    size_t n_args;                      /* whole ones */
    bool   begun;                       /* the brace */
    bool   open;                        /* the next one is a text, and its key and quote were emitted, */
    size_t skipped, n;                  /* ... and n of its bytes, after a line end of so many bytes that belongs to the markup */
    bool   over;                        /* no more pieces */
};

struct stream {
    stream_fn    *fn;
    void         *arg;
    struct arena  tools_arena;
    struct schema *tools;
    int           n_tools;
    bool          thinking;

    enum state    state;
    struct buf    in;           /* in[at ..] is not decided yet */
    size_t        at;
    size_t        dropped;      /* bytes of the input that came before `in` */
    size_t        scan;         /* NAME, KEY, VALUE: already searched up to here; no byte is searched twice */
    size_t        look[2];      /* blanks after a first and a second tag were read up to here */
    bool          ended, cut;
    bool          lenient;      /* at the end a value had no closing tags: see stream_finish() */
    bool          in_tag;       /* AFTER: the <tool_call> is still open */
    struct object object;

    struct buf    out;          /* text of THINK or CONTENT that was not emitted yet */
    struct run   *runs;         /* origin of that text in the input */
    int           n_runs, cap_runs;
    size_t        seen;         /* out[.. seen) was examined */
    size_t        solid;        /* out[.. solid) does not end with white space */
    bool          emitted;        /* text was emitted: white space is no longer leading */
    bool          skip_blanks;  /* blanks before a call were kept: drop those after it */
    char          last;         /* the last character of the text; '\n' at the start */

    int           n_calls;
    struct arena  call;         /* the open call */
    struct pyjson args;
    const struct schema *schema;
    struct text   key;
    struct told   told;
};

enum match { NO, PART, YES };   /* PART: needs more input */

/* ---- emitting text ---- */

/* Examines the new part of `out` and moves `solid` behind its last character that is not white space. */
static void measure(struct stream *s, bool final)
{
    const char *p = buf_str(&s->out);
    size_t end = final ? s->out.len : s->seen + unicode_complete(p + s->seen, s->out.len - s->seen);
    while (s->seen < end) {
        uint32_t cp;
        s->seen += unicode_decode(p + s->seen, end - s->seen, &cp, NULL);
        if (!text_space(cp))
            s->solid = s->seen;
    }
}

/* Emits out[from, to): one delta for each part that is contiguous in the input. */
static void tell_text(struct stream *s, enum delta_kind kind, size_t from, size_t to)
{
    for (int i = 0; i < s->n_runs; i++) {
        const struct run *r = &s->runs[i];
        size_t begin = r->out > from ? r->out : from, end = i + 1 < s->n_runs ? r[1].out : to;
        if (end > to)
            end = to;
        if (begin < end)
            s->fn(&(struct delta){.kind = kind, .text = {s->out.data + begin, end - begin}, .call = s->n_calls, .from = r->in + begin - r->out},
                  s->arg);
    }
}

/* Removes the first n bytes of `out`. */
static void consume_runs(struct stream *s, size_t n)
{
    int gone = 0;
    while (gone + 1 < s->n_runs && s->runs[gone + 1].out <= n)
        gone++;
    for (int i = gone; i < s->n_runs; i++) {
        struct run r = s->runs[i];
        s->runs[i - gone] = r.out < n ? (struct run){0, r.in + n - r.out} : (struct run){r.out - n, r.in};
    }
    s->n_runs -= gone;
}

/* Notes that the next bytes appended to `out` come from byte `in` of the input. */
static void note_run(struct stream *s, size_t in)
{
    const struct run *last = s->n_runs ? &s->runs[s->n_runs - 1] : NULL;
    if (last && last->in + s->out.len - last->out == in)
        return;
    s->runs = memory_grow(s->runs, s->n_runs, &s->cap_runs, sizeof *s->runs);
    s->runs[s->n_runs++] = (struct run){s->out.len, in};
}

/* Emits all text but the white space at its end, which counts only if more text follows. */
static void deliver(struct stream *s, bool final)
{
    measure(s, final);
    if (!s->solid)
        return;
    struct text text = {s->out.data, s->solid};
    if (!s->emitted)
        text = text_trim(text);
    size_t from = (size_t)(text.p - s->out.data);
    tell_text(s, s->state == CONTENT || s->state == AFTER ? DELTA_CONTENT : DELTA_REASONING, from, from + text.n);
    s->emitted = true;
    buf_consume(&s->out, s->solid);
    consume_runs(s, s->solid);
    s->seen -= s->solid;
    s->solid = 0;
}

/* Takes the next n bytes of input as text. */
static void take_text(struct stream *s, size_t n)
{
    if (!n)
        return;
    const char *p = s->in.data + s->at;
    note_run(s, s->dropped + s->at);
    buf_add(&s->out, p, n);
    s->last = p[n - 1];
    s->at += n;
}

/* Delivers the rest of the reasoning and begins the content. */
static void start_content(struct stream *s)
{
    deliver(s, true);
    buf_reset(&s->out);
    s->n_runs = 0;
    s->seen = s->solid = 0;
    s->emitted = s->skip_blanks = false;
    s->last = '\n';
    s->state = CONTENT;
}

/* ---- examining the input ---- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static enum match match_text(const struct stream *s, size_t pos, const char *p, size_t n)
{
    size_t have = s->in.len - pos;
    if (memcmp(s->in.data + pos, p, have < n ? have : n))
        return NO;
    return have >= n ? YES : PART;
}

static enum match match(const struct stream *s, size_t pos, const char *tag)
{
    enum match m = match_text(s, pos, tag, strlen(tag));
    return m == PART && s->ended ? NO : m;
}

static void skip_blanks(const struct stream *s, size_t pos, size_t *look)
{
    if (*look < pos)
        *look = pos;
    while (*look < s->in.len && is_blank(s->in.data[*look]))
        ++*look;
}

/* Matches one of `tags` at `pos`, or, with `end_counts`, the end of the input there or inside a tag. Blanks are skipped first; *look remembers how
 * far, as a megabyte of them may come in single bytes. */
static enum match follows(struct stream *s, size_t pos, size_t *look, bool end_counts, const char *const *tags)
{
    enum match best = NO;
    skip_blanks(s, pos, look);
    if (*look == s->in.len)
        best = PART;
    else
        for (; *tags && best != YES; tags++) {
            enum match m = match_text(s, *look, *tags, strlen(*tags));
            best = m > best ? m : best;
        }
    return best == PART && s->ended ? (end_counts ? YES : NO) : best;
}

/* Decides if "<tool_call>" at pos begins a call or is a word in a sentence. */
static enum match opens_call(struct stream *s, size_t pos, size_t *look)
{
    static const char *const tags[] = {"<function=", NULL};
    enum match m = match(s, pos, "<tool_call>");
    return m == YES ? follows(s, pos + strlen("<tool_call>"), look, false, tags) : m;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* Matches a name at `pos`, perhaps in quotes, and its '>'. */
static enum match match_name(const struct stream *s, size_t pos, struct text name)
{
    const size_t quoted = pos < s->in.len && is_quote(s->in.data[pos]);
    const char end[] = {quoted ? s->in.data[pos] : '>', quoted ? '>' : 0, 0};
    enum match m = match_text(s, pos + quoted, name.p, name.n);
    if (m == YES)
        return match(s, pos + quoted + name.n, end);
    return s->ended ? NO : m;
}

/* Matches "<function=" followed by the name of an offered tool. */
static enum match opens_function(const struct stream *s, size_t pos)
{
    enum match best = NO, m = match(s, pos, "<function=");
    if (m != YES)
        return m;
    for (int i = 0; i < s->n_tools && best != YES; i++) {
        m = match_name(s, pos + strlen("<function="), s->tools[i].name);
        best = m > best ? m : best;
    }
    return best;
}

/* Matches "<parameter=" followed by a parameter of the schema. */
static enum match opens_param(const struct stream *s, size_t pos)
{
    enum match best = NO, m = match(s, pos, "<parameter=");
    if (m != YES)
        return m;
    for (size_t i = 0; s->schema && i < s->schema->n_params && best != YES; i++) {
        m = match_name(s, pos + strlen("<parameter="), s->schema->params[i].name);
        best = m > best ? m : best;
    }
    return best;
}

/* Returns the position of the next '<' from `pos`, or the end. */
static size_t next_tag(const struct stream *s, size_t pos)
{
    const char *lt = pos < s->in.len ? memchr(s->in.data + pos, '<', s->in.len - pos) : NULL;
    return lt ? (size_t)(lt - s->in.data) : s->in.len;
}

/* ---- arguments in pieces ---- */

/* Appends the inside of the JSON string of a text. */
static void add_inside(struct text t, struct buf *out)
{
    struct buf quoted = {0};
    pyjson_quote(t, &quoted);
    buf_add(out, quoted.data + 1, quoted.len - 2);
    buf_free(&quoted);
}

static void add_key(const struct stream *s, struct text key, struct buf *out)
{
    buf_adds(out, s->told.begun ? "" : "{");
    buf_adds(out, s->told.n_args ? ", " : "");
    pyjson_quote(key, out);
    buf_adds(out, ": ");
}

/* Returns where the open value is certain up to: before the first tag that could end it, the last line end, and a character that is not whole. */
static size_t certain_end(const struct stream *s, size_t from)
{
    static const char *const tags[] = {"</parameter>", "</function>", "</tool_call>", "<parameter="};
    size_t end = s->in.len;
    for (size_t at = next_tag(s, from); at < end; at = next_tag(s, at + 1))
        for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
            if (match_text(s, at, tags[i], strlen(tags[i])) != NO)
                end = at;
    end -= end > from && s->in.data[end - 1] == '\n';
    end -= end > from && s->in.data[end - 1] == '\r';
    return from + unicode_complete(s->in.data + from, end - from);
}

/* Appends what is certain of the open value, if it is a text whatever follows. */
static void add_open(struct stream *s, struct buf *out)
{
    const char *p = s->in.data + s->at;
    const size_t n = s->in.len - s->at;
    if (!s->key.n || !schema_is_string(schema_param(s->schema, s->key)) || pyjson_item(&s->args, s->key) || n < 2)
        return;
    if (!s->told.open) {
        add_key(s, s->key, out);
        buf_addc(out, '"');
        s->told.begun = s->told.open = true;
        s->told.skipped = p[0] == '\n' ? 1 : p[0] == '\r' && p[1] == '\n' ? 2 : 0;
    }
    const size_t from = s->at + s->told.skipped + s->told.n, end = certain_end(s, from);
    add_inside((struct text){s->in.data + from, end - from}, out);
    s->told.n += end - from;
}

/* Appends the rest of an argument that is whole. */
static void add_whole(struct stream *s, size_t i, struct buf *out)
{
    const struct pyjson *v = &s->args.items[i];
    if (!s->told.open) {
        add_key(s, s->args.keys[i], out);
        pyjson_dump(v, out);
    } else {
        add_inside((struct text){v->text.p + s->told.n, v->text.n - s->told.n}, out);
        buf_addc(out, '"');
    }
    s->told = (struct told){.n_args = i + 1, .begun = true};
}

/* Emits what became certain of the arguments of the open call. */
static void tell_arguments(struct stream *s)
{
    struct buf out = {0};
    while (!s->told.over && s->told.n_args < s->args.n)
        add_whole(s, s->told.n_args, &out);
    if (!s->told.over && s->state == VALUE)
        add_open(s, &out);
    if (out.len)
        s->fn(&(struct delta){.kind = DELTA_CALL_PIECE, .text = {out.data, out.len}, .call = s->n_calls}, s->arg);
    buf_free(&out);
}

/* ---- calls ---- */

/* Begins a function; the input position is after "<function=". */
static void begin_function(struct stream *s, size_t pos)
{
    s->at = s->scan = pos;
    s->state = NAME;
}

/* Ends the text and begins a call. */
static void begin_call(struct stream *s, size_t pos, bool in_tag)
{
    if (s->state == THINK)
        start_content(s);
    deliver(s, true);
    s->skip_blanks = s->out.len > 0;
    s->in_tag = in_tag;
    begin_function(s, pos);
}

/* Announces a call; its schema is that of the tool with this name, if there is one.  broken: the answer ended before the name did. */
static void name_call(struct stream *s, struct text name, bool broken)
{
    s->schema = NULL;
    for (int i = 0; i < s->n_tools && !s->schema; i++)
        if (text_same(s->tools[i].name, name))
            s->schema = &s->tools[i];
    s->args = (struct pyjson){.kind = PY_DICT};
    s->told = (struct told){0};
    s->fn(&(struct delta){.kind = DELTA_CALL_BEGIN, .text = name, .call = s->n_calls, .truncated = broken}, s->arg);
}

/* Delivers the arguments of the call as JSON and ends it. */
static void end_call(struct stream *s)
{
    struct buf json = {0};
    pyjson_dump(&s->args, &json);
    s->fn(&(struct delta){.kind = DELTA_CALL_END, .text = {json.data, json.len}, .call = s->n_calls}, s->arg);
    buf_free(&json);
    arena_free(&s->call);
    s->n_calls++;
    s->last = '\n';
    s->state = AFTER;
}

/* Returns the value that ends at `end`: one line end at each side belongs to the markup. */
static struct pyjson read_value(struct stream *s, size_t end)
{
    struct text v = {s->in.data + s->at, end - s->at};
    size_t begin = text_starts(v, "\r\n") ? 2 : text_starts(v, "\n");
    v.p += begin, v.n -= begin;
    if (v.n && v.p[v.n - 1] == '\n')
        v.n -= 1 + (v.n > 1 && v.p[v.n - 2] == '\r');
    return schema_value(schema_param(s->schema, s->key), v, &s->call);
}

/* Sets the argument s->key, whose value ends at `end`.  After a name that comes twice no more pieces of the call are delivered. */
static void set_argument(struct stream *s, size_t end)
{
    if (s->key.n && pyjson_item(&s->args, s->key)) {
        tell_arguments(s);
        s->told.over = true;
    }
    if (s->key.n)
        pyjson_set(&s->args, s->key, read_value(s, end), &s->call);
    s->at = end;
    s->state = BODY;
}

/* Ends a call that was cut off.  open: the value of s->key that broke off; NULL: there is none.  It comes last, where the model ended. */
static void cut_call(struct stream *s, const struct pyjson *open)
{
    struct buf json = {0};
    size_t closing = 1 + (open && open->kind == PY_STR);        /* its quote, and the brace */
    pyjson_dump(&s->args, &json);
    if (open) {
        json.len--;
        buf_adds(&json, s->args.n ? ", " : "");
        pyjson_quote(s->key, &json);
        buf_adds(&json, ": ");
        pyjson_dump(open, &json);
        buf_addc(&json, '}');
    }
    s->fn(&(struct delta){.kind = DELTA_CALL_END, .text = {json.data, json.len - closing}, .call = s->n_calls, .truncated = true, .closing = closing},
          s->arg);
    buf_free(&json);
    arena_free(&s->call);
    s->n_calls++;
    s->state = AFTER;
}

/* ---- a call as JSON ---- */

/* Reads on in the object as far as it has come, up to its last brace.  Only its characters outside of strings are checked, so that a '<' of markup
 * ends the attempt: no input is read more than twice. */
static enum match scan_object(struct stream *s)
{
    struct object *o = &s->object;
    while (o->at < s->in.len) {
        const char c = s->in.data[o->at++];
        if (o->escaped || o->in_string) {
            if (o->escaped && (!c || !strchr("\"\\/bfnrtu", c)))
                return NO;
            o->in_string = o->escaped || c != '"';
            o->escaped = !o->escaped && c == '\\';
        } else if (c == '"') {
            o->in_string = true;
        } else if (c == '{' || c == '[') {
            o->depth++;
        } else if ((c == '}' || c == ']') && !--o->depth) {
            return YES;
        } else if (!c || !strchr("}],: \t\r\n+-.0123456789eEtrufalsn", c)) {
            return NO;
        }
    }
    return s->ended ? NO : PART;
}

/* Reads the object of "<tool_call> {"name": ...}" at pos.  YES: it is complete, and in s->object. */
static enum match opens_object(struct stream *s, size_t pos)
{
    static const char *const braces[] = {"{", NULL}, *const quotes[] = {"\"", NULL};
    enum match m = match(s, pos, "<tool_call>");
    if (m == YES)
        m = follows(s, pos + strlen("<tool_call>"), &s->look[0], false, braces);
    if (m != YES)
        return m;
    const size_t begin = s->look[0];
    m = follows(s, begin + 1, &s->look[1], false, quotes);
    if (m != YES)
        return m;
    if (s->object.begin != begin)
        s->object = (struct object){.begin = begin, .at = begin};
    return scan_object(s);
}

/* Converts an argument that is a text to the type of its schema, if the text can be read as such. */
static struct pyjson typed(const struct stream *s, struct text key, const struct pyjson *v, struct arena *a)
{
    return v->kind == PY_STR ? schema_string(schema_param(s->schema, key), v->text, a) : *v;
}

/* Takes the object as a call.  False if the object is not a call. */
static bool take_object(struct stream *s)
{
    const struct object *o = &s->object;
    const struct text src = {s->in.data + o->begin, o->at - o->begin};
    struct pyjson top, inner;
    if (!pyjson_parse(&top, src, PYJSON_LENIENT, &s->call, NULL))
        return false;
    const struct pyjson *name = pyjson_get(&top, "name"), *args = pyjson_get(&top, "arguments");
    args = args ? args : pyjson_get(&top, "parameters");
    if (args && args->kind == PY_STR && pyjson_parse(&inner, args->text, PYJSON_LENIENT, &s->call, NULL))
        args = &inner;
    if (!name || name->kind != PY_STR || !name->text.n || !args || args->kind != PY_DICT)
        return false;
    begin_call(s, o->at, true);
    name_call(s, name->text, false);
    for (size_t i = 0; i < args->n; i++)
        pyjson_set(&s->args, args->keys[i], typed(s, args->keys[i], &args->items[i], &s->call), &s->call);
    end_call(s);
    return true;
}

/* ---- one step of the parser; false if it needs more input ---- */

/* Skips a <think> at the beginning of the answer.  False: needs more input. */
static bool step_start(struct stream *s)
{
    static const char *const tags[] = {"<think>", NULL};
    enum match m = follows(s, s->at, &s->look[0], false, tags);
    if (m == PART)
        return false;
    if (m == YES)
        s->at = s->look[0] + strlen("<think>");
    s->state = s->thinking ? THINK : CONTENT;
    return true;
}

/* Takes text up to the next tag, and the tag if it ends the reasoning or begins a call.  False: needs more input. */
static bool step_text(struct stream *s)
{
    take_text(s, next_tag(s, s->at) - s->at);
    if (s->at == s->in.len)
        return false;
    enum match close = match(s, s->at, "</think>"), call = NO, bare = NO, object = NO;
    if (s->n_tools)
        call = opens_call(s, s->at, &s->look[0]);
    if (s->n_tools && call == NO)
        object = opens_object(s, s->at);
    if (s->n_tools && s->state == CONTENT) {
        measure(s, false);
        if (s->last == '\n' || (!s->emitted && !s->solid))
            bare = opens_function(s, s->at);
    }
    if (close == YES) {
        s->at += strlen("</think>");
        if (s->state == THINK)
            start_content(s);
    } else if (call == YES) {
        begin_call(s, s->look[0] + strlen("<function="), true);
    } else if (bare == YES) {
        begin_call(s, s->at + strlen("<function="), false);
    } else if (close == PART || call == PART || bare == PART || object == PART) {
        return false;
    } else if (object != YES || !take_object(s)) {
        arena_free(&s->call);
        take_text(s, 1);
    }
    return true;
}

/* Reads the text after a call, where late or repeated closing tags are ignored. */
static bool step_after(struct stream *s)
{
    static const char *const closers[] = {"</tool_call>", "</function>", "</parameter>", "</think>"};
    skip_blanks(s, s->at, &s->look[0]);
    size_t at = s->look[0];
    if (at == s->in.len)
        return false;
    enum match best = NO;
    for (size_t i = 0; i < sizeof closers / sizeof *closers; i++) {
        enum match m = match(s, at, closers[i]);
        if (m == YES) {
            s->at = at + strlen(closers[i]);    /* drops the blanks before it, too */
            s->in_tag = s->in_tag && i;
            return true;
        }
        best = m > best ? m : best;
    }
    enum match m = s->in_tag ? match(s, at, "<function=") : opens_function(s, at);
    if (m == PART || (m == NO && best == PART))
        return false;
    if (s->skip_blanks)
        s->at = at;
    take_text(s, at - s->at);
    if (m == YES)
        begin_call(s, at + strlen("<function="), s->in_tag);
    else
        s->state = CONTENT;
    return true;
}

/* Returns the position of the character that ends a name, or the end of the input. */
static size_t name_end(struct stream *s)
{
    while (s->scan < s->in.len && !memchr(">\n<", s->in.data[s->scan], 3))
        s->scan++;
    return s->scan;
}

/* Returns a name without blanks and quotes around it. */
static struct text bare_name(struct text t)
{
    t = text_trim(t);
    return t.n > 1 && is_quote(t.p[0]) && t.p[t.n - 1] == t.p[0] ? (struct text){t.p + 1, t.n - 2} : t;
}

/* Reads a name, which ends at '>'; if that is missing, at the end of the line or the next tag. */
static bool step_name(struct stream *s)
{
    size_t end = name_end(s);
    if (end == s->in.len)
        return false;
    name_call(s, bare_name((struct text){s->in.data + s->at, end - s->at}), false);
    s->at = end + (s->in.data[end] == '>');
    s->state = BODY;
    return true;
}

/* Takes the next tag within a call: a parameter, or the end of the call.  False: needs more input. */
static bool step_body(struct stream *s)
{
    s->at = next_tag(s, s->at);         /* text between parameters is ignored */
    if (s->at == s->in.len)
        return false;
    enum match param = match(s, s->at, "<parameter="), close = match(s, s->at, "</function>"),
               close_all = match(s, s->at, "</tool_call>"), function = match(s, s->at, "<function="),
               call = opens_call(s, s->at, &s->look[0]);
    if (param == YES) {
        s->at += strlen("<parameter=");
        s->scan = s->at;
        s->state = KEY;
    } else if (close == YES) {
        s->at += strlen("</function>");
        end_call(s);
    } else if (close_all == YES) {
        s->at += strlen("</tool_call>");
        end_call(s);
        s->in_tag = false;
    } else if (function == YES) {
        end_call(s);
        begin_function(s, s->at + strlen("<function="));
    } else if (call == YES) {
        end_call(s);
        s->state = CONTENT;
    } else if (param == PART || close == PART || close_all == PART || function == PART || call == PART) {
        return false;
    } else {
        s->at++;
    }
    return true;
}

/* Takes the name of a parameter.  False: needs more input. */
static bool step_key(struct stream *s)
{
    size_t end = name_end(s);
    if (end == s->in.len)
        return false;
    struct text key = bare_name((struct text){s->in.data + s->at, end - s->at});
    char c = s->in.data[end];
    s->key = (struct text){arena_strndup(&s->call, key.p, key.n), key.n};
    s->at = s->scan = end + (c == '>');
    /* No name and no ">" ("<parameter=</parameter>"): not a parameter.  Only no name ("<parameter=>"): skip its value. */
    s->state = c == '>' || (c == '\n' && key.n) ? VALUE : BODY;
    return true;
}

/* True if the </tool_call> at p, after blanks, ends a call whose value has no closing tag: the next call or the end of the answer follows.  Text that
 * follows shows that the tag is part of the value. */
static enum match tag_ends(struct stream *s, size_t p)
{
    static const char *const behind_call[] = {"<tool_call>", "<function=", "</tool_call>", "</think>", NULL};
    return follows(s, p + strlen("</tool_call>"), &s->look[1], !s->cut, behind_call);
}

/* Returns the same for the </function> at p. */
static enum match function_ends(struct stream *s, size_t p, bool line_start)
{
    static const char *const behind_function[] = {"</tool_call>", "<function=", "<tool_call>", NULL}, *const last[] = {"</tool_call>", NULL};
    enum match m = follows(s, p + strlen("</function>"), &s->look[0], line_start && !s->cut, line_start ? behind_function : last);
    const size_t at = s->look[0];
    if (m != YES || at == s->in.len)
        return m;
    if (!line_start && s->in.data[at - 1] != '\n')      /* within a line only if the next line starts with </tool_call>, which would end the value */
        return NO;
    return match(s, at, "</tool_call>") == YES ? tag_ends(s, at) : m;
}

/* Decides if the value ends at the '<' at p?  Its closing tag counts only if structure follows.  Other tags count only at the start of a line: they
 * may end a value without a closing tag, but more often they are part of the value. */
static enum match value_ends(struct stream *s, size_t p)
{
    static const char *const behind_param[] = {"<parameter=", "</function>", "</tool_call>", NULL};
    bool line_start = (p > s->at && s->in.data[p - 1] == '\n') || s->lenient;
    enum match param = match(s, p, "</parameter>"), function = match(s, p, "</function>"), best;
    if (param == YES) {
        best = follows(s, p + strlen("</parameter>"), &s->look[0], true, behind_param);
        return best == NO ? opens_call(s, s->look[0], &s->look[1]) : best;
    }
    if (function == YES)
        return function_ends(s, p, line_start);
    best = param > function ? param : function;
    if (line_start) {
        enum match close = match(s, p, "</tool_call>"), next = opens_param(s, p);
        if (close == YES)
            close = tag_ends(s, p);
        best = close > best ? close : best;
        best = next > best ? next : best;
    }
    return best;
}

/* Takes the value of a parameter and its closing tag.  False: needs more input. */
static bool step_value(struct stream *s)
{
    for (s->scan = next_tag(s, s->scan); s->scan < s->in.len; s->scan = next_tag(s, s->scan + 1)) {
        enum match m = value_ends(s, s->scan);
        if (m == PART)
            return false;
        if (m == NO)
            continue;
        set_argument(s, s->scan);
        if (match(s, s->at, "</parameter>") == YES)
            s->at += strlen("</parameter>");
        return true;
    }
    return false;
}

static void parse(struct stream *s)
{
    static bool (*const steps[])(struct stream *) = {
        [START] = step_start, [THINK] = step_text, [CONTENT] = step_text, [AFTER] = step_after,
        [NAME] = step_name,   [BODY] = step_body,  [KEY] = step_key,      [VALUE] = step_value,
    };
    while (steps[s->state](s))
        ;
}

/* ---- the interface ---- */

struct stream *stream_open(const struct text *tools, int n_tools, bool thinking, stream_fn *fn, void *arg)
{
    struct stream *s = memory_zeroed(1, sizeof *s);
    s->fn = fn;
    s->arg = arg;
    s->thinking = thinking;
    s->last = '\n';
    s->tools = arena_array(&s->tools_arena, (size_t)n_tools, sizeof *s->tools);
    for (int i = 0; i < n_tools; i++)
        s->n_tools += schema_read(&s->tools[s->n_tools], tools[i], &s->tools_arena);
    return s;
}

/* Drops the decided input when it is the larger part, so that each byte is moved at most once on average. */
static void compact(struct stream *s)
{
    size_t n = s->at;
    if (n < s->in.len - n)
        return;
    buf_consume(&s->in, n);
    s->dropped += n;
    s->at = 0;
    s->scan = s->scan > n ? s->scan - n : 0;
    s->object.begin = s->object.begin > n ? s->object.begin - n : 0;
    s->object.at = s->object.at > n ? s->object.at - n : 0;
    for (int i = 0; i < 2; i++)
        s->look[i] = s->look[i] > n ? s->look[i] - n : 0;
}

void stream_push(struct stream *s, const char *text, size_t n)
{
    CHECK(!s->ended);
    if (!n)
        return;
    compact(s);
    buf_add(&s->in, text, n);
    parse(s);
    if (s->state == THINK || s->state == CONTENT)
        deliver(s, false);
    else if (s->state >= BODY)
        tell_arguments(s);
}

/* Returns the end of a value that was cut off, without a partial closing tag. */
static size_t cut_value_end(const struct stream *s)
{
    static const char *const closers[] = {"</parameter>", "</function>", "</tool_call>"};
    size_t n = s->in.len, max = strlen("</parameter>");
    for (size_t p = n; p-- > s->at && n - p <= max;)
        for (size_t i = 0; s->in.data[p] == '<' && i < sizeof closers / sizeof *closers; i++)
            if (n - p > 1 && n - p <= strlen(closers[i]) && !memcmp(s->in.data + p, closers[i], n - p))
                return p;
    return n;
}

void stream_finish(struct stream *s, bool cut)
{
    CHECK(!s->ended);
    s->ended = true;
    s->cut = cut;
    parse(s);
    if (s->state == VALUE && !cut) {
        /* The model ended the answer, so the value has closing tags that were not recognised: accept those within a line. */
        s->lenient = true;
        s->scan = s->at;
        s->look[0] = s->look[1] = 0;
        parse(s);
    }
    if (s->state == VALUE && s->key.n) {
        const struct pyjson open = read_value(s, cut_value_end(s));
        cut_call(s, &open);
    } else if (s->state == BODY && !cut && schema_complete(s->schema, &s->args)) {      /* the model has only forgotten the closing tags */
        end_call(s);
    } else if (s->state > NAME || (s->state == NAME && !cut)) {
        if (s->state == NAME)
            name_call(s, text_of(""), true);
        cut_call(s, NULL);
    }
    deliver(s, true);
}

bool stream_in_reasoning(const struct stream *s)
{
    return s->state == THINK || (s->state == START && s->thinking);
}

void stream_close(struct stream *s)
{
    if (!s)
        return;
    arena_free(&s->tools_arena);
    arena_free(&s->call);
    buf_free(&s->in);
    buf_free(&s->out);
    free(s->runs);
    free(s);
}
