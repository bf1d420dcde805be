"""Qwen3.5-MoE in plain PyTorch: functions over a dictionary of weights whose keys are the checkpoint's tensor names.

Two forms of the same network: `forward` (whole rows, chunked delta rule; training and scoring) and `Decoder` (one token a step with
states; generation).  Rows may hold several documents: `doc` numbers them and nothing leaks across a border.
"""
import json
import math
import os

import torch
import torch.nn.functional as F

LM = "model.language_model."
CHUNK = 64


class Config:
    """The fields of config.json's text_config that the arithmetic needs."""

    def __init__(self, text):
        self.hidden = text["hidden_size"]
        self.layers = text["num_hidden_layers"]
        self.vocab = text["vocab_size"]
        self.q_heads = text["num_attention_heads"]
        self.kv_heads = text["num_key_value_heads"]
        self.head_dim = text["head_dim"]
        self.rotary = int(self.head_dim * text["rope_parameters"]["partial_rotary_factor"])
        self.theta = text["rope_parameters"]["rope_theta"]
        self.k_heads = text["linear_num_key_heads"]
        self.v_heads = text["linear_num_value_heads"]
        self.dk = text["linear_key_head_dim"]
        self.dv = text["linear_value_head_dim"]
        self.conv = text["linear_conv_kernel_dim"]
        self.experts = text["num_experts"]
        self.top_k = text["num_experts_per_tok"]
        self.inter = text["moe_intermediate_size"]
        self.shared = text["shared_expert_intermediate_size"]
        self.full = [t == "full_attention" for t in text["layer_types"]]
        self.eps = text["rms_norm_eps"]
        self.key_dim = self.k_heads * self.dk
        self.value_dim = self.v_heads * self.dv
        self.conv_dim = 2 * self.key_dim + self.value_dim


def text_config(hidden=256, layers=8, q_heads=4, kv_heads=1, k_heads=2, v_heads=4, experts=16, top_k=4, inter=128, shared=128, vocab=4096):
    """text_config as published checkpoints write it; the defaults are the demo model."""
    return {
        "attention_bias": False, "attention_dropout": 0.0, "head_dim": 256, "hidden_act": "silu", "hidden_size": hidden,
        "initializer_range": 0.02,
        "layer_types": ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(layers)],
        "full_attention_interval": 4, "attn_output_gate": True,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": k_heads, "linear_num_value_heads": v_heads,
        "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144, "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": inter, "num_attention_heads": q_heads, "num_experts": experts, "num_experts_per_tok": top_k,
        "num_hidden_layers": layers, "num_key_value_heads": kv_heads, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25,
                            "rope_theta": 10000000.0, "rope_type": "default"},
        "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": shared, "tie_word_embeddings": False, "use_cache": True,
        "vocab_size": vocab, "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
    }


# ---- weights ----

