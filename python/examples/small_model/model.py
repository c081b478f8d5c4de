"""The model: seeded layers of three kinds, each with a cache of its own kind.

- `mla`: latent attention, one row of `LATENT + ROPE` values a token;
- `gqa`: attention with `HEADS` KV heads of `DIM` values, each of two query heads;
- `gdn`: a gated delta rule, whose state is `HEADS` matrices and the last `WINDOW` inputs.

Every shape is fixed, so that a step can be captured: `LANES` requests with `STEP` tokens each, and `POSITIONS` rows to attend to.
Requests are shorter, and steps are padded. Products are sums over the last axis rather than calls of a BLAS, which may add in
another order at another place of a batch: so a token's logits are the same, bit for bit, wherever in a batch it is computed.
"""

import numpy as np

BLOCK = 16  # tokens of a block, and of a page
LANES, STEP = 2, 4  # requests of a step, and tokens of each
POSITIONS = 24 * BLOCK  # the longest request
HIDDEN, VOCABULARY = 32, 64
LATENT, ROPE = 24, 8
HEADS, DIM = 2, 8
STATE, WINDOW = 8, 4
STATE_VALUES = WINDOW * HIDDEN + HEADS * STATE * STATE  # of one request and layer


class Model:
    """Weights, on the device of `arrays`."""

    def __init__(self, arrays, kinds, seed):
        self.xp, self.kinds, random = arrays.xp, kinds, np.random.default_rng(seed)
        weight = lambda *shape: arrays.on_device((random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))
        self.embedding, self.head = weight(VOCABULARY, HIDDEN), weight(VOCABULARY, HIDDEN)
        shapes = {
            "mla": {"row": (LATENT + ROPE, HIDDEN), "query": (LATENT + ROPE, HIDDEN), "out": (HIDDEN, LATENT)},
            "gqa": {"kv": (2 * HEADS * DIM, HIDDEN), "query": (2 * HEADS * DIM, HIDDEN), "out": (HIDDEN, 2 * HEADS * DIM)},
            "gdn": {
                "in": (HIDDEN, HIDDEN),
                "qkv": (3 * HEADS * STATE, HIDDEN),
                "gates": (2 * HEADS, HIDDEN),
                "out": (HIDDEN, HEADS * STATE),
            },
        }
        self.layers = [{name: weight(*shape) for name, shape in shapes[kind].items()} for kind in kinds]
        self.columns = arrays.on_device(np.arange(POSITIONS))

    def forward(self, tokens, positions, cache):
        """The logits `[LANES, STEP, VOCABULARY]` after each of `tokens`, at `positions`, both `[LANES, STEP]`.

        Rows go to the cache. What states come to after each of the tokens goes there too, for only some may be accepted.
        """
        x = self.embedding[tokens]
        visible = self.columns <= positions[..., None]
        for number, (kind, weights) in enumerate(zip(self.kinds, self.layers, strict=True)):
            layer = self.kinds[:number].count(kind)
            normal = x / self.xp.sqrt((x * x).mean(axis=-1)[..., None] + 1e-6)
            x = x + getattr(self, kind)(weights, normal, layer, visible, cache)
        return project(x, self.head)

    def mla(self, weights, x, layer, visible, cache):
        cache.write_mla(layer, project(x, weights["row"]))
        rows = cache.read_mla(layer)[:, None]
        query = project(x, weights["query"])
        shares = self.softmax((rows * query[:, :, None]).sum(axis=-1), visible)
        return project((shares[..., None] * rows[..., :LATENT]).sum(axis=-2), weights["out"])

    def gqa(self, weights, x, layer, visible, cache):
        kv = project(x, weights["kv"]).reshape(LANES, STEP, 2, HEADS, DIM)
        cache.write_gqa(layer, kv)
        # `[LANES, 1, 1, HEADS, POSITIONS, DIM]`; two query heads for each KV head.
        keys, values = (rows[:, None, None] for rows in cache.read_gqa(layer))
        query = project(x, weights["query"]).reshape(LANES, STEP, 2, HEADS, 1, DIM)
        shares = self.softmax((keys * query).sum(axis=-1), visible[:, :, None, None])
        mixed = (shares[..., None] * values).sum(axis=-2)
        return project(mixed.reshape(LANES, STEP, 2 * HEADS * DIM), weights["out"])

    def gdn(self, weights, x, layer, _visible, cache):
        xp, states, outputs = self.xp, [], []
        state = cache.read_state(layer)
        window = state[:, : WINDOW * HIDDEN].reshape(LANES, WINDOW, HIDDEN)
        memory = state[:, WINDOW * HIDDEN :].reshape(LANES, HEADS, STATE, STATE)
        inputs = project(x, weights["in"])
        gates = 1 / (1 + xp.exp(-project(x, weights["gates"]).reshape(LANES, STEP, 2, HEADS)))
        for step in range(STEP):
            q, k, v = project(inputs[:, step] + window.sum(axis=1), weights["qkv"]).reshape(LANES, 3, HEADS, STATE).swapaxes(0, 1)
            window = xp.concatenate([window[:, 1:], x[:, step, None]], 1)
            k = k / xp.sqrt((k * k).sum(axis=-1)[..., None] + 1e-6)
            decay, rate = (gates[:, step, gate, :, None, None] for gate in range(2))
            memory = memory * decay
            error = v - (memory * k[:, :, None]).sum(axis=-1)
            memory = memory + rate * error[..., None] * k[:, :, None]
            outputs.append((memory * q[:, :, None]).sum(axis=-1).reshape(LANES, HEADS * STATE))
            states.append(xp.concatenate([window.reshape(LANES, -1), memory.reshape(LANES, -1)], 1))
        cache.keep_states(layer, states)
        return project(xp.stack(outputs, 1), weights["out"])

    def softmax(self, scores, visible):
        scores = self.xp.where(visible, scores, float("-inf"))
        weights = self.xp.exp(scores - self.xp.amax(scores, -1)[..., None])
        return weights / weights.sum(axis=-1)[..., None]


def project(x, weights):
    return (x[..., None, :] * weights).sum(axis=-1)
