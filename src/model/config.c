
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "kernels/conv.h"
#include "kernels/deltanet.h"
#include "kernels/vision.h"
#include "model/config.h"

enum { MAX_FILE = 16 << 20, REQUIRED = INT_MIN };

/* The place of a field, for messages. */
struct source {
    const char *where;
    struct err *e;
};

struct int_field {
    const char *key;
    size_t      at;
    int         min, max;
    int         missing;                /* value when the key is not there */
};

#define INT(key, member, min, max, missing) {key, offsetof(struct model_config, member), min, max, missing}
static const struct int_field int_fields[] = {
    INT("hidden_size",                     hidden,       2, 1 << 16, REQUIRED),
    INT("num_hidden_layers",               n_layers,     1, MODEL_MAX_LAYERS, REQUIRED),
    INT("num_attention_heads",             n_q_heads,    1, 1024, REQUIRED),
    INT("num_key_value_heads",             n_kv_heads,   1, 1024, REQUIRED),
    INT("head_dim",                        head_dim,     8, 512, 256),        /* what kernels/cpu/attention.c keeps per row */
    INT("linear_num_key_heads",            lin_k_heads,  1, 1024, REQUIRED),
    INT("linear_num_value_heads",          lin_v_heads,  1, 1024, REQUIRED),
    INT("linear_key_head_dim",             lin_k_dim,    1, DELTANET_MAX_DIM, 128),
    INT("linear_value_head_dim",           lin_v_dim,    1, DELTANET_MAX_DIM, 128),
    INT("linear_conv_kernel_dim",          conv_kernel,  2, CONV_MAX_TAPS, 4),
    INT("num_experts",                     n_experts,    1, 4096, REQUIRED),
    INT("num_experts_per_tok",             top_k,        1, 64, REQUIRED),
    INT("moe_intermediate_size",           moe_inter,    1, 1 << 16, REQUIRED),
    INT("shared_expert_intermediate_size", shared_inter, 1, 1 << 16, REQUIRED),
    INT("vocab_size",                      vocab,        2, 1 << 24, REQUIRED),
    INT("max_position_embeddings",         max_pos,      1, 1 << 26, 32768),
    INT("mtp_num_hidden_layers",           n_mtp,        0, 1, 1),
};
static const struct int_field vision_ints[] = {
    INT("depth",                   vision.depth,       1, MODEL_MAX_LAYERS, REQUIRED),
    INT("hidden_size",             vision.hidden,      8, 1 << 14, REQUIRED),
    INT("num_heads",               vision.n_heads,     1, 1024, REQUIRED),
    INT("intermediate_size",       vision.inter,       8, 1 << 16, REQUIRED),
    INT("num_position_embeddings", vision.n_positions, 1, 1 << 20, REQUIRED),
    INT("out_hidden_size",         vision.out,         2, 1 << 16, REQUIRED),
};
static const struct int_field vision_ids[] = {
    INT("image_token_id",          vision.image_id,    0, (1 << 24) - 1, -1),
    INT("vision_start_token_id",   vision.start_id,    0, (1 << 24) - 1, -1),
    INT("vision_end_token_id",     vision.end_id,      0, (1 << 24) - 1, -1),
};
#undef INT

