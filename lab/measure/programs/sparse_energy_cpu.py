"""Measure on one GPU what page-sparse decode attention costs, energy of plain kernels, and on the host's CPUs attention beside a copy.

$OUT/sparse_attention.csv: op (page_score, topk, attention), batch, context, q_heads, kv_heads, head_dim, page, pages (selected), us
$OUT/energy.csv: op, detail, seconds, joules, flops, bytes (of the whole run)
$OUT/host_cpu.csv: op, threads, batch, context, heads, head_dim, dtype, us, bytes

STEPS=energy,sparse,cpu selects.
"""
import csv, os, time, torch, triton, triton.language as tl
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend
from triton.testing import do_bench
OUT = os.environ["OUT"]; T0 = time.time(); dev, dt = "cuda", torch.float16
def say(*a): print(f"[{time.time()-T0:6.1f}s]", *a, flush=True)
def us(fn): return 1000 * do_bench(fn, warmup=3, rep=12, return_mode="median")
def writer(n, h):
    f = open(os.path.join(OUT, n), "w", newline=""); w = csv.writer(f); w.writerow(h.split()); return f, w

@triton.jit
def score_kernel(q, kmin, kmax, out, N, H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, T: tl.constexpr):
    bh = tl.program_id(0); n = tl.program_id(1) * T + tl.arange(0, T); d = tl.arange(0, D)
    off = bh.to(tl.int64) * N * D + n[:, None] * D + d[None, :]; ok = (n < N)[:, None]
    lo = tl.load(kmin + off, ok, 0.).to(tl.float32); hi = tl.load(kmax + off, ok, 0.).to(tl.float32)
    best = tl.full((T,), -1e30, tl.float32)
    for g in range(G):
        x = tl.load(q + (bh * G + g) * D + d).to(tl.float32)[None, :]
        best = tl.maximum(best, tl.sum(tl.maximum(x * lo, x * hi), 1))
    tl.store(out + bh * N + n, best, n < N)