def shapes(c):
    """Every tensor of the checkpoint with its shape; experts fused, as in the BF16 release."""
    out = {LM + "embed_tokens.weight": (c.vocab, c.hidden), LM + "norm.weight": (c.hidden,), "lm_head.weight": (c.vocab, c.hidden)}

    def block(p, full):
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = (c.hidden,)
        if full:
            a = p + "self_attn."
            out[a + "q_proj.weight"] = (2 * c.q_heads * c.head_dim, c.hidden)
            out[a + "k_proj.weight"] = out[a + "v_proj.weight"] = (c.kv_heads * c.head_dim, c.hidden)
            out[a + "o_proj.weight"] = (c.hidden, c.q_heads * c.head_dim)
            out[a + "q_norm.weight"] = out[a + "k_norm.weight"] = (c.head_dim,)
        else:
            a = p + "linear_attn."
            out[a + "in_proj_qkv.weight"] = (c.conv_dim, c.hidden)
            out[a + "in_proj_z.weight"] = (c.value_dim, c.hidden)
            out[a + "in_proj_a.weight"] = out[a + "in_proj_b.weight"] = (c.v_heads, c.hidden)
            out[a + "out_proj.weight"] = (c.hidden, c.value_dim)
            out[a + "conv1d.weight"] = (c.conv_dim, 1, c.conv)
            out[a + "A_log"] = out[a + "dt_bias"] = (c.v_heads,)
            out[a + "norm.weight"] = (c.dv,)
        m = p + "mlp."
        out[m + "gate.weight"] = (c.experts, c.hidden)
        out[m + "experts.gate_up_proj"] = (c.experts, 2 * c.inter, c.hidden)
        out[m + "experts.down_proj"] = (c.experts, c.hidden, c.inter)
        out[m + "shared_expert.gate_proj.weight"] = out[m + "shared_expert.up_proj.weight"] = (c.shared, c.hidden)
        out[m + "shared_expert.down_proj.weight"] = (c.hidden, c.shared)
        out[m + "shared_expert_gate.weight"] = (1, c.hidden)

    for i in range(c.layers):
        block(f"{LM}layers.{i}.", c.full[i])
    out["mtp.fc.weight"] = (c.hidden, 2 * c.hidden)
    for n in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        out[f"mtp.{n}.weight"] = (c.hidden,)
    block("mtp.layers.0.", True)
    return out


def init(c, seed, device="cpu"):
    """Fresh fp32 weights.  Outputs into the residual stream start small; decay rates spread from 5 to 1000 tokens of memory."""
    g = torch.Generator().manual_seed(seed)
    w = {}
    for name, shape in shapes(c).items():
        if name.endswith("linear_attn.norm.weight"):
            t = torch.ones(shape)
        elif name.endswith("norm.weight") or name.endswith("layernorm.weight") or ".pre_fc_norm_" in name:
            t = torch.zeros(shape)
        elif name.endswith("A_log"):
            t = torch.empty(shape).uniform_(1, 8, generator=g).log()
        elif name.endswith("dt_bias"):
            dt = torch.exp(torch.rand(shape, generator=g) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
            t = dt + torch.log(-torch.expm1(-dt))
        elif name.endswith("conv1d.weight"):
            t = torch.empty(shape).uniform_(-0.5, 0.5, generator=g)
        else:
            std = 0.1 if "embed_tokens" in name else 0.02 if name == "lm_head.weight" else 0.7 / math.sqrt(shape[-1])
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "experts.down_proj")):
                std /= math.sqrt(2 * c.layers)
            t = torch.randn(shape, generator=g) * std
        w[name] = t.to(device)
    return w


def is_int4(name):
    """Matrices that AutoRound packs: every linear of the main layers but router, shared expert, its gate, and the narrow in_proj_a/b."""
    if not name.startswith(LM + "layers.") or ".shared_expert" in name or ".mlp.gate." in name:
        return False
    return "proj" in name and not name.endswith(("in_proj_a.weight", "in_proj_b.weight"))


def is_fp8(name):
    return name.startswith(LM + "layers.") and ".shared_expert." in name


def int4_codes(w):
    """AutoRound's symmetric rounding: groups of 128 inputs, signed scale that maps the largest magnitude to -8.  -> codes 0..15, scales."""
    g = w.float().unflatten(-1, (-1, 128))
    lo, hi = (-g.amin(-1)).clamp(min=0), g.amax(-1).clamp(min=0)
    scale = (torch.where(hi < lo, lo, -hi) / 8).to(torch.float16).float()
    scale = torch.where(scale < 0, scale.clamp(max=-1e-5), scale.clamp(min=1e-5)).to(torch.float16)
    q = (torch.round(g / scale.float()[..., None]) + 8).clamp(0, 15)
    return q, scale


def int4_round(w):
    q, scale = int4_codes(w)
    return ((q - 8) * scale.float()[..., None]).flatten(-2)