/* Fields with only one meaning that the forward pass computes.  `allowed` is a JSON list; a missing key is fine. */
struct fixed_field {
    const char *key, *allowed;
};
static const struct fixed_field fixed_fields[] = {
    {"model_type",                  "[\"qwen3_5_moe\", \"qwen3_5_moe_text\"]"},
    {"hidden_act",                  "[\"silu\", \"swish\"]"},
    {"attention_bias",              "[false]"},
    {"attn_output_gate",            "[true]"},
    {"output_gate_type",            "[\"swish\", \"silu\"]"},
    {"norm_topk_prob",              "[true]"},
    {"decoder_sparse_step",         "[1]"},
    {"mlp_only_layers",             "[[]]"},
    {"use_sliding_window",          "[false]"},
    {"mtp_use_dedicated_embeddings", "[false]"},
    {NULL, NULL},
};
static const struct fixed_field vision_fixed[] = {
    {"hidden_act",                  "[\"gelu_pytorch_tanh\"]"},
    {"in_channels",                 "[3]"},
    {"patch_size",                  "[16]"},
    {"temporal_patch_size",         "[2]"},
    {"spatial_merge_size",          "[2]"},
    {"deepstack_visual_indexes",    "[[]]"},
    {NULL, NULL},
};
static const struct fixed_field rope_fixed[] = {
    {"truncate",                    "[true]"},
    {"mscale",                      "[]"},
    {"mscale_all_dim",              "[]"},
    {NULL, NULL},
};
/* The format of a matrix is probed from its tensors; but zeros that are not stored less one, and other packings of the
 * same size, can only be recognised here. */
static const struct fixed_field quant_fixed[] = {
    {"quant_method",                "[\"auto-round\", \"intel/auto-round\", \"gptq\", \"fp8\"]"},
    {"bits",                        "[4]"},
    {"group_size",                  "[128]"},
    {"desc_act",                    "[false]"},
    {"packing_format",              "[\"auto_round:auto_gptq\", \"auto_gptq\"]"},
    {"checkpoint_format",           "[\"gptq\"]"},
    {"fmt",                         "[\"e4m3\"]"},
    {"weight_block_size",           "[[128, 128]]"},
    {NULL, NULL},
};

/* Returns a member of an object; NULL if its key is missing or its value is null. */
static json_t *field(const json_t *obj, const char *key)
{
    json_t *v = json_object_get(obj, key);
    return json_is_null(v) ? NULL : v;
}

/* Reports that a field is missing or has another value than expected.  Returns false. */
static bool refuse_field(const struct source *s, const char *key, const json_t *found, const char *expected)
{
    enum { MOST = 60 };                 /* bytes of the value that are shown */
    if (!found)
        return err_set(s->e, "%s: %s is missing, expected %s", s->where, key, expected);
    char *text = memory_got(json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT));
    err_set(s->e, "%s: %s is %.*s%s, expected %s", s->where, key, MOST, text, strlen(text) > MOST ? "..." : "", expected);
    free(text);
    return false;
}

/* Checks that each listed field, if it is there, has one of the allowed values; the list ends with a NULL key. */
static bool check_fixed(const struct source *s, const json_t *obj, const struct fixed_field *f)
{
    for (; f->key; f++) {
        const json_t *v = field(obj, f->key);
        if (!v)
            continue;
        json_t *allowed = json_loads(f->allowed, 0, NULL);
        struct buf expected = {0};
        bool ok = false;
        for (size_t i = 0; i < json_array_size(allowed); i++) {
            char text[80] = "";
            const json_t *a = json_array_get(allowed, i);
            ok |= json_equal(v, a);
            json_dumpb(a, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT);
            buf_addf(&expected, "%s%s", i ? " or " : "", text);
        }
        if (!ok)
            refuse_field(s, f->key, v, expected.len ? buf_str(&expected) : "no such field");
        buf_free(&expected);
        json_decref(allowed);
        if (!ok)
            return false;
    }
    return true;
}

/* Reads a whole number within the field's bounds; a missing field has its default, unless it is required. */
static bool read_int(const struct source *s, const json_t *obj, const struct int_field *f, int *out)
{
    const json_t *v = field(obj, f->key);
    if (!v && f->missing != REQUIRED) {
        *out = f->missing;
        return true;
    }
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < f->min || n > f->max) {
        char expected[64];
        snprintf(expected, sizeof expected, "a whole number from %d to %d", f->min, f->max);
        return refuse_field(s, f->key, v, expected);
    }
    *out = (int)n;
    return true;
}