@triton.jit
def sparse_kernel(q, k, v, table, part, lse, S, L, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, P: tl.constexpr, T: tl.constexpr, SPLIT: tl.constexpr):
    bh = tl.program_id(0); s = tl.program_id(1); g = tl.arange(0, GP); d = tl.arange(0, D)
    x = tl.load(q + (bh * G + g)[:, None] * D + d[None, :], (g < G)[:, None], 0.)
    m = tl.full((GP,), -1e30, tl.float32); z = tl.zeros((GP,), tl.float32); acc = tl.zeros((GP, D), tl.float32)
    per = tl.cdiv(tl.cdiv(S * P, SPLIT), T) * T; base = bh.to(tl.int64) * L * D
    for t0 in range(s * per, tl.minimum((s + 1) * per, S * P), T):
        t = t0 + tl.arange(0, T); ok = t < S * P
        row = tl.load(table + bh * S + t // P, ok, 0) * P + t % P
        a = base + row[:, None].to(tl.int64) * D + d[None, :]
        kk = tl.load(k + a, ok[:, None], 0.)
        sc = tl.where(ok[None, :], tl.dot(x, tl.trans(kk)) * 0.08838834764, -1e30)
        mn = tl.maximum(m, tl.max(sc, 1)); p = tl.exp(sc - mn[:, None]); c = tl.exp(m - mn)
        vv = tl.load(v + a, ok[:, None], 0.)
        acc = acc * c[:, None] + tl.dot(p.to(tl.float16), vv); z = z * c + tl.sum(p, 1); m = mn
    o = (bh * SPLIT + s) * GP + g
    tl.store(part + o[:, None] * D + d[None, :], acc / tl.maximum(z, 1e-30)[:, None]); tl.store(lse + o, m + tl.log(tl.maximum(z, 1e-30)))

@triton.jit
def merge_kernel(part, lse, out, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, SPLIT: tl.constexpr):
    bh = tl.program_id(0) // G; g = tl.program_id(0) % G; d = tl.arange(0, D); s = tl.arange(0, SPLIT)
    l = tl.load(lse + (bh * SPLIT + s) * GP + g); w = tl.exp(l - tl.max(l, 0)); w = w / tl.sum(w, 0)
    a = tl.load(part + ((bh * SPLIT + s) * GP + g)[:, None] * D + d[None, :])
    tl.store(out + (bh * G + g) * D + d, tl.sum(a * w[:, None], 0).to(tl.float16))

def sparse():
    f, w = writer("sparse_attention.csv", "op batch context q_heads kv_heads head_dim page pages us"); D = 128
    for hq, hkv in ((32, 32), (32, 8), (12, 12)):
        for b in (1, 4, 16, 64):
            for L in (8192, 32768, 131072):
                if b * hkv * L * D * 4 > 34e9: continue
                k = torch.randn(b, hkv, L, D, device=dev, dtype=dt); v = torch.randn_like(k); q = torch.randn(b, hq, D, device=dev, dtype=dt); G = hq // hkv
                with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                    w.writerow(["dense", b, L, hq, hkv, D, 1, L, f"{us(lambda: F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=hq != hkv)):.2f}"])
                for P in (16, 64):
                    N = L // P; kp = k.view(b, hkv, N, P, D); kmin, kmax = kp.amin(3).contiguous(), kp.amax(3).contiguous()
                    out = torch.empty(b * hkv, N, device=dev)
                    sc = lambda: score_kernel[(b * hkv, triton.cdiv(N, 64))](q, kmin, kmax, out, N, hq, G, D, 64)
                    w.writerow(["page_score", b, L, hq, hkv, D, P, N, f"{us(sc):.2f}"])
                    for budget in (1024, 4096):
                        S = budget // P; idx = torch.topk(out, S, -1).indices
                        w.writerow(["topk", b, L, hq, hkv, D, P, S, f"{us(lambda: torch.topk(out, S, -1, sorted=False)):.2f}"])
                        table = idx.int().contiguous(); GP = 16
                        SPLIT = max(1, min(32, 1 << max(0, (264 // (b * hkv))).bit_length() - 1 if b * hkv < 264 else 1))
                        SPLIT = min(SPLIT, triton.next_power_of_2(max(1, budget // 128)))
                        part = torch.empty(b * hkv * SPLIT * GP, D, device=dev); lse = torch.empty(b * hkv * SPLIT * GP, device=dev); o = torch.empty(b, hq, D, device=dev, dtype=dt)
                        def att():
                            sparse_kernel[(b * hkv, SPLIT)](q, k, v, table, part, lse, S, L, G, GP, D, P, 64, SPLIT, num_warps=4, num_stages=3)
                            merge_kernel[(b * hq,)](part, lse, o, G, GP, D, SPLIT)
                        att(); torch.cuda.synchronize()
                        sel = (idx[:, :, None] * P + torch.arange(P, device=dev)).reshape(b, hkv, -1, 1).expand(-1, -1, -1, D)
                        ref = F.scaled_dot_product_attention(q[:, :, None].float(), k.gather(2, sel).float(), v.gather(2, sel).float(), enable_gqa=hq != hkv)[:, :, 0]
                        err = float((o.float() - ref).norm() / ref.norm())
                        if err > 5e-3: say("WRONG", hq, hkv, b, L, P, budget, err); continue
                        w.writerow(["attention", b, L, hq, hkv, D, P, S, f"{us(att):.2f}"])
                    f.flush()
                del k, v
    f.close(); say("sparse done")

def energy():
    import pynvml; pynvml.nvmlInit(); H = pynvml.nvmlDeviceGetHandleByIndex(0)
    e = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(H) / 1000
    f, w = writer("energy.csv", "op detail seconds joules flops bytes")
    def sustained(op, detail, fn, flops, byts, dur=4.0):
        for _ in range(3): fn()
        torch.cuda.synchronize(); t = time.time(); n = 0
        while time.time() - t < 1.0:
            for _ in range(10): fn()
            torch.cuda.synchronize(); n += 10
        per = max(10, n); e0, t = e(), time.time(); done = 0
        while time.time() - t < dur: 
            for _ in range(max(1, per // 10)): fn()
            torch.cuda.synchronize(); done += max(1, per // 10)
        w.writerow([op, detail, f"{time.time()-t:.3f}", f"{e()-e0:.1f}", flops * done, byts * done]); f.flush()
    try: e()
    except Exception as x: say("no energy counter", x); return
    time.sleep(4); e0, t = e(), time.time(); time.sleep(6); w.writerow(["idle", "", f"{time.time()-t:.3f}", f"{e()-e0:.1f}", 0, 0])
    big = torch.randn(1 << 30, device=dev, dtype=dt); dst = torch.empty_like(big)
    sustained("copy", "2 GiB", lambda: dst.copy_(big), 0, 2 * big.numel() * 2)
    del big, dst
    for m, n, k in ((1, 16384, 16384), (16, 16384, 16384), (64, 16384, 16384), (128, 16384, 16384), (256, 16384, 16384), (512, 16384, 16384), (1024, 12288, 12288), (4096, 12288, 12288), (8192, 8192, 8192)):
        a, b = torch.randn(m, k, device=dev, dtype=dt), torch.randn(n, k, device=dev, dtype=dt) * .02
        sustained("gemm", f"{m}x{n}x{k}", lambda: F.linear(a, b), 2 * m * n * k, 2 * (m * k + n * k + m * n)); del a, b
    for b, h, L in ((16, 32, 8192), (64, 12, 8192), (1, 32, 131072)):
        q, k, v = torch.randn(b, h, 1, 128, device=dev, dtype=dt), torch.randn(b, h, L, 128, device=dev, dtype=dt), torch.randn(b, h, L, 128, device=dev, dtype=dt)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION): sustained("decode_attention", f"{b}x{h}x{L}", lambda: F.scaled_dot_product_attention(q, k, v), 4 * b * h * L * 128, 4 * b * h * L * 128)
        del q, k, v
    q, k, v = (torch.randn(1, 32, 8192, 128, device=dev, dtype=dt) for _ in range(3))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION): sustained("prefill_attention", "32x8192", lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), 2 * 32 * 8192 * 8192 * 128, 8 * 32 * 8192 * 128)
    h = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True); d = torch.empty(1 << 28, dtype=torch.uint8, device=dev)
    sustained("h2d", "256 MiB", lambda: d.copy_(h, non_blocking=True), 0, 1 << 28)
    f.close(); say("energy done")

def cpu():
    f, w = writer("host_cpu.csv", "op threads batch context heads head_dim dtype us bytes")
    def best(fn, n=7):
        fn(); ts = []
        for _ in range(n): t = time.perf_counter(); fn(); ts.append(time.perf_counter() - t)
        return 1e6 * sorted(ts)[n // 2]
    say(os.cpu_count(), "cpus", open("/proc/cpuinfo").read().split("model name")[1].split("\n")[0])
    for th in (16, 8, 4, 2):
        torch.set_num_threads(th); a = torch.zeros(1 << 28); b = torch.ones(1 << 28)
        w.writerow(["copy", th, "", "", "", "", "fp32", f"{best(lambda: a.copy_(b)):.1f}", 2 * a.numel() * 4]); w.writerow(["sum", th, "", "", "", "", "fp32", f"{best(lambda: b.sum()):.1f}", b.numel() * 4]); del a, b
        for name, t in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
            for bt, L in ((1, 32768), (16, 2048), (16, 8192), (64, 2048), (1, 2048)):
                q, k, v = torch.randn(bt, 32, 1, 128).to(t), torch.randn(bt, 32, L, 128).to(t), torch.randn(bt, 32, L, 128).to(t)
                w.writerow(["decode_attention", th, bt, L, 32, 128, name, f"{best(lambda: F.scaled_dot_product_attention(q, k, v), 3):.1f}", k.numel() * 2 * k.element_size()]); del q, k, v
        f.flush(); say("threads", th)
        if time.time() - T0 > float(os.environ.get("LIMIT", "280")): break
    f.close()
STEPS = [globals()[s] for s in os.environ.get("STEPS", "energy,sparse,cpu").split(",")]
for step in STEPS:
    try: step()
    except Exception as x: say(step.__name__, "failed:", repr(x)[:300])