def fp8_codes(w):
    """E4M3 in blocks of 128 x 128 with a bfloat16 multiplier each."""
    o, i = w.shape
    b = w.float().view(o // 128, 128, i // 128, 128)
    scale = (b.abs().amax((1, 3)).clamp(min=1e-8) / 448).to(torch.bfloat16)
    q = (b / scale.float()[:, None, :, None]).clamp(-448, 448).reshape(o, i).to(torch.float8_e4m3fn)
    return q, scale


def fp8_round(w):
    q, scale = fp8_codes(w)
    return q.float() * scale.float().repeat_interleave(128, 0).repeat_interleave(128, 1)


def int8_rows(w):
    """The INT8 head as engines make it at load: one scale a row."""
    scale = (w.float().abs().amax(-1, keepdim=True) / 127).to(torch.float16).float().clamp(min=1e-8)
    return torch.round(w.float() / scale).clamp(-127, 127) * scale


def rounded(name, w, layout):
    """A weight as the layout stores it: 'none', 'bf16', 'int4' or 'hybrid'."""
    if layout != "bf16" and layout != "none":
        if is_int4(name):
            return int4_round(w)
        if layout == "hybrid" and is_fp8(name):
            return fp8_round(w)
    if layout == "none" or name.endswith(("A_log", "linear_attn.norm.weight")):
        return w
    return w.to(torch.bfloat16).float()


def effective(weights, layout="none", dtype=torch.float32):
    """What the forward pass multiplies with: rounded as stored (straight-through gradient), matrices in `dtype`."""
    out = {}
    for name, w in weights.items():
        if layout != "none":
            with torch.no_grad():
                r = rounded(name, w, layout)
            w = w + (r - w).detach() if w.requires_grad else r
        keep = w.ndim < 2 or name.endswith("conv1d.weight")
        out[name] = w if keep else w.to(dtype)
    return out


def block_weights(w, prefix):
    return {k[len(prefix):]: v for k, v in w.items() if k.startswith(prefix)}


# ---- pieces ----

def norm(x, w, eps):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * (1 + w)).to(x.dtype)


def gated_norm(o, z, w, eps):
    o = o.float()
    return o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + eps) * w * F.silu(z.float())


def rope(x, cos, sin):
    """x [.., heads, dim]; the first 2*half dims turn, pairs (i, i+half)."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([(a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype), rest], -1)


def angles(c, pos):
    half = c.rotary // 2
    f = c.theta ** (-torch.arange(half, device=pos.device, dtype=torch.float64) / half)
    a = pos.double()[..., None] * f
    return a.cos().float()[..., None, :], a.sin().float()[..., None, :]


def moe(x, p, c):
    """x [n, hidden] -> (y, load-balancing loss).  Every expert runs on every token, as two plain matrix products; unused ones weigh 0."""
    probs = F.linear(x, p["mlp.gate.weight"]).float().softmax(-1)
    top, at = probs.topk(c.top_k, -1)
    top = top / top.sum(-1, keepdim=True)
    route = torch.zeros_like(probs).scatter(-1, at, top)
    gu = F.linear(x, p["mlp.experts.gate_up_proj"].flatten(0, 1)).unflatten(-1, (c.experts, 2, c.inter))
    act = F.silu(gu[:, :, 0]) * gu[:, :, 1] * route[..., None].to(x.dtype)
    y = act.flatten(1) @ p["mlp.experts.down_proj"].transpose(1, 2).flatten(0, 1)
    s = F.silu(F.linear(x, p["mlp.shared_expert.gate_proj.weight"])) * F.linear(x, p["mlp.shared_expert.up_proj.weight"])
    s = F.linear(s, p["mlp.shared_expert.down_proj.weight"])
    y = y + torch.sigmoid(F.linear(x, p["mlp.shared_expert_gate.weight"])) * s
    share = (route > 0).float().mean(0) / c.top_k
    return y, c.experts * (share * probs.mean(0)).sum()


def qkv_gate(h, p, c, cos, sin):
    b, t, _ = h.shape
    u = F.linear(h, p["self_attn.q_proj.weight"]).view(b, t, c.q_heads, 2, c.head_dim)
    q, gate = u[..., 0, :], u[..., 1, :]
    k = F.linear(h, p["self_attn.k_proj.weight"]).view(b, t, c.kv_heads, c.head_dim)
    v = F.linear(h, p["self_attn.v_proj.weight"]).view(b, t, c.kv_heads, c.head_dim)
    q = rope(norm(q, p["self_attn.q_norm.weight"], c.eps), cos, sin)
    k = rope(norm(k, p["self_attn.k_norm.weight"], c.eps), cos, sin)
    return q, k, v, gate


def attention(h, p, c, cos, sin, mask, past):
    """past: keys and values of earlier MTP depths, in front of this call's own.  mask [b, 1, t, keys] bool, None = causal."""
    q, k, v, gate = qkv_gate(h, p, c, cos, sin)
    ks = torch.cat([a for a, _ in past] + [k], 1)
    vs = torch.cat([a for _, a in past] + [v], 1)
    r = c.q_heads // c.kv_heads
    ks, vs = (a.transpose(1, 2).repeat_interleave(r, 1) for a in (ks, vs))
    o = F.scaled_dot_product_attention(q.transpose(1, 2), ks, vs, attn_mask=mask, is_causal=mask is None).transpose(1, 2)
    y = F.linear((o * torch.sigmoid(gate)).flatten(2), p["self_attn.o_proj.weight"])
    return y, (k, v)