static bool read_ints(const struct source *s, const json_t *obj, const struct int_field *fields, size_t n, struct model_config *c)
{
    for (size_t i = 0; i < n; i++)
        if (!read_int(s, obj, &fields[i], (int *)((char *)c + fields[i].at)))
            return false;
    return true;
}

/* Reads a number from min to max; `missing` is the value of a field that is not there. */
static bool read_real(const struct source *s, const json_t *obj, const char *key, double min, double max, double missing, float *out)
{
    const json_t *v = field(obj, key);
    double x = v ? json_number_value(v) : missing;
    if ((v && !json_is_number(v)) || !(x >= min && x <= max)) {
        char expected[64];
        snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
        return refuse_field(s, key, v, expected);
    }
    *out = (float)x;
    return true;
}

static bool read_bool(const struct source *s, const json_t *obj, const char *key, bool *out)
{
    const json_t *v = field(obj, key);
    if (v && !json_is_boolean(v))
        return refuse_field(s, key, v, "true or false");
    if (v)
        *out = json_is_true(v);
    return true;
}

/* Sets which layers have full attention: by layer_types, else every full_attention_interval-th. */
static bool read_layer_types(const struct source *s, const json_t *text, struct model_config *c)
{
    const json_t *types = field(text, "layer_types");
    struct int_field every = {"full_attention_interval", 0, 1, MODEL_MAX_LAYERS, 4};
    int interval;
    if (!read_int(s, text, &every, &interval))
        return false;
    if (types && (!json_is_array(types) || json_array_size(types) != (size_t)c->n_layers)) {
        char expected[64];
        snprintf(expected, sizeof expected, "a list of num_hidden_layers = %d names", c->n_layers);
        return json_is_array(types)
            ? err_set(s->e, "%s: layer_types has %zu entries, expected %s", s->where, json_array_size(types), expected)
            : refuse_field(s, "layer_types", types, expected);
    }
    for (int i = 0; i < c->n_layers; i++) {
        const json_t *type = json_array_get(types, (size_t)i);
        const char *name = json_string_value(type);
        c->full[i] = types ? name && !strcmp(name, "full_attention") : (i + 1) % interval == 0;
        if (types && !c->full[i] && (!name || strcmp(name, "linear_attention")))
            return refuse_field(s, "an entry of layer_types", type, "\"full_attention\" or \"linear_attention\"");
        *(c->full[i] ? &c->n_full : &c->n_delta) += 1;
    }
    return true;
}

/* Reads what both the rope object and the level above it (in older files) may hold. */
static bool read_rope_basics(const struct source *s, const json_t *text, const json_t *rope, struct model_config *c)
{
    float partial;
    const json_t *theta_in   = field(rope, "rope_theta") ? rope : text;
    const json_t *partial_in = field(rope, "partial_rotary_factor") ? rope : text;
    if (!read_real(s, theta_in, "rope_theta", 1, 1e12, 1e7, &c->rope_theta)
        || !read_real(s, partial_in, "partial_rotary_factor", 0, 1, 0.25, &partial))
        return false;
    double dims = (double)c->head_dim * (double)partial;
    c->rotary_dim = (int)lround(dims);
    if (fabs(dims - c->rotary_dim) > 1e-3 || c->rotary_dim < 2 || c->rotary_dim % 2)
        return err_set(s->e, "%s: partial_rotary_factor %g of head_dim %d gives %g rotated dimensions, expected an even number of at least 2",
                       s->where, (double)partial, c->head_dim, dims);
    return true;
}

