#include "option/preset.h"

#include <string.h>

static const struct preset {
    const char *name;
    int   top_k;
#define SAMPLING_NUMBER(name, ...) float name;
#include "config/sampling_numbers.def"
} presets[] = {
#define PRESET(name, ...) {#name, __VA_ARGS__},
#include "config/sampling.def"
};

/* Returns the values in force, before the options of the user. */
static struct preset choose_preset(const struct options *o, const struct model_info *info)
{
    const char *name = options_text(o, OPT_preset);
    if (!strcmp(name, "auto") && info->temperature >= 0)
        return (struct preset){.name = "the model's default", .temperature = info->temperature, .top_p = info->top_p >= 0 ? info->top_p : 1,
                               .top_k = info->top_k >= 0 ? info->top_k : 0, .repetition_penalty = 1};
    if (!strcmp(name, "auto"))
        name = options_on(o, OPT_think) ? "thinking" : "plain";
    const struct preset *p = presets;
    while (strcmp(p->name, name))       /* the choices of the option are these names */
        p++;
    return *p;
}

/* Returns the value of the option if the user has set it. */
static float real_or(const struct options *o, enum option_id id, float otherwise)
{
    return options_given(o, id) ? (float)options_real(o, id) : otherwise;
}

void preset_sampling(const struct options *o, const struct model_info *info, struct sampling *s)
{
    struct preset p = choose_preset(o, info);
    *s = (struct sampling){
#define SAMPLING_NUMBER(name, ...) .name = real_or(o, OPT_##name, p.name),
#include "config/sampling_numbers.def"
        .top_k = options_given(o, OPT_top_k) ? options_int(o, OPT_top_k) : p.top_k,
        .seed = options_given(o, OPT_seed) ? options_seed(o) : 0,
        .max_tokens = options_int(o, OPT_max_tokens),
        .draft_depth = options_drafts(o),
        .lookup = options_on(o, OPT_lookup),
    };
    s->bias_words = options_list(o, OPT_logit_bias, &s->n_bias_words);
    s->top_p = preset_top_p(s->top_p);
}

static const struct model_info not_known = {.temperature = -1};

void preset_name(const struct options *o, const struct model_info *info, struct buf *out)
{
    struct sampling s;
    const char *preset = options_text(o, OPT_preset);
    bool own = !strcmp(preset, "auto");
    if (!info && own && !options_given(o, OPT_temperature))
        return;                         /* the model's own values may differ */
    preset_sampling(o, info ? info : &not_known, &s);
    if (s.temperature > 0)
        buf_addf(out, "%s%stemperature %g", own ? "" : preset, own ? "" : ", ", s.temperature);
    else
        buf_adds(out, "greedy");
}

void preset_describe(const struct options *o, const struct model_info *info, struct buf *out)
{
    struct sampling s;
    preset_sampling(o, info ? info : &not_known, &s);
    const char *from = choose_preset(o, info ? info : &not_known).name;
    buf_addf(out, "preset %s", options_text(o, OPT_preset));
    if (strcmp(from, options_text(o, OPT_preset)))
        buf_addf(out, " (now: %s)", from);
    buf_addf(out, info ? "; choose one of %s\n" : "; choose one of %s; the model's own values are known when it is loaded\n",
             options_choices(OPT_preset));
#define SAMPLING_NUMBER(name, ...) buf_addf(out, #name " %g, ", (double)s.name);
#include "config/sampling_numbers.def"
    buf_addf(out, "top_k %d\n", s.top_k);
}

/* Appends how drafts and lookup differ from the setting. */
static void describe_drafts(const struct options *o, const struct model_info *info, enum option_id id, struct buf *out)
{
    if (!info || (id == OPT_draft && !options_drafts(o)) || (id == OPT_lookup && !options_on(o, OPT_lookup)))
        return;
    if (!*info->formats)
        buf_adds(out, "the server decides about drafts\n");
    else if (!info->draft_depth)
        buf_adds(out, "no drafts are made: the model has no MTP block, or was loaded without (--draft off); --draft auto at the start loads it\n");
    else if (options_drafts(o) > info->draft_depth)
        buf_addf(out, "at most %d are made\n", info->draft_depth);
    else if (options_drafts(o) >= 0 && options_on(o, OPT_lookup))
        buf_addf(out, "draft is %s: nothing is looked up; with auto it is\n", options_text(o, OPT_draft));
}

void preset_explain(const struct options *o, const struct model_info *info, enum option_id id, struct buf *out)
{
    struct sampling s;
    const struct model_info *known = info ? info : &not_known;
    preset_sampling(o, known, &s);
    const struct { enum option_id id; double value; } values[] = {
#define SAMPLING_NUMBER(name, ...) {OPT_##name, s.name},
#include "config/sampling_numbers.def"
        {OPT_top_k, s.top_k},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i].id != id || options_given(o, id))
            continue;
        if (!info && !strcmp(options_text(o, OPT_preset), "auto"))
            buf_addf(out, "%s: the model's default, which is known when it is loaded   (%s)\n", options_key(id), options_help_of(id));
        else
            buf_addf(out, "%s: %g   (%s; %s)\n", options_key(id), values[i].value, choose_preset(o, known).name, options_help_of(id));
        return;
    }
    options_explain(o, id, out);
    if (id == OPT_draft || id == OPT_lookup)
        describe_drafts(o, info, id, out);
}
