"""A model with latent attention whose layers share choices: random weights, results in double precision, as safetensors.

Usage: python3 latent_shared.py OUT.safetensors
Plain Python, expanded attention. Layers with index tensors choose, the others attend to what the latest of these has chosen for the same
token. Definitions and tensors are those of latent_reference.safetensors, with dense networks alone."""
import json, math, random, struct, sys

C = dict(vocab=64, hidden=24, layers=5, heads=2, q_lora=12, kv_lora=16, nope=8, rope=4, v=8, index_heads=3, index_dim=8, topk=12,
         dense_width=32, base=10000.0, eps=1e-6, T=96)
CHOOSES = [0, 3]  # the other layers follow: I S S I S
R = random.Random(20261130)
H, HEADS, LAT, ROPE, NOPE, V, T = C["hidden"], C["heads"], C["kv_lora"], C["rope"], C["nope"], C["v"], C["T"]
tensors = {}  # name: (dtype, shape, flat list)


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def matrix(name, rows, columns, gain=1.0):
    m = [[single(R.gauss(0, 1) * gain * columns ** -0.5) for _ in range(columns)] for _ in range(rows)]
    tensors[name] = ("F32", [rows, columns], [x for row in m for x in row])
    return m


def vector(name, n, middle=1.0):
    v = [single(middle + 0.1 * R.gauss(0, 1)) for _ in range(n)]
    tensors[name] = ("F32", [n], v)
    return v


def times(m, x):
    return [math.fsum(a * b for a, b in zip(row, x)) for row in m]


def rms(x, g):
    s = math.sqrt(math.fsum(a * a for a in x) / len(x) + C["eps"])
    return [a / s * b for a, b in zip(x, g)]


def layernorm(x, g, b):
    mean = math.fsum(x) / len(x)
    s = math.sqrt(math.fsum((a - mean) ** 2 for a in x) / len(x) + C["eps"])
    return [(a - mean) / s * w + c for a, w, c in zip(x, g, b)]