/* Reads the parameters of YaRN and extends max_pos to the stretched context. */
static bool read_yarn(const struct source *s, const json_t *rope, struct model_config *c)
{
    struct int_field original = {"original_max_position_embeddings", 0, 1, 1 << 26, c->max_pos};
    if (!field(rope, "factor"))
        return refuse_field(s, "rope_parameters.factor", NULL, "a number, since rope_type is yarn");
    if (!check_fixed(s, rope, rope_fixed)
        || !read_real(s, rope, "factor", 1, 64, 1, &c->yarn_factor)
        || !read_int(s, rope, &original, &c->yarn_original)
        || !read_real(s, rope, "beta_fast", 1e-3, 1e6, 32, &c->yarn_beta_fast)
        || !read_real(s, rope, "beta_slow", 1e-3, 1e6, 1, &c->yarn_beta_slow)
        || !read_real(s, rope, "attention_factor", 1e-3, 1e3, (double)config_yarn_attention((double)c->yarn_factor), &c->yarn_attention_factor))
        return false;
    if (c->yarn_beta_fast <= c->yarn_beta_slow)
        return err_set(s->e, "%s: beta_fast is %g, expected more than beta_slow %g", s->where, (double)c->yarn_beta_fast,
                       (double)c->yarn_beta_slow);
    double reach = (double)c->yarn_factor * c->yarn_original;
    if (reach > c->max_pos)
        c->max_pos = reach < 1 << 26 ? (int)reach : 1 << 26;
    return true;
}

/* Reads the parameters of the rotation; the type is "default", "mrope" or "yarn". */
static bool read_rope(const struct source *s, const json_t *text, struct model_config *c)
{
    const char *key = field(text, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    const json_t *rope = field(text, key);
    if (rope && !json_is_object(rope))
        return refuse_field(s, key, rope, "an object");
    if (field(rope, "full_attention"))  /* one object per kind of layer; only this kind rotates */
        rope = field(rope, "full_attention");
    c->yarn_factor = c->yarn_attention_factor = 1;
    c->yarn_beta_fast = 32;
    c->yarn_beta_slow = 1;
    if (!read_rope_basics(s, text, rope, c))
        return false;
    const json_t *type = field(rope, "rope_type") ? field(rope, "rope_type") : field(rope, "type");
    const char *name = type ? json_string_value(type) : "default";
    if (name && !strcmp(name, "yarn"))
        return read_yarn(s, rope, c);
    if (!name || (strcmp(name, "default") && strcmp(name, "mrope")))    /* for text, mrope is the default */
        return refuse_field(s, "rope_type", type, "\"default\" or \"yarn\"");
    return true;
}

/* Reads the ids that end an answer, one or a list, in place of those read earlier; v NULL changes nothing. */
static bool read_eos(const struct source *s, const json_t *v, struct model_config *c)
{
    if (!v)
        return true;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    c->n_eos = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
        json_int_t x = json_integer_value(id);
        if (!json_is_integer(id) || x < 0)
            return refuse_field(s, "eos_token_id", v, "a token id or a list of them");
        if (x >= c->vocab)              /* cannot be sampled: nothing to stop at */
            continue;
        if (c->n_eos == (int)(sizeof c->eos / sizeof *c->eos))
            return refuse_field(s, "eos_token_id", v, "at most 8 token ids");
        c->eos[c->n_eos++] = (int)x;
    }
    return true;
}

/* Checks that heads divide each other, and other relations between the sizes. */
static bool check_sizes(const struct source *s, const struct model_config *c)
{
    const struct { const char *a; int found; const char *b; int multiple; } divides[] = {
        {"num_attention_heads",    c->n_q_heads,   "num_key_value_heads",  c->n_kv_heads},
        {"linear_num_value_heads", c->lin_v_heads, "linear_num_key_heads", c->lin_k_heads},
    };
    for (size_t i = 0; i < sizeof divides / sizeof *divides; i++)
        if (divides[i].found % divides[i].multiple)
            return err_set(s->e, "%s: %s is %d, expected a multiple of %s %d", s->where, divides[i].a, divides[i].found,
                           divides[i].b, divides[i].multiple);
    if (c->head_dim % 8)
        return err_set(s->e, "%s: head_dim is %d, expected a multiple of 8", s->where, c->head_dim);
    if (c->top_k > c->n_experts)
        return err_set(s->e, "%s: num_experts_per_tok is %d, expected at most num_experts %d", s->where, c->top_k, c->n_experts);
    return true;
}

