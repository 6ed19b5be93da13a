"""Narrow numbers on one GPU: decode attention over keys and values of 8 and 4 bits, and products of FP8 factors.

decode_attention.csv: kind (fp16, fp8, int8, int4), batch, context, q_heads, kv_heads, head_dim, graph_us (several launches in one CUDA graph over rotating caches)
gemm.csv: kind (fp16, fp8), m, n, k, graph_us, sustained_us, joules
fp8: e4m3, one scale a tensor. int8, int4: a scale (int4: and a zero) for each token, key or value and KV head. Best of a few tile sizes; values are checked against float32.
"""
import csv, os, time, torch, triton, triton.language as tl
import torch.nn.functional as F, pynvml
pynvml.nvmlInit(); H = pynvml.nvmlDeviceGetHandleByIndex(0)
OUT = os.environ["OUT"]; T0 = time.time(); dev = "cuda"; LIMIT = float(os.environ.get("LIMIT", "300"))
def say(*a): print(f"[{time.time()-T0:6.1f}s]", *a, flush=True)
def joules(): return pynvml.nvmlDeviceGetTotalEnergyConsumption(H) / 1000

@triton.jit
def split(q, k, v, ks, vs, part, lse, L, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, T: tl.constexpr, SPLIT: tl.constexpr, KIND: tl.constexpr):
    bh = tl.program_id(0).to(tl.int64); s = tl.program_id(1); g = tl.arange(0, GP); d = tl.arange(0, D)
    x = tl.load(q + (bh * G + g)[:, None] * D + d[None, :], (g < G)[:, None], 0.)
    m = tl.full((GP,), -1e30, tl.float32); z = tl.zeros((GP,), tl.float32); acc = tl.zeros((GP, D), tl.float32)
    per = tl.cdiv(tl.cdiv(L, SPLIT), T) * T
    for t0 in range(s * per, tl.minimum((s + 1) * per, L), T):
        t = t0 + tl.arange(0, T); ok = t < L; row = bh * L + t
        if KIND == 3:
            h = tl.arange(0, D // 2); a = row[:, None] * (D // 2) + h[None, :]
            kb = tl.load(k + a, ok[:, None], 0); vb = tl.load(v + a, ok[:, None], 0)
            kk = tl.interleave((kb & 15).to(tl.float16), (kb >> 4).to(tl.float16)); vv = tl.interleave((vb & 15).to(tl.float16), (vb >> 4).to(tl.float16))
        else:
            a = row[:, None] * D + d[None, :]
            kk = tl.load(k + a, ok[:, None], 0.).to(tl.float16); vv = tl.load(v + a, ok[:, None], 0.).to(tl.float16)
        sc = tl.dot(x, tl.trans(kk))
        if KIND == 2: sc = sc * tl.load(ks + row, ok, 0.)[None, :]
        if KIND == 3:
            sk = tl.load(ks + row * 2, ok, 0.); zk = tl.load(ks + row * 2 + 1, ok, 0.)
            sc = sc * sk[None, :] + tl.sum(x.to(tl.float32), 1)[:, None] * zk[None, :]
        sc = tl.where(ok[None, :], sc * 0.08838834764, -1e30)
        mn = tl.maximum(m, tl.max(sc, 1)); p = tl.exp(sc - mn[:, None]); c = tl.exp(m - mn); z = z * c + tl.sum(p, 1)
        if KIND == 2: acc = acc * c[:, None] + tl.dot((p * tl.load(vs + row, ok, 0.)[None, :]).to(tl.float16), vv)
        elif KIND == 3:
            sv = tl.load(vs + row * 2, ok, 0.); zv = tl.load(vs + row * 2 + 1, ok, 0.)
            acc = acc * c[:, None] + tl.dot((p * sv[None, :]).to(tl.float16), vv) + tl.sum(p * zv[None, :], 1)[:, None]
        else: acc = acc * c[:, None] + tl.dot(p.to(tl.float16), vv)
        m = mn
    o = (bh * SPLIT + s) * GP + g
    tl.store(part + o[:, None] * D + d[None, :], acc / tl.maximum(z, 1e-30)[:, None]); tl.store(lse + o, m + tl.log(tl.maximum(z, 1e-30)))

@triton.jit
def merge(part, lse, out, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, SPLIT: tl.constexpr):
    bh = tl.program_id(0) // G; g = tl.program_id(0) % G; d = tl.arange(0, D); s = tl.arange(0, SPLIT)
    l = tl.load(lse + (bh * SPLIT + s) * GP + g); w = tl.exp(l - tl.max(l, 0)); w = w / tl.sum(w, 0)
    a = tl.load(part + ((bh * SPLIT + s) * GP + g)[:, None] * D + d[None, :])
    tl.store(out + (bh * G + g) * D + d, tl.sum(a * w[:, None], 0).to(tl.float16))

KINDS = {"fp16": 0, "fp8": 1, "int8": 2, "int4": 3}
def cache(kind, n, L, D):
    x = torch.empty(n, L, D, device=dev, dtype=torch.float16).normal_()
    if kind == "fp16": return x, x, x
    if kind == "fp8": y = x.to(torch.float8_e4m3fn); return y, x, y.half()
    if kind == "int8": s = x.abs().amax(-1, keepdim=True).float() / 127; y = (x.float() / s).round().to(torch.int8); return y, s.squeeze(-1).contiguous(), (y.float() * s)
    lo, hi = x.amin(-1, keepdim=True).float(), x.amax(-1, keepdim=True).float(); s = (hi - lo) / 15; y = ((x.float() - lo) / s).round().clamp(0, 15).to(torch.uint8)
    return (y[..., 0::2] | (y[..., 1::2] << 4)).contiguous(), torch.cat([s, lo], -1).contiguous(), y.float() * s + lo

def graph(fns):
    for f in fns[:2]: f()
    torch.cuda.synchronize(); g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for f in fns: f()
    g.replay(); torch.cuda.synchronize(); return g
def timed(g, n, count):
    s, z = torch.cuda.Event(True), torch.cuda.Event(True); torch.cuda.synchronize(); s.record()
    for _ in range(count): g.replay()
    z.record(); torch.cuda.synchronize(); return 1000 * s.elapsed_time(z) / (n * count)

def decode():
    f = open(f"{OUT}/decode_attention.csv", "w", newline=""); w = csv.writer(f); w.writerow("kind batch context q_heads kv_heads head_dim graph_us".split()); D = 128; wrong = 0
    for hq, hkv in ((32, 8), (32, 32), (16, 2), (12, 12)):
        for b in (1, 8, 32, 128):
            for L in (512, 2048, 8192, 32768, 131072):
                if b * L * hkv * 512 > 12e9 or time.time() - T0 > LIMIT: continue
                n, G = b * hkv, hq // hkv; q = torch.randn(n * G, D, device=dev, dtype=torch.float16); out = torch.empty_like(q)
                for kind, code in KINDS.items():
                    r = max(2, min(12, int(3e8 / (n * L * D * 2)) + 1)); c = []
                    for _ in range(r):
                        k, ks, kf = cache(kind, n, L, D); v, vs, vf = cache(kind, n, L, D); c.append((k, v, ks, vs))
                        if len(c) == 1 and n * L <= 300000:
                            ref = (torch.softmax(q.view(n, G, D).float() @ kf.float().transpose(1, 2) * 0.08838834764, -1) @ vf.float()).view(-1, D)
                        del kf, vf
                    best = 1e9
                    for T, wp in ((64, 4), (128, 4), (128, 8)):
                        sp = 1
                        while sp < 64 and n * sp * 2 <= 528 and L // (sp * 2) >= 128: sp *= 2
                        part = torch.empty(n * sp * 16, D, device=dev); lse = torch.empty(n * sp * 16, device=dev)
                        def one(k, v, ks, vs):
                            split[(n, sp)](q, k, v, ks, vs, part, lse, L, G, 16, D, T, sp, code, num_warps=wp, num_stages=3); merge[(n * G,)](part, lse, out, G, 16, D, sp)
                        try:
                            one(*c[0]); torch.cuda.synchronize()
                            if T == 64 and n * L <= 300000 and float((out.float() - ref).norm() / ref.norm()) > 1e-2: say("WRONG", kind, b, L, hq, hkv, float((out.float() - ref).norm() / ref.norm())); wrong += 1
                            g = graph([lambda x=x: one(*x) for x in c]); t0 = timed(g, r, 1); best = min(best, timed(g, r, max(2, int(4000 / (t0 * r))))); del g
                        except Exception as e: say(kind, b, L, hq, hkv, T, repr(e)[:120])
                    w.writerow([kind, b, L, hq, hkv, D, f"{best:.3f}"]); f.flush(); del c
    say("decode done, wrong", wrong)

def gemm():
    f = open(f"{OUT}/gemm.csv", "w", newline=""); w = csv.writer(f); w.writerow("kind m n k graph_us sustained_us joules".split())
    one = torch.ones((), device=dev)
    for n, k in ((12288, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (36864, 12288), (12288, 12288), (49152, 12288), (12288, 49152), (10240, 8192), (57344, 8192), (8192, 28672)):
        for kind in ("fp16", "fp8"):
            r = max(2, min(24, int(1.2e9 / (2 * n * k)) + 1)); ws = [torch.empty(n, k, device=dev, dtype=torch.float16).normal_(0, .02) for _ in range(r)]
            if kind == "fp8": ws = [x.to(torch.float8_e4m3fn) for x in ws]
            for m in (16, 64, 128, 256, 1024, 4096):
                if time.time() - T0 > LIMIT: return
                few = max(2, min(r, int(4000 / (2 * m * n * k / 7e14 * 1e6 + 20)))); x = torch.randn(m, k, device=dev, dtype=torch.float16)
                if kind == "fp8": x = x.to(torch.float8_e4m3fn); fns = [lambda y=y: torch._scaled_mm(x, y.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16) for y in ws[:few]]
                else: fns = [lambda y=y: F.linear(x, y) for y in ws[:few]]
                g = graph(fns); c = len(fns); time.sleep(.15); o = timed(g, c, 1); burst = min(timed(g, c, max(1, int(2000 / (o * c)))) for _ in range(2))
                cnt = max(3, int(0.3e6 / (burst * c))); timed(g, c, cnt // 2 + 1); e = joules(); su = timed(g, c, cnt); e = (joules() - e) / (c * cnt)
                w.writerow([kind, m, n, k, f"{burst:.3f}", f"{su:.3f}", f"{e:.6f}"]); f.flush()
            del ws
    say("gemm done")
for s in os.environ.get("STEPS", "decode,gemm").split(","): globals()[s]()