def rotate(x, t):
    out = []
    for i in range(len(x) // 2):
        a = t * C["base"] ** (-2 * i / len(x))
        p, q = x[2 * i], x[2 * i + 1]
        out += [p * math.cos(a) - q * math.sin(a), p * math.sin(a) + q * math.cos(a)]
    return out


def silu(x):
    return x / (1 + math.exp(-x))


def dot(x, y):
    return math.fsum(a * b for a, b in zip(x, y))


embed = matrix("embed", C["vocab"], H, gain=H ** 0.5)
layers = []
for l in range(C["layers"]):
    p = f"layer.{l}."
    L = dict(n1=vector(p + "norm1", H), qa=matrix(p + "q_a", C["q_lora"], H), qn=vector(p + "q_norm", C["q_lora"]),
             qb=matrix(p + "q_b", HEADS * (NOPE + ROPE), C["q_lora"], 1.6), kva=matrix(p + "kv_a", LAT + ROPE, H), kvn=vector(p + "kv_norm", LAT),
             kvb=matrix(p + "kv_b", HEADS * (NOPE + V), LAT, 1.6), o=matrix(p + "o", H, HEADS * V), n2=vector(p + "norm2", H),
             gate=matrix(p + "gate", C["dense_width"], H), up=matrix(p + "up", C["dense_width"], H), down=matrix(p + "down", H, C["dense_width"]))
    if l in CHOOSES:
        L.update(iq=matrix(p + "index_q", C["index_heads"] * C["index_dim"], C["q_lora"], 1.6), ik=matrix(p + "index_k", C["index_dim"], H),
                 ig=vector(p + "index_k_norm", C["index_dim"]), ib=vector(p + "index_k_bias", C["index_dim"], 0.0), iw=matrix(p + "index_w", C["index_heads"], H))
    layers.append(L)
norm, head = vector("norm", H), matrix("head", C["vocab"], H, 2.0)
tokens = [R.randrange(C["vocab"]) for _ in range(T)]
for t in range(T // 3, T):  # repeats, so that far tokens matter
    if R.random() < 0.7:
        tokens[t] = tokens[t - T // 3 + R.randrange(3)]
positions = [1, C["topk"] - 1, C["topk"], C["topk"] + 1, T // 3, T // 2, T - 2, T - 1]


def run(way):
    x = [list(embed[t]) for t in tokens]
    chosen = None
    for l, L in enumerate(layers):
        h = [rms(a, L["n1"]) for a in x]
        qa = [rms(times(L["qa"], a), L["qn"]) for a in h]
        q = [times(L["qb"], a) for a in qa]
        kv = [times(L["kva"], a) for a in h]
        latent = [rms(a[:LAT], L["kvn"]) for a in kv]
        rotated = [rotate(a[LAT:], t) for t, a in enumerate(kv)]
        made = [times(L["kvb"], a) for a in latent]
        if way == "dsa":
            gap = [math.inf] * T
            if "iq" in L:
                ik = [layernorm(times(L["ik"], a), L["ig"], L["ib"]) for a in h]
                ik = [rotate(k[:ROPE], t) + k[ROPE:] for t, k in enumerate(ik)]
                chosen = []
                for t in range(T):
                    flat, d = times(L["iq"], qa[t]), C["index_dim"]
                    iq = [flat[j * d:(j + 1) * d] for j in range(C["index_heads"])]
                    iq = [rotate(a[:ROPE], t) + a[ROPE:] for a in iq]
                    iw = [w * (C["index_heads"] * d) ** -0.5 for w in times(L["iw"], h[t])]
                    scores = [math.fsum(w * max(0.0, dot(a, ik[s])) for w, a in zip(iw, iq)) for s in range(t + 1)]
                    order = sorted(range(t + 1), key=lambda s: (-scores[s], s))
                    if t >= C["topk"]:
                        gap[t] = scores[order[C["topk"] - 1]] - scores[order[C["topk"]]]
                    chosen.append(sorted(order[:C["topk"]]))
            listed = []
            for t in positions:
                listed += chosen[t] + [-1] * (C["topk"] - len(chosen[t]))
            tensors[f"chosen.{l}"] = ("I32", [len(positions), C["topk"]], listed)
            tensors[f"gap.{l}"] = ("F64", [T], gap)
        out = []
        for t in range(T):
            seen = chosen[t] if way == "dsa" else range(t + 1)
            row = []
            for k in range(HEADS):
                query = q[t][k * (NOPE + ROPE):(k + 1) * (NOPE + ROPE)]
                query = query[:NOPE] + rotate(query[NOPE:], t)
                at = k * (NOPE + V)
                s = [dot(query, made[u][at:at + NOPE] + rotated[u]) * (NOPE + ROPE) ** -0.5 for u in seen]
                top = max(s)
                e = [math.exp(a - top) for a in s]
                total = math.fsum(e)
                row += [math.fsum(w * made[u][at + NOPE + i] for w, u in zip(e, seen)) / total for i in range(V)]
            out.append(row)
        tensors[f"attn.{l}.{way}"] = ("F64", [len(positions), HEADS * V], [a for t in positions for a in out[t]])
        for t in range(T):
            x[t] = [a + b for a, b in zip(x[t], times(L["o"], out[t]))]
            z = rms(x[t], L["n2"])
            wide = [silu(a) * b for a, b in zip(times(L["gate"], z), times(L["up"], z))]
            x[t] = [a + b for a, b in zip(x[t], times(L["down"], wide))]
    nll = []
    for t in range(T - 1):
        logits = times(head, rms(x[t], norm))
        top = max(logits)
        nll.append(top + math.log(math.fsum(math.exp(a - top) for a in logits)) - logits[tokens[t + 1]])
    tensors[f"nll.{way}"] = ("F64", [T - 1], nll)


run("dense")
run("dsa")
tensors["tokens"], tensors["positions"] = ("I32", [T], tokens), ("I32", [len(positions)], positions)
header, data = {"__metadata__": {k: str(v) for k, v in C.items()}}, b""
for name in sorted(tensors):
    kind, shape, values = tensors[name]
    part = struct.pack("<%d%s" % (len(values), {"F32": "f", "F64": "d", "I32": "i"}[kind]), *values)
    header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
    data += part
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