/* Reads the tower's part of the file; a file without it describes a model for text alone. */
static bool read_vision(const struct source *outer, const json_t *root, struct model_config *c)
{
    const json_t *tower = field(root, "vision_config");
    char where[256];
    struct source s = {where, outer->e};
    struct vision_config *v = &c->vision;
    if (!tower)
        return true;
    snprintf(where, sizeof where, "%s: vision_config", outer->where);
    if (!json_is_object(tower))
        return refuse_field(outer, "vision_config", tower, "an object");
    if (!check_fixed(&s, tower, vision_fixed) || !read_ints(&s, tower, vision_ints, sizeof vision_ints / sizeof *vision_ints, c)
        || !read_ints(outer, root, vision_ids, sizeof vision_ids / sizeof *vision_ids, c))
        return false;
    v->side = (int)lround(sqrt(v->n_positions));
    if (v->side * v->side != v->n_positions)
        return err_set(s.e, "%s: num_position_embeddings is %d, expected the square of a whole number", where, v->n_positions);
    if (v->hidden % v->n_heads || v->hidden / v->n_heads % 8 || v->hidden / v->n_heads > PATCH_MAX_DIM)
        return err_set(s.e, "%s: hidden_size is %d for %d heads, expected heads of a multiple of 8 up to %d", where, v->hidden, v->n_heads,
                       PATCH_MAX_DIM);
    return v->out == c->hidden
        || err_set(s.e, "%s: out_hidden_size is %d, expected hidden_size of the text model, %d", where, v->out, c->hidden);
}

/* Sets the name: that of the geometry in config/models.def with the same sizes, else "custom". */
static void name_model(struct model_config *c)
{
    bool every[MODEL_MAX_LAYERS + 1] = {0};     /* every[n]: full attention at each n-th layer and only there */
    for (int n = 1; n <= MODEL_MAX_LAYERS; n++) {
        every[n] = true;
        for (int i = 0; i < c->n_layers; i++)
            every[n] &= c->full[i] == ((i + 1) % n == 0);
    }
    const char *name = "custom";
#define MODEL(known, h, l, interval, q, kv, hd, lk, lv, ld, e, k, i, si, v)                                          \
    if (c->hidden == h && c->n_layers == l && every[interval] && c->n_q_heads == q && c->n_kv_heads == kv            \
        && c->head_dim == hd && c->lin_k_heads == lk && c->lin_v_heads == lv && c->lin_k_dim == ld                   \
        && c->lin_v_dim == ld && c->n_experts == e && c->top_k == k && c->moe_inter == i && c->shared_inter == si    \
        && c->vocab == v)                                                                                            \
        name = known;
#include "config/models.def"
#undef MODEL
    snprintf(c->name, sizeof c->name, "%s", name);
}

static bool read_quantization(const struct source *s, const json_t *root)
{
    const json_t *q = field(root, "quantization_config");
    if (q && !json_is_object(q))
        return refuse_field(s, "quantization_config", q, "an object");
    return check_fixed(s, q, quant_fixed);
}