def unit_lower_inverse(a):
    """(I + a)^-1 of strictly lower triangular 64 x 64 blocks.  16 x 16 diagonal blocks by a finite power series, then joined pairwise."""
    n = a.shape[-1]
    size = 16
    eye = torch.eye(size, device=a.device, dtype=a.dtype)
    m = -torch.stack([a[..., i:i + size, i:i + size] for i in range(0, n, size)], -3)
    inv = eye + m
    for _ in range(3):
        m = m @ m
        inv = inv + inv @ m
    blocks = list(inv.unbind(-3))
    while len(blocks) > 1:
        joined = []
        for j in range(0, len(blocks), 2):
            top, bottom = blocks[j], blocks[j + 1]
            r = (j + 1) * size
            corner = -bottom @ a[..., r:r + size, r - size:r] @ top
            joined.append(torch.cat([torch.cat([top, torch.zeros_like(top)], -1), torch.cat([corner, bottom], -1)], -2))
        blocks, size = joined, size * 2
    return blocks[0]


def delta_prepare(q, k, v, beta, g):
    """The parts of the chunked gated delta rule that no chunk waits for, fp32.  q k v [b, t, h, d] (normalised, q scaled), beta g [b, t, h];
    t a multiple of CHUNK.  -> six tensors, chunks first: [chunks, b * h, ...]"""
    b, t, h, _ = q.shape

    def chunks(x):
        return x.view(b, t // CHUNK, CHUNK, h, -1).permute(1, 0, 3, 2, 4).reshape(t // CHUNK, b * h, CHUNK, -1)
    q, k, v, beta, g = (chunks(x) for x in (q, k, v, beta, g))
    cum = g.cumsum(-2)
    lower = torch.ones(CHUNK, CHUNK, device=q.device, dtype=torch.bool).tril()
    decay = (cum - cum.transpose(-1, -2)).masked_fill(~lower, -1e4).exp()
    kt = k.transpose(-1, -2)
    solve = unit_lower_inverse(((k * beta) @ kt * decay).tril(-1))
    u = solve @ (v * beta)
    wk = solve @ (k * beta * cum.exp())
    last = cum[..., -1:, :]
    kg = (k * (last - cum).exp()).transpose(-1, -2).contiguous()
    return u, wk, q @ kt * decay, q * cum.exp(), kg, last.exp()


def delta_scan(u, wk, inner, qg, kg, keep):
    """The part that goes chunk by chunk.  -> [chunks, b * h, CHUNK, dv]"""
    s = u.new_zeros(u.shape[1], wk.shape[-1], u.shape[-1])
    out = []
    for i in range(u.shape[0]):
        new = torch.baddbmm(u[i], wk[i], s, alpha=-1)
        out.append(torch.baddbmm(qg[i] @ s, inner[i], new))
        s = torch.baddbmm(s * keep[i], kg[i], new)
    return torch.stack(out)


def l2(x):
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def deltanet_inputs(cv, h, p, c):
    """Everything after the convolution: q k v per value head in fp32, beta, g."""
    q, k, v = cv.split([c.key_dim, c.key_dim, c.value_dim], -1)
    r = c.v_heads // c.k_heads
    q = l2(q.unflatten(-1, (c.k_heads, c.dk))).repeat_interleave(r, -2) * c.dk ** -0.5
    k = l2(k.unflatten(-1, (c.k_heads, c.dk))).repeat_interleave(r, -2)
    v = v.unflatten(-1, (c.v_heads, c.dv))
    beta = torch.sigmoid(F.linear(h, p["linear_attn.in_proj_b.weight"]).float())
    a = F.linear(h, p["linear_attn.in_proj_a.weight"]).float()
    g = -p["linear_attn.A_log"].exp() * F.softplus(a + p["linear_attn.dt_bias"])
    return q, k, v, beta, g


def delta_before(x, p, c, same):
    """Norm, projections, convolution and the chunk-local part.  same [b, t, conv]: same[.., d] says whether the token d places earlier belongs
    to the same document; None = one document."""
    h = norm(x, p["input_layernorm.weight"], c.eps)
    t = h.shape[1]
    m = F.linear(h, p["linear_attn.in_proj_qkv.weight"]).float()
    z = F.linear(h, p["linear_attn.in_proj_z.weight"]).unflatten(-1, (c.v_heads, c.dv))
    taps = p["linear_attn.conv1d.weight"][:, 0]
    cv = 0
    for d in range(c.conv):
        shifted = F.pad(m, (0, 0, d, 0))[:, :t]
        if same is not None and d:
            shifted = shifted * same[..., d:d + 1]
        cv = cv + shifted * taps[:, c.conv - 1 - d]
    q, k, v, beta, g = deltanet_inputs(F.silu(cv), h, p, c)
    if same is not None:
        g = g - 30 * (1 - same[..., 1:2])         # a new document forgets: e^-30
    pad = -t % CHUNK
    q, k, v = (F.pad(a, (0, 0, 0, 0, 0, pad)) for a in (q, k, v))
    beta, g = (F.pad(a, (0, 0, 0, pad)) for a in (beta, g))
    return z, *delta_prepare(q, k, v, beta, g)


def delta_after(x, o, z, p, c):
    b, t, _ = x.shape
    o = o.view(-1, b, c.v_heads, CHUNK, c.dv).permute(1, 0, 3, 2, 4).reshape(b, -1, c.v_heads, c.dv)[:, :t]
    y = gated_norm(o, z, p["linear_attn.norm.weight"], c.eps).to(x.dtype)
    return moe_residual(x + F.linear(y.flatten(2), p["linear_attn.out_proj.weight"]), p, c)


def moe_residual(x, p, c):
    y, aux = moe(norm(x, p["post_attention_layernorm.weight"], c.eps).flatten(0, 1), p, c)
    return x + y.view_as(x), aux


def attn_layer(x, p, c, cos, sin, mask, past):
    y, kv = attention(norm(x, p["input_layernorm.weight"], c.eps), p, c, cos, sin, mask, past)
    x, aux = moe_residual(x + y, p, c)
    return x, aux, kv


# ---- whole rows ----

class Net:
    """The layer functions, compiled or not, and the passes over whole rows.  The scan is never compiled: unrolled it takes minutes."""

    def __init__(self, c, compiled=False):
        self.c = c
        self.before, self.after, self.attn_layer = delta_before, delta_after, attn_layer
        if compiled:
            torch._dynamo.config.cache_size_limit = 64
            self.before = torch.compile(delta_before, dynamic=False)
            self.after = torch.compile(delta_after, dynamic=False)
            self.attn_layer = torch.compile(attn_layer, dynamic=False)

    def forward(self, w, ids, doc=None):
        """-> hidden after the final norm [b, t, hidden], mean load-balancing loss."""
        c, (b, t) = self.c, ids.shape
        same = mask = None
        if doc is not None:
            same = torch.stack([F.pad(doc, (d, 0), value=-1)[:, :t] == doc for d in range(c.conv)], -1).float()
            mask = causal_mask(doc)
        cos, sin = angles(c, torch.arange(t, device=ids.device))
        x = F.embedding(ids, w[LM + "embed_tokens.weight"])
        aux = 0
        for i in range(c.layers):
            p = block_weights(w, f"{LM}layers.{i}.")
            if c.full[i]:
                x, a, _ = self.attn_layer(x, p, c, cos, sin, mask, [])
            else:
                z, *parts = self.before(x, p, c, same)
                x, a = self.after(x, delta_scan(*parts), z, p, c)
            aux = aux + a
        return norm(x, w[LM + "norm.weight"], c.eps), aux / c.layers

    def drafts(self, w, ids, hidden, depth, doc=None):
        """Hidden states of draft 1..depth for every row at once, each as the engine would compute it: row i of depth d has seen the true tokens
        up to i+d, attends to depth-1 rows 0..i and to its own chain, and predicts token i+d+1."""
        c, (b, t) = self.c, ids.shape
        p = block_weights(w, "mtp.layers.0.")
        base = causal_mask(doc if doc is not None else torch.zeros_like(ids))
        diag = torch.eye(t, device=ids.device, dtype=torch.bool).expand(b, 1, t, t)
        past, out = [], []
        for d in range(depth):
            tok = F.pad(ids, (0, d + 1))[:, d + 1:]
            e = norm(F.embedding(tok, w[LM + "embed_tokens.weight"]), w["mtp.pre_fc_norm_embedding.weight"], c.eps)
            h = norm(hidden, w["mtp.pre_fc_norm_hidden.weight"], c.eps)
            x = F.linear(torch.cat([e, h], -1), w["mtp.fc.weight"])
            cos, sin = angles(c, torch.arange(t, device=ids.device) + d)
            x, _, kv = self.attn_layer(x, p, c, cos, sin, torch.cat([base] + [diag] * d, -1), past)
            past = past + [kv]
            hidden = norm(x, w["mtp.norm.weight"], c.eps)
            out.append(hidden)
        return out


def causal_mask(doc):
    t = doc.shape[1]
    lower = torch.ones(t, t, device=doc.device, dtype=torch.bool).tril()
    return ((doc[:, :, None] == doc[:, None, :]) & lower)[:, None]


def head(w, h):
    return F.linear(h, w["lm_head.weight"])


# ---- one token a step ----

class Decoder:
    """Batched generation: every row has its own states and all rows advance by one token a step."""

    def __init__(self, c, w, rows, room):
        self.c, self.w, self.pos = c, w, 0
        e = w[LM + "embed_tokens.weight"]
        self.blocks = [block_weights(w, f"{LM}layers.{i}.") for i in range(c.layers)]
        self.state, self.conv, self.k, self.v = {}, {}, {}, {}
        for i in range(c.layers):
            if c.full[i]:
                self.k[i] = torch.zeros(rows, room, c.kv_heads, c.head_dim, device=e.device, dtype=e.dtype)
                self.v[i] = torch.zeros_like(self.k[i])
            else:
                self.state[i] = torch.zeros(rows, c.v_heads, c.dk, c.dv, device=e.device)
                self.conv[i] = torch.zeros(rows, c.conv - 1, c.conv_dim, device=e.device)

    def mix_delta(self, i, h, p):
        c = self.c
        m = F.linear(h, p["linear_attn.in_proj_qkv.weight"]).float()
        window = torch.cat([self.conv[i], m], 1)
        self.conv[i] = window[:, 1:]
        cv = F.silu((window * p["linear_attn.conv1d.weight"][:, 0].T).sum(1))
        q, k, v, beta, g = deltanet_inputs(cv, h[:, 0], p, c)
        s = self.state[i] * g.exp()[..., None, None]
        delta = beta[..., None] * (v - torch.einsum("bhk,bhkv->bhv", k, s))
        s = s + k[..., None] * delta[..., None, :]
        self.state[i] = s
        o = torch.einsum("bhk,bhkv->bhv", q, s)
        z = F.linear(h[:, 0], p["linear_attn.in_proj_z.weight"]).unflatten(-1, (c.v_heads, c.dv))
        y = gated_norm(o, z, p["linear_attn.norm.weight"], c.eps).to(h.dtype)
        return F.linear(y.flatten(1), p["linear_attn.out_proj.weight"])[:, None]

    def mix_attention(self, i, h, p, cos, sin):
        c, n = self.c, self.pos + 1
        q, k, v, gate = qkv_gate(h, p, c, cos, sin)
        self.k[i][:, n - 1], self.v[i][:, n - 1] = k[:, 0], v[:, 0]
        r = c.q_heads // c.kv_heads
        ks, vs = (x[i][:, :n].transpose(1, 2).repeat_interleave(r, 1) for x in (self.k, self.v))
        o = F.scaled_dot_product_attention(q.transpose(1, 2), ks, vs).transpose(1, 2)
        return F.linear((o * torch.sigmoid(gate)).flatten(2), p["self_attn.o_proj.weight"])

    @torch.no_grad()
    def step(self, ids):
        """ids [rows] -> logits [rows, vocab]"""
        c, w = self.c, self.w
        cos, sin = angles(c, torch.full((1,), self.pos, device=ids.device))
        x = F.embedding(ids[:, None], w[LM + "embed_tokens.weight"])
        for i, p in enumerate(self.blocks):
            h = norm(x, p["input_layernorm.weight"], c.eps)
            x = x + (self.mix_attention(i, h, p, cos, sin) if c.full[i] else self.mix_delta(i, h, p))
            x, _ = moe_residual(x, p, c)
        self.pos += 1
        return head(w, norm(x[:, 0], w[LM + "norm.weight"], c.eps)).float()


# ---- files ----

def unpack_int4(t, name):
    q, scale = t[name + ".qweight"], t[name + ".scales"].float()
    zero = t[name + ".qzeros"]
    shift = 4 * torch.arange(8)
    codes = ((q[:, None, :] >> shift[:, None]) & 15).flatten(0, 1).float()             # [in, out]
    zeros = ((zero[:, :, None] >> shift) & 15).flatten(1).float() + 1                  # [in/128, out]
    return ((codes - zeros.repeat_interleave(128, 0)) * scale.repeat_interleave(128, 0)).T.contiguous()


def load(path, c):
    """A checkpoint directory of any layout -> fp32 weights under the fused names."""
    from safetensors.torch import load_file
    index = json.load(open(os.path.join(path, "model.safetensors.index.json")))["weight_map"]
    files = {f: load_file(os.path.join(path, f)) for f in sorted(set(index.values()))}
    t = {k: files[f][k] for k, f in index.items()}
    extra = os.path.join(path, "model_extra_tensors.safetensors")
    if os.path.exists(extra):
        for k, v in load_file(extra).items():
            t.setdefault(k, v)

    def matrix(name):
        if name + ".qweight" in t:
            return unpack_int4(t, name)
        w = t[name + ".weight"].float()
        if name + ".weight_scale_inv" in t:
            s = t[name + ".weight_scale_inv"].float()
            w = w * s.repeat_interleave(128, 0).repeat_interleave(128, 1)[:w.shape[0], :w.shape[1]]
        return w

    out = {}
    for name in shapes(c):
        if name in t:
            out[name] = matrix(name[:-7]) if name.endswith(".weight") and t[name].ndim == 2 else t[name].float()
        elif name.endswith("experts.gate_up_proj"):
            e = name[:-len("gate_up_proj")]
            out[name] = torch.stack([torch.cat([matrix(f"{e}{i}.gate_proj"), matrix(f"{e}{i}.up_proj")]) for i in range(c.experts)])
        elif name.endswith("experts.down_proj"):
            e = name[:-len("down_proj")]
            out[name] = torch.stack([matrix(f"{e}{i}.down_proj") for i in range(c.experts)])
        else:
            out[name] = matrix(name[:-7])
    return out


def load_config(path):
    return Config(json.load(open(os.path.join(path, "config.json")))["text_config"])


def check_golden(path):
    """Compares with reference logits (expected.safetensors); `python3 model.py DIR...` proves the arithmetic."""
    from safetensors.torch import load_file
    c = load_config(path)
    w = load(path, c)
    want = load_file(os.path.join(path, "expected.safetensors"))
    net = Net(c)
    worst = worst_mtp = worst_step = worst_pack = 0.0
    rows = [k[:-4] for k in want if k.endswith(".ids") and k.startswith("prompt")]
    for r in rows:
        ids = want[r + ".ids"].long()[None]
        h, _ = net.forward(w, ids)
        lg = head(w, h)
        worst = max(worst, (lg[0] - want[r + ".logits"]).abs().max().item())
        drafts = [want[r + ".mtp_first"].long().view(1, 1)] + [d.view(1, 1) for d in want[r + ".mtp_drafts"].long()]
        chain = torch.cat([ids] + drafts, 1)
        n = ids.shape[1]
        padded, _ = net.forward(w, chain)                 # rows beyond n are not used by draft row n-1
        for d, hd in enumerate(net.drafts(w, chain, padded, 3)):
            worst_mtp = max(worst_mtp, (head(w, hd[0, n - 1]) - want[r + ".mtp_logits"][d]).abs().max().item())
        dec = Decoder(c, w, 1, n)
        steps = torch.cat([dec.step(ids[:, i]) for i in range(n)])
        worst_step = max(worst_step, (steps - want[r + ".logits"]).abs().max().item())
    a, b = (want[r + ".ids"].long() for r in sorted(rows, key=lambda r: -len(want[r + ".ids"]))[:2])
    packed, doc = torch.cat([b, a])[None], torch.cat([torch.zeros_like(b), torch.ones_like(a)])[None]
    h, _ = net.forward(w, packed, doc)
    h2, _ = net.forward(w, a[None])
    worst_pack = (head(w, h)[0, len(b):] - head(w, h2)[0]).abs().max().item()
    d1 = net.drafts(w, packed, h, 3, doc)
    d2 = net.drafts(w, a[None], h2, 3)
    for x, y in zip(d1, d2):
        worst_pack = max(worst_pack, (x[0, len(b):-3] - y[0, :-3]).abs().max().item())
    print(f"{path}: max |dlogit| rows {worst:.1e}, drafts {worst_mtp:.1e}, one token a step {worst_step:.1e}, packed documents {worst_pack:.1e}")
    return max(worst, worst_mtp, worst_step, worst_pack)


if __name__ == "__main__":
    import sys
    torch.manual_seed(0)
    with torch.no_grad():
        sys.exit(max([check_golden(d) for d in sys.argv[1:]]) > 1e-3)
