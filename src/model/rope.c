#include "model/rope.h"

#include <math.h>

/* NTK-by-parts ramp of YaRN (arXiv 2309.00071): frequencies that turn more than beta_fast times within the original
 * context stay, those that turn less than beta_slow times are divided by the factor. */
void rope_frequencies(float *freq, const struct model_config *c)
{
    double dim = c->rotary_dim, base = c->rope_theta;
    double low = 0, high = 0;
    if (c->yarn_factor != 1) {
        low = floor(dim * log(c->yarn_original / (c->yarn_beta_fast * 2 * M_PI)) / (2 * log(base)));
        high = ceil(dim * log(c->yarn_original / (c->yarn_beta_slow * 2 * M_PI)) / (2 * log(base)));
        low = fmax(low, 0);
        high = fmin(high, dim - 1);
        if (low == high)
            high += 0.001;
    }
    for (int i = 0; i < c->rotary_dim / 2; i++) {
        double f = pow(base, -2.0 * i / dim);
        if (c->yarn_factor != 1) {
            double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
            f = f / c->yarn_factor * ramp + f * (1 - ramp);
        }
        freq[i] = (float)f;
    }
}

/* Qwen's model cards: original_max_position_embeddings 262144 with factor 2.0 for 524,288 tokens, 4.0 for 1,010,000. */
bool rope_stretch(struct model_config *c, int n_ctx, struct err *e)
{
    enum { MOST = 4 };
    const int own = c->max_pos;
    if (n_ctx <= own)
        return true;
    if (c->yarn_factor != 1)
        return err_set(e, "--ctx is %d, expected 1 to %d: config.json stretches the model's %d positions by YaRN, which goes no further",
                       n_ctx, own, c->yarn_original);
    if (n_ctx > MOST * own)
        return err_set(e, "--ctx is %d, expected 1 to %d: the model's %d positions can be stretched %d times by YaRN, no further", n_ctx, MOST * own,
                       own, MOST);
    c->yarn_factor = n_ctx <= 2 * own ? 2 : MOST;
    c->yarn_original = own;
    c->yarn_attention_factor = config_yarn_attention((double)c->yarn_factor);
    c->max_pos = (int)c->yarn_factor * own;
    return true;
}