/* Reads the text model, rotation, vision tower and ending ids from the root of config.json. */
static bool read_config(const struct source *s, const json_t *root, struct model_config *c)
{
    const json_t *text = field(root, "text_config");
    if (text && !json_is_object(text))
        return refuse_field(s, "text_config", text, "an object");
    if (!text)
        text = root;
    if (!check_fixed(s, root, (const struct fixed_field[]){fixed_fields[0], {NULL, NULL}})
        || !check_fixed(s, text, fixed_fields)
        || !read_quantization(s, root) || !read_quantization(s, text))
        return false;
    if (!read_ints(s, text, int_fields, sizeof int_fields / sizeof *int_fields, c))
        return false;
    if (!read_real(s, text, "rms_norm_eps", 1e-12, 0.1, 1e-6, &c->rms_eps)
        || !read_bool(s, text, "tie_word_embeddings", &c->tied)
        || !read_bool(s, root, "tie_word_embeddings", &c->tied)         /* the outer one decides */
        || !check_sizes(s, c)
        || !read_layer_types(s, text, c)
        || !read_rope(s, text, c)
        || !read_vision(s, root, c)
        || !read_eos(s, field(root, "eos_token_id"), c)
        || !read_eos(s, field(text, "eos_token_id"), c))
        return false;
    name_model(c);
    return true;
}

/* Parses a JSON object.  NULL with the reason; the caller frees it. */
static json_t *load_object(const char *json, size_t len, const struct source *s)
{
    json_error_t je;
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &je);
    if (!root)
        err_set(s->e, "%s: not valid JSON: %s (line %d)", s->where, je.text, je.line);
    else if (!json_is_object(root)) {
        refuse_field(s, "the file", root, "an object");
        json_decref(root);
        root = NULL;
    }
    return root;
}

bool config_parse(struct model_config *c, const char *json, unsigned long len, const char *where, struct err *e)
{
    struct source s = {where, e};
    *c = (struct model_config){.gen_temperature = -1, .gen_top_p = -1, .gen_top_k = -1};
    json_t *root = load_object(json, len, &s);
    bool ok = root && read_config(&s, root, c);
    json_decref(root);
    return ok;
}

/* Reads generation_config.json: where a conversation stops, and the publisher's sampling. */
static bool read_generation(struct model_config *c, const struct buf *text, const char *where, struct err *e)
{
    struct source s = {where, e};
    struct int_field top_k = {"top_k", 0, 0, 1 << 24, -1};
    json_t *root = load_object(buf_str(text), text->len, &s);
    bool ok = root && read_eos(&s, field(root, "eos_token_id"), c)
        && (!field(root, "temperature") || read_real(&s, root, "temperature", 0, 100, 0, &c->gen_temperature))
        && (!field(root, "top_p") || read_real(&s, root, "top_p", 0, 1, 0, &c->gen_top_p))
        && read_int(&s, root, &top_k, &c->gen_top_k);
    json_decref(root);
    return ok;
}

/* Reports a folder that does not exist or has no config.json.  True if the file is there, or fails to open for another reason. */
static bool refuse_missing(const char *dir, const char *path, struct err *e)
{
    static const char expected[] = "expected the directory of a checkpoint: config.json, tokenizer.json, *.safetensors";
    struct stat st;
    if (!stat(path, &st))
        return true;
    if (stat(dir, &st))
        return err_set(e, errno == ENOENT ? "no directory %s; `q35chat model list` lists the models of this machine" : "cannot open %s: %s",
                       dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return err_set(e, "%s is a file, %s", dir, expected);
    return errno != ENOENT || err_set(e, "%s has no config.json, %s", dir, expected);
}

bool config_load(struct model_config *c, const char *dir, struct err *e)
{
    bool ok = false;
    struct buf path = {0}, text = {0};
    buf_addf(&path, "%s/config.json", dir);
    if (!refuse_missing(dir, buf_str(&path), e) || !file_read(&text, buf_str(&path), MAX_FILE, e)
        || !config_parse(c, buf_str(&text), text.len, buf_str(&path), e))
        goto out;
    buf_reset(&path);
    buf_reset(&text);
    buf_addf(&path, "%s/generation_config.json", dir);
    if (access(buf_str(&path), F_OK) && errno == ENOENT)
        ok = true;
    else
        ok = file_read(&text, buf_str(&path), MAX_FILE, e) && read_generation(c, &text, buf_str(&path), e);
out:
    buf_free(&text);
    buf_free(&path);
    return ok;
}
