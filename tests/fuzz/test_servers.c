/* Descriptions of other servers: their lists of models, and the [endpoint NAME] sections of the config file.  Valid ones are changed
 * at random: a model that is chosen is one of the list, an endpoint that is found has an address, and a config file that is printed reads the
 * same. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/unicode.h"
#include "option/endpoint.h"
#include "remote/dialect.h"
#include "tests/fuzz/disk.h"
#include "tests/fuzz/mutate.h"
#include "tests/tmpdir.h"

/* ---- lists of models ---- */

static const char *const lists[] = {
    "{\"object\": \"list\", \"data\": [{\"id\": \"demo\", \"owned_by\": \"q35chat\", \"max_model_len\": 4096, \"loading\": "
    "{\"done\": 5, \"total\": 9}}]}",
    "{\"data\": [{\"id\": \"a\", \"owned_by\": \"vllm\", \"max_model_len\": 262144}, {\"id\": \"b\", \"owned_by\": \"vllm\"}]}",
    "{\"data\": [{\"id\": \"a\", \"owned_by\": \"library\", \"capabilities\": [\"completion\"]}, {\"id\": \"embed\", \"owned_by\": \"library\", "
    "\"capabilities\": [\"embedding\"]}]}",
    "{\"data\": [{\"id\": \"x/y\", \"architecture\": {\"output_modalities\": [\"text\"]}}, {\"id\": \"z\", \"type\": \"embedding\"}, {\"id\": \"w\", "
    "\"capabilities\": {\"completion_chat\": false}}]}",
    "{\"data\": []}", "{\"models\": [], \"data\": [{\"id\": \"\xe6\x97\xa5\", \"owned_by\": \"llamacpp\", \"meta\": {\"n_ctx_train\": 32768}}]}",
    "{\"default_generation_settings\": {\"n_ctx\": 8192, \"params\": {}}, \"model_path\": \"x\"}",
};
static const char *const list_words[] = {
    "\"data\":", "\"id\":", "\"owned_by\":", "\"a\"", "\"b\"", "\"\"", "null", "[]", "{}", "{\"id\": \"a\"},", "\"max_model_len\":", "\"loading\":",
    "\"type\":",
    "\"embedding\"", "\"q35chat\"", "\"vllm\"", "\"me\"", ",", "\\u0000", "\\u0007", "\"n_ctx\":", "\"default_generation_settings\":",
};
static const char *const wanted_names[] = {"a", "b", "demo", "", "x/y", "\xe6\x97\xa5", "not there"};

/* Whether one of the models that the list has is called so. */
static bool is_listed(const char *body, size_t n, const char *name)
{
    json_t *v = json_loadb(body, n, 0, NULL);
    const json_t *list = json_object_get(v, "data");
    bool found = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *id = json_string_value(json_object_get(json_array_get(list, i), "id"));
        found = found || (id && !strcmp(id, name));
    }
    json_decref(v);
    return found;
}

static const char *choose(const struct buf *body, const char *wanted)
{
    struct remote_model m;
    struct buf names = {0};
    struct err e = {{0}};
    const char *wrong = NULL;
    size_t n = 0;
    const bool ok = models_choose(buf_str(body), body->len, wanted, &m, &names, &e);
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1, n++)
        if (!names.data[at] || !is_listed(buf_str(body), body->len, names.data + at))
            wrong = "a name is not one of the list";
    if (!ok && !*e.msg)
        wrong = "a list is refused without a reason";
    if (ok && (!m.id.len || !m.dialect || m.n_ctx < 0 || m.n_ctx > 1 << 30 || !unicode_valid(m.id.data, m.id.len)))
        wrong = wanted && !*wanted ? wrong : "a model has no name, no dialect or no size";
    if (ok && wanted && strcmp(buf_str(&m.id), wanted))
        wrong = "another model was chosen";
    if (ok && !wanted && (n != 1 || strcmp(m.id.data, names.data)))
        wrong = "a model was chosen of several";
    if (ok && m.unlisted == is_listed(buf_str(body), body->len, buf_str(&m.id)) && *buf_str(&m.id))
        wrong = "a model that is listed counts as not listed, or the other way round";
    remote_model_free(&m);
    buf_free(&names);
    return wrong;
}

static void test_dialect__a_model_that_is_chosen_is_the_one_that_is_wanted(void **state)
{
    struct buf body = {0};
    struct long_run run;
    (void)state;
    for (run = long_run_begin(1, 1); next_input(&run);) {
        buf_reset(&body);
        buf_adds(&body, ANY(lists));
        mutate(&body, list_words, COUNT(list_words), ANY(lists));
        const char *wrong = choose(&body, one_in(2) ? NULL : ANY(wanted_names));
        const int n = props_context(buf_str(&body), body.len);
        if (n < 0 || n > 1 << 30)
            wrong = "the size of a context is no size";
        if (wrong)
            fail_input(&run, wrong, buf_str(&body), body.len);
    }
    long_run_print(&run, run.n, "lists");
    buf_free(&body);
}

/* ---- sections ---- */

static struct tmpdir dir;
static const char *const configs[] = {
    "# servers\n[endpoint work]\nurl = https://llm.example.org/v1\nmodel = big\nkey_env = FUZZ_KEY\ndialect = vllm\n\n"
    "[endpoint home]\nurl = unix:/tmp/x.sock\n",
    "temperature = 0.5\n[endpoint a]\nurl = http://[::1]:8000\nkey_file = $/key\n[tool t]\ncommand = cat\n"
    "[endpoint b]\nurl = \"http://x\"\nca_file = $/key\n",
    "[endpoint two words]\n  url = http://h/\n  model =\n[endpoint 0]\nurl : https://y\ndialect = openai\nkey_env = NO_SUCH_VARIABLE\n",
};
static const char *const config_words[] = {
    "[endpoint ", "[endpoint work]", "[endpoint]", "]", "\n", "url = ", "url = ftp://x\n", "key_env = ", "key_file = ", "dialect = ", "model = ",
    "http://", "https://", "unix:", "=", ":",
    "#", ";", " #", "\"", "'", "\t", "  ", "[tool a]\n", "sglang", "$/key", "FUZZ_KEY", "$/none", "$",
};

