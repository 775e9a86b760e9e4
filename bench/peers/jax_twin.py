"""The decoder of `rescue-grpo` in JAX on the CPU: the same shapes, maths and optimizer, as fast as we could make it.

Started by `cargo xtask bench` with a folder that holds `job.json` and `weights.f32` (flat, in the order of
`ModelConfig::layout`). It compiles, computes once, leaves what it found in the folder for comparison, and
prints one line of JSON. Then each line `go N` on standard input does the work N times and is answered by
`{"wall_s": .., "cpu_s": ..}`. The end of the input ends it.

What was tried for the update (d 192, 4 layers, 8 x 384 tokens, one core of a shared Xeon with AVX-512, tokens
per CPU-second, jax 0.10.2; spread about 3 %):
  one batch of 8, whole attention                                    4,150
  the same, query groups folded into rows                            4,200
  `jax.nn.dot_product_attention(is_causal=True)`                     3,100
  queries in blocks of 64 that skip keys ahead                       4,360
  the same, layers under `lax.scan` instead of unrolled              3,690
  the same as the last but one, `--xla_cpu_enable_fast_math=true`    4,730
  with fast math, `--xla_cpu_prefer_vector_width=512`                4,410
  with fast math, oneDNN / XNNPACK / YNNPACK products                4,610 / 4,440 / 4,270
  with fast math, 4 / 2 / 1 rows at a time                           4,920 / 5,100 / 4,610
  with fast math, 8 rows as a scan over pairs that sums gradients, then one step of the optimizer: 6,100
So: fast math, unrolled layers, blocks of 64 queries, micro-batches of 768 tokens in a scan.
Its products run at the peak of the core (160 to 180 GFLOP/s); what limits it is memory traffic between the
element-wise loops that XLA does not join with products. All buffers of weights and moments are donated.

What was tried for decoding (same sizes, 64 prompts of 128 tokens, 128 new ones; drawn tokens per CPU-second):
  attention of one query as a batched product, cache of full length          7,100
  the same, cache grown every 32 / 8 steps                                   7,700 / 8,250
  the same, Gumbel noise instead of a cumulated sum (32 steps)               7,450
  the same, keys kept transposed (32 steps)                                  8,400
  attention as fused multiply and sum (32 steps)                             8,500, but 10 times slower at width 64
  without fast math / with XNNPACK / with YNNPACK (32 steps)                 7,000 / 6,800 / 5,300
Of that time prefill is 27 %, attention over the cache 42 %, everything else 31 %.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

BLOCK = 64  # queries of one attention block
TOKENS = 768  # of one micro-batch, padding included
LEN_STEP = 16  # rows are padded to a multiple of it
GROW = 8  # decode steps between two sizes of the cache
MASKED = -1e9
MAX_LOG_RATIO = 20.0
NAMES = ("norm_attn", "wq", "wk", "wv", "wo", "norm_ffn", "w_gate", "w_up", "w_down")


class Sizes:
    def __init__(self, model):
        self.__dict__.update(model)
        self.hd = self.d_model // self.n_heads
        self.group = self.n_heads // self.n_kv_heads

    def rope(self, n):
        """Cosines and sines, [n, 1, hd / 2]."""
        half = self.hd // 2
        angle = np.arange(n)[:, None] * self.rope_base ** (-np.arange(half) / half)
        return [jnp.asarray(f(angle), jnp.float32)[:, None, :] for f in (np.cos, np.sin)]

    def unflatten(self, flat):
        d, kv, ff = self.d_model, self.n_kv_heads * self.hd, self.d_ff
        block = [(d,), (d, d), (d, kv), (d, kv), (d, d), (d,), (d, ff), (d, ff), (ff, d)]
        shapes = [(self.vocab, d)] + block * self.n_layers + [(d,)]
        sizes = [int(np.prod(s)) for s in shapes]
        assert sum(sizes) == flat.size, "weights do not fit the sizes"
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        parts = [jnp.array(p.reshape(s)) for p, s in zip(parts, shapes)]
        blocks = [dict(zip(NAMES, parts[1 + 9 * i : 10 + 9 * i])) for i in range(self.n_layers)]
        return {"embed": parts[0], "blocks": blocks, "norm": parts[-1]}


def flatten(tree):
    parts = [tree["embed"]] + [b[n] for b in tree["blocks"] for n in NAMES] + [tree["norm"]]
    return np.concatenate([np.asarray(p, np.float32).ravel() for p in parts])


def rms(x, gain, eps):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * gain


def turn(x, cos, sin):
    """Half-split rotary positions of [.., T, heads, hd]."""
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, mask):
    """[B, KV, R, hd] queries on [B, KV, S, hd]; `mask` broadcasts to [B, KV, R, S]."""
    scores = jnp.einsum("bkrd,bksd->bkrs", q, k)
    scores = jnp.where(mask, scores, MASKED)
    weight = jnp.exp(scores - lax.stop_gradient(scores.max(-1, keepdims=True)))
    return jnp.einsum("bkrs,bksd->bkrd", weight, v) / weight.sum(-1, keepdims=True)


def projected(c, block, x, cos, sin):
    """Queries (scaled), keys and values, [B, T, heads, hd] each."""
    h = rms(x, block["norm_attn"], c.norm_eps)
    split = lambda y, heads: y.reshape(*y.shape[:-1], heads, c.hd)
    q = turn(split(h @ block["wq"], c.n_heads), cos, sin) * c.hd**-0.5
    k = turn(split(h @ block["wk"], c.n_kv_heads), cos, sin)
    return q, k, split(h @ block["wv"], c.n_kv_heads)


def causal(c, q, k, v):
    """Causal attention over whole rows, [B, T, d]."""
    B, T = q.shape[:2]
    q = q.reshape(B, T, c.n_kv_heads, c.group, c.hd).transpose(0, 2, 3, 1, 4)
    k, v = k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
    out = []
    for start in range(0, T, BLOCK):
        n = min(BLOCK, T - start)
        end = start + n
        queries = q[:, :, :, start:end].reshape(B, c.n_kv_heads, c.group * n, c.hd)
        seen = np.tile(np.arange(end)[None] <= np.arange(start, end)[:, None], (c.group, 1))
        mixed = attend(queries, k[:, :, :end], v[:, :, :end], seen)
        out.append(mixed.reshape(B, c.n_kv_heads, c.group, n, c.hd))
    return jnp.concatenate(out, 3).transpose(0, 3, 1, 2, 4).reshape(B, T, c.d_model)


def feed_forward(c, block, x):
    h = rms(x, block["norm_ffn"], c.norm_eps)
    return x + (jax.nn.silu(h @ block["w_gate"]) * (h @ block["w_up"])) @ block["w_down"]


# The update.


def logprobs(c, params, ids, at, targets):
    """Log-probs, [M], of `targets` predicted at the flat positions `at` of `ids`, [B, T]."""
    B, T = ids.shape
    cos, sin = c.rope(T)
    x = params["embed"][ids]
    for i, block in enumerate(params["blocks"]):
        mixed = causal(c, *projected(c, block, x, cos, sin))
        if i + 1 == c.n_layers:
            mixed, x = (y.reshape(B * T, -1)[at] for y in (mixed, x))
        x = feed_forward(c, block, x + mixed @ block["wo"])
    x = rms(x, params["norm"], c.norm_eps)
    logits = x @ params["embed"].T
    chosen = jnp.take_along_axis(logits, targets[:, None], 1)[:, 0]
    return chosen - jax.nn.logsumexp(logits, -1)


def loss(c, job, params, micro):
    """The clipped objective of a micro-batch, and its log-probs."""
    lp = logprobs(c, params, micro["ids"], micro["at"], micro["targets"])
    ratio = jnp.exp(lp - lax.stop_gradient(lp))
    clipped = jnp.clip(ratio, 1 - job["clip_low"], 1 + job["clip_high"])
    drift = jnp.clip(lax.stop_gradient(lp) - micro["sampler"], -MAX_LOG_RATIO, MAX_LOG_RATIO)
    cap = jnp.minimum(jnp.exp(drift), job["importance_cap"])
    weight = jnp.where(micro["corrects"], cap, 1.0)
    advantage = micro["advantage"]
    gain = weight * jnp.minimum(ratio * advantage, clipped * advantage)
    return -gain.sum() / job["normalizer"], lp


def micro_batches(job):
    """Rows by length, cut; those of one shape are stacked, [N, ..], to be scanned over.

    Returns stacks and, for each, the rows' numbers and their counts of masked ids.
    """
    rows = job["rows"]
    order = sorted(range(len(rows)), key=lambda r: -len(rows[r]["ids"]))
    cut, i = [], 0
    while i < len(order):
        length = -(-len(rows[order[i]]["ids"]) // LEN_STEP) * LEN_STEP
        n = max(1, TOKENS // length)
        cut.append((length, order[i : i + n]))
        i += n
    shapes = {}
    for length, members in cut:
        shapes.setdefault((length, len(members)), []).append(members)
    stacks, owners = [], []
    for (length, n_rows), groups in shapes.items():
        count = lambda members: sum(len(rows[r]["masked"]) for r in members)
        M = -(-max(map(count, groups)) // LEN_STEP) * LEN_STEP
        N = len(groups)
        stack = {
            "ids": np.zeros((N, n_rows, length), np.int32),
            "at": np.zeros((N, M), np.int32),
            "targets": np.zeros((N, M), np.int32),
            "sampler": np.zeros((N, M), np.float32),
            "advantage": np.zeros((N, M), np.float32),
            "corrects": np.zeros((N, M), bool),
        }
        for g, members in enumerate(groups):
            m = 0
            for line, r in enumerate(members):
                row = rows[r]
                ids, masked = np.array(row["ids"]), np.array(row["masked"])
                to = slice(m, m + len(masked))
                stack["ids"][g, line, : len(ids)] = ids
                stack["at"][g, to] = line * length + masked - 1
                stack["targets"][g, to] = ids[masked]
                stack["sampler"][g, to] = row["sampler"]
                stack["advantage"][g, to] = row["advantage"]
                stack["corrects"][g, to] = row["corrects_sampler"]
                m += len(masked)
        stacks.append(jax.tree.map(jnp.asarray, stack))
        owners.append([[(r, len(rows[r]["masked"])) for r in members] for members in groups])
    return stacks, owners


class Train:
    def __init__(self, job, c, flat):
        self.job, self.c = job, c
        self.stacks, self.owners = micro_batches(job)
        params = c.unflatten(flat)
        zeros = lambda: jax.tree.map(jnp.zeros_like, params)
        self.state = (params, zeros(), zeros(), jnp.zeros((), jnp.int32))
        self.step = jax.jit(self.update, donate_argnums=0)

    def gradient(self, params, stacks):
        one = jax.grad(partial(loss, self.c, self.job), has_aux=True)
        total, found = None, []
        for stack in stacks:
            if stack["ids"].shape[0] == 1:
                part, lps = one(params, jax.tree.map(lambda x: x[0], stack))
                lps = lps[None]
            else:
                def more(sum_, micro):
                    part, lps = one(params, micro)
                    return jax.tree.map(jnp.add, sum_, part), lps

                part, lps = lax.scan(more, jax.tree.map(jnp.zeros_like, params), stack)
            total = part if total is None else jax.tree.map(jnp.add, total, part)
            found.append(lps)
        return total, found

    def update(self, state, stacks):
        job = self.job
        params, mean, square, steps = state
        gradient, lps = self.gradient(params, stacks)
        norm = jnp.sqrt(sum((g * g).sum() for g in jax.tree.leaves(gradient)))
        scale = jnp.where(norm > job["max_grad_norm"], job["max_grad_norm"] / norm, 1.0)
        b1, b2 = job["beta1"], job["beta2"]
        steps = steps + 1
        fix1, fix2 = 1 - b1 ** steps.astype(jnp.float32), 1 - b2 ** steps.astype(jnp.float32)
        mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * scale * g, mean, gradient)
        square = jax.tree.map(lambda s, g: b2 * s + (1 - b2) * (scale * g) ** 2, square, gradient)
        rate = job["learning_rate"]

        def moved(w, m, s):
            keep = 1 - rate * job["weight_decay"] if w.ndim == 2 else 1.0
            return w * keep - rate / fix1 * m / (jnp.sqrt(s / fix2) + job["epsilon"])

        params = jax.tree.map(moved, params, mean, square)
        return (params, mean, square, steps), (norm, lps)

    def first(self, folder):
        """One update; leaves log-probs by row, the mean gradient and the weights after it."""
        self.state, (norm, lps) = self.step(self.state, self.stacks)
        by_row = [np.zeros(0, np.float32)] * len(self.job["rows"])
        for groups, found in zip(self.owners, lps):
            for members, line in zip(groups, np.asarray(found)):
                at = 0
                for r, n in members:
                    by_row[r], at = line[at : at + n], at + n
        np.concatenate(by_row).astype("<f4").tofile(folder / "logprobs.f32")
        flatten(self.state[1]).tofile(folder / "mean.f32")
        flatten(self.state[0]).tofile(folder / "weights_after.f32")
        padded = sum(int(np.prod(s["ids"].shape)) for s in self.stacks)
        return {"grad_norm": float(norm), "padded_tokens": padded}

    def go(self, n):
        for _ in range(n):
            self.state, (norm, _) = self.step(self.state, self.stacks)
        norm.block_until_ready()


# Batched decoding with a key-value cache.


class Sample:
    """Prefills each distinct prompt once, copies its cache, then draws `n_new` ids for every row.

    The cache is preallocated for `GROW` steps and grown between them, so that attention reads few empty
    places. Draws invert the cumulated distribution at one uniform number a row: Gumbel noise for a whole
    vocabulary costs more.
    """

    def __init__(self, job, c, flat):
        self.job, self.c = job, c
        self.params = c.unflatten(flat)
        self.prompts = jnp.asarray(job["prompts"], jnp.int32)
        self.key = jax.random.key(1, impl="unsafe_rbg")
        self.decode = jax.jit(self.whole)

    def draw(self, x, key):
        x = rms(x, self.params_now["norm"], self.c.norm_eps)
        logits = x @ self.params_now["embed"].T
        weight = jnp.exp(logits - logits.max(-1, keepdims=True))
        cumulated = jnp.cumsum(weight, -1)
        at = jax.random.uniform(key, (x.shape[0], 1)) * cumulated[:, -1:]
        ids = jnp.minimum((cumulated <= at).sum(-1), self.c.vocab - 1).astype(jnp.int32)
        chosen = jnp.take_along_axis(weight, ids[:, None], 1)[:, 0]
        return ids, jnp.log(chosen) - jnp.log(cumulated[:, -1])

    def prefill(self):
        c, params = self.c, self.params_now
        x = params["embed"][self.prompts]
        cos, sin = c.rope(x.shape[1])
        caches = []
        for block in params["blocks"]:
            q, k, v = projected(c, block, x, cos, sin)
            caches.append([k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)])
            x = feed_forward(c, block, x + causal(c, q, k, v) @ block["wo"])
        return caches, x[:, -1]

    def one(self, tables, carry, position):
        c, params = self.c, self.params_now
        caches, ids, key = carry
        cos, sin = (table[position][None] for table in tables)
        x = params["embed"][ids]
        seen = jnp.arange(caches[0][0].shape[2]) <= position
        grown = []
        for block, (keys, values) in zip(params["blocks"], caches):
            q, k, v = projected(c, block, x, cos, sin)
            keys = lax.dynamic_update_slice(keys, k[:, :, None], (0, 0, position, 0))
            values = lax.dynamic_update_slice(values, v[:, :, None], (0, 0, position, 0))
            grown.append([keys, values])
            q = q.reshape(-1, c.n_kv_heads, c.group, c.hd)
            mixed = attend(q, keys, values, seen).reshape(-1, c.d_model)
            x = feed_forward(c, block, x + mixed @ block["wo"])
        key, use = jax.random.split(key)
        ids, lps = self.draw(x, use)
        return (grown, ids, key), (ids, lps)

    def whole(self, params, key):
        self.params_now = params
        n_prompt, n_new = self.prompts.shape[1], self.job["n_new"]
        copies = partial(jnp.repeat, repeats=self.job["copies"], axis=0)
        caches, last = self.prefill()
        caches, last = jax.tree.map(copies, caches), copies(last)
        key, use = jax.random.split(key)
        ids, lps = self.draw(last, use)
        found = [(ids[None], lps[None])]
        carry = (caches, ids, key)
        tables = self.c.rope(n_prompt + n_new)
        for start in range(0, n_new - 1, GROW):
            n = min(GROW, n_new - 1 - start)
            grow = lambda x: jnp.pad(x, ((0, 0), (0, 0), (0, n), (0, 0)))
            carry = (jax.tree.map(grow, carry[0]), *carry[1:])
            positions = n_prompt + start + jnp.arange(n)
            carry, more = lax.scan(partial(self.one, tables), carry, positions)
            found.append(more)
        ids, lps = (jnp.concatenate(part).T for part in zip(*found))
        return ids, lps, carry[2]

    def first(self, folder):
        """One decode; leaves ids and their log-probs, [B, n_new]."""
        ids, lps, self.key = self.decode(self.params, self.key)
        np.asarray(ids, "<u4").tofile(folder / "ids.u32")
        np.asarray(lps, "<f4").tofile(folder / "logprobs.f32")
        return {}

    def go(self, n):
        for _ in range(n):
            ids, _, self.key = self.decode(self.params, self.key)
        ids.block_until_ready()


def product_rate(n=1024):
    """GFLOP/s of the CPU in a square product, the best of ten."""
    a = jnp.ones((n, n), jnp.float32)
    product = jax.jit(jnp.matmul)
    best = 0.0
    for _ in range(11):
        start = time.process_time()
        product(a, a).block_until_ready()
        best = max(best, 2 * n**3 / (time.process_time() - start) / 1e9)
    return best


def main():
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    flat = np.fromfile(folder / "weights.f32", "<f4")
    work = {"train": Train, "sample": Sample}[job["what"]](job, Sizes(job["model"]), flat)
    start = time.perf_counter()
    found = work.first(folder)
    found |= {"compile_s": time.perf_counter() - start, "jax": jax.__version__, "gemm_gflops": product_rate()}
    work.go(2)
    print(json.dumps(found), flush=True)
    for line in sys.stdin:
        n = int(line.split()[1])
        wall, cpu = time.perf_counter(), time.process_time()
        work.go(n)
        spent = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
        print(json.dumps(spent), flush=True)


if __name__ == "__main__":
    main()