static void make_config(struct buf *b)
{
    struct buf text = {0};
    buf_adds(&text, ANY(configs));
    mutate(&text, config_words, COUNT(config_words), ANY(configs));
    buf_reset(b);
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '$')
            buf_adds(b, dir.path);
        else
            buf_addc(b, text.data[i]);
    buf_free(&text);
}

static bool has_address(const char *url)
{
    static const char *const all[] = {"http://", "https://", "unix:"};
    for (uint32_t i = 0; url && i < COUNT(all); i++)
        if (!strncmp(url, all[i], strlen(all[i])) && url[strlen(all[i])])
            return true;
    return false;
}

static const char *find(struct options *o, const char *name)
{
    struct endpoint ep;
    struct err e = {{0}};
    struct buf unused = {0};
    const char *wrong = NULL;
    if (!options_set(o, OPT_endpoint, name, FROM_SET, &e))
        return *e.msg ? NULL : "an endpoint cannot be set, without a reason";
    const bool ok = *name && endpoint_find(o, &ep, &e);
    if (*name && !ok && !*e.msg)
        wrong = "an endpoint is not found, without a reason";
    if (ok && !has_address(ep.url))
        wrong = "an endpoint has no address";
    if (ok && ((ep.model && !*ep.model) || (ep.dialect && !dialect_find(ep.dialect, &e) && strcmp(ep.dialect, "auto"))))
        wrong = "an endpoint has an empty model or an unknown dialect";
    for (size_t i = 0; ok && i < ep.key.len; i++)
        if (ep.key.data[i] <= ' ' || ep.key.data[i] > '~')
            wrong = "a key cannot be sent in a header";
    endpoint_unused(o, &unused);
    buf_free(&unused);
    if (*name)
        endpoint_free(&ep);
    return wrong;
}

static bool same(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

/* Printed sections read back as the same sections, unless the text itself names a value that no file can hold. */
static const char *print_again(const struct options *o)
{
    struct options *again = options_open();
    struct buf text = {0};
    struct err e = {{0}};
    char path[96];
    const char *wrong = NULL;
    snprintf(path, sizeof path, "%s/again", dir.path);
    options_print(o, &text);
    assert_true(tmpdir_put(&dir, "again", buf_str(&text), text.len));
    if (!options_read_file(again, path, &e))
        wrong = "a config file that was printed is refused";
    else if (options_n_endpoints(o) != options_n_endpoints(again))
        wrong = "a config file that was printed has other endpoints";
    for (int i = 0; !wrong && i < options_n_endpoints(o); i++) {
        const struct option_endpoint *a = options_endpoint(o, i), *b = options_endpoint(again, i);
        bool alike = same(a->name, b->name);
#define ENDPOINT_KEY(key) alike = alike && same(a->key, b->key);
#include "config/endpoint.def"
        wrong = alike || strstr(text.data, "cannot stand in") ? NULL : "an endpoint is another one after it was printed";
    }
    if (wrong)
        print_message("%s\n%s\n", e.msg, strstr(buf_str(&text), "\n[") ? strstr(buf_str(&text), "\n[") : "");
    options_close(again);
    buf_free(&text);
    return wrong;
}

static const char *use_config(const char *path, long *found)
{
    struct options *o = options_open();
    struct err e = {{0}};
    const char *wrong = NULL;
    if (!options_read_file(o, path, &e)) {
        wrong = *e.msg ? NULL : "a config file is refused without a reason";
    } else {
        wrong = print_again(o);
        *found += options_n_endpoints(o) > 0;
        for (int i = 0; !wrong && i < options_n_endpoints(o); i++)
            wrong = find(o, options_endpoint(o, i)->name);
        wrong = wrong ? wrong : find(o, one_in(2) ? "work" : "https://x.y/z");
    }
    options_close(o);
    return wrong;
}

static void test_endpoint__one_that_is_found_has_an_address_and_prints_the_same(void **state)
{
    struct buf b = {0};
    struct long_run run;
    char path[96], key[96];
    long found = 0;
    (void)state;
    assert_true(tmpdir_make(&dir) && tmpdir_put(&dir, "key", "sk-1\n", 5));
    snprintf(key, sizeof key, "%s/key", dir.path);
    assert_int_equal(chmod(key, 0600), 0);
    snprintf(path, sizeof path, "%s/conf", dir.path);
    for (run = long_run_begin(1, 1); next_input(&run);) {
        make_config(&b);
        assert_true(tmpdir_put(&dir, "conf", buf_str(&b), b.len));
        const char *wrong = use_config(path, &found);
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, run.n, "files");
    print_message("%ld with endpoints\n", found);
    assert_true(found > 0);
    tmpdir_drop(&dir, "conf");
    tmpdir_drop(&dir, "again");
    tmpdir_drop(&dir, "key");
    tmpdir_remove(&dir);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialect__a_model_that_is_chosen_is_the_one_that_is_wanted),
        cmocka_unit_test(test_endpoint__one_that_is_found_has_an_address_and_prints_the_same),
    };
    setenv("FUZZ_KEY", "sk-of-the-test", 1);
    unsetenv("NO_SUCH_VARIABLE");
    return cmocka_run_group_tests_name("servers fuzz", tests, NULL, NULL);
}
