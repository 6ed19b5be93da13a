"""Server-class kernels on one GPU, each alone: decode_attention.csv (always split, the best of three tiles), prefill_attention.csv (cuDNN; without a mask
where tokens are finished), and power with gaps: duty.csv. Medians of L2-flushed launches."""
import csv, os, time, torch, torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend
from triton.testing import do_bench
from server_kernels import Decode
OUT = os.environ["OUT"]; T0 = time.time(); dev, dt = "cuda", torch.float16
def say(*a): print(f"[{time.time()-T0:6.1f}s]", *a, flush=True)
def us(fn, rep=10): return 1000 * do_bench(fn, warmup=3, rep=rep, return_mode="median")
def writer(n, h):
    f = open(os.path.join(OUT, n), "w", newline=""); w = csv.writer(f); w.writerow(h.split()); return f, w
def decode():
    f, w = writer("decode_attention.csv", "batch context q_heads kv_heads head_dim us"); bad = 0
    for hq, hkv in ((32, 8), (32, 32), (12, 12), (16, 2), (24, 24)):
        for b in (1, 4, 16, 32, 64, 128, 256):
            for l in (512, 1024, 2048, 4096, 8192, 16384, 32768, 131072):
                if b * l * hkv * 512 > 22e9: continue
                q = torch.randn(b, hq, 1, 128, device=dev, dtype=dt); k = torch.empty(b, hkv, l, 128, device=dev, dtype=dt).normal_(); v = torch.empty_like(k).normal_()
                best = 1e9
                for T, wp in ((64, 4), (128, 4), (128, 8)):
                    a = Decode(b, hq, hkv, l, T=T, warps=wp)
                    o = a(q, k, v)
                    if T == 64 and l <= 4096 and b <= 16:
                        r = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), enable_gqa=hq != hkv)
                        if float((o.float() - r).norm() / r.norm()) > 5e-3: say("WRONG", hq, hkv, b, l); bad += 1
                    best = min(best, us(lambda: a(q, k, v)))
                w.writerow([b, l, hq, hkv, 128, f"{best:.2f}"]); del q, k, v
        f.flush()
    f.close(); say("decode done, wrong:", bad)
def prefill():
    f, w = writer("prefill_attention.csv", "chunk finished q_heads kv_heads head_dim us")
    for hq, hkv in ((32, 8), (32, 32), (12, 12)):
        for c in (128, 512, 1024, 2048, 4096, 8192, 16384, 32768):
            for fin in (0, 4096, 16384):
                if c * (c + fin) > 1.2e9: continue
                q = torch.randn(1, hq, c, 128, device=dev, dtype=dt); k = torch.randn(1, hkv, c + fin, 128, device=dev, dtype=dt); v = torch.randn_like(k)
                try:
                    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                        if fin == 0: t = us(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=hq != hkv), 20)
                        else: t = us(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=hq != hkv), 20)
                    w.writerow([c, fin, hq, hkv, 128, f"{t:.2f}"])
                except Exception as e: say("prefill", hq, hkv, c, fin, str(e)[:100])
        f.flush()
    f.close(); say("prefill done")
def duty():
    import pynvml; pynvml.nvmlInit(); H = pynvml.nvmlDeviceGetHandleByIndex(0); e = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(H) / 1000
    f, w = writer("duty.csv", "busy_us gap_us seconds joules iterations")
    a, b = torch.randn(64, 8192, device=dev, dtype=dt), torch.randn(8192, 8192, device=dev, dtype=dt) * .02
    for n in (4, 16):
        g = torch.cuda.CUDAGraph(); F.linear(a, b); torch.cuda.synchronize()
        with torch.cuda.graph(g):
            for _ in range(n): F.linear(a, b)
        g.replay(); torch.cuda.synchronize(); s, z = torch.cuda.Event(True), torch.cuda.Event(True); s.record()
        for _ in range(50): g.replay()
        z.record(); torch.cuda.synchronize(); busy = 1000 * s.elapsed_time(z) / 50
        for gap in (0, 200, 500, 1000, 3000, 20000):
            t = time.time(); i = 0; e0 = None
            while True:
                now = time.time()
                if e0 is None and now - t > 1: e0, t0, i = e(), now, 0
                if now - t > 5: break
                g.replay(); torch.cuda.synchronize(); i += 1
                end = time.perf_counter() + gap / 1e6
                while time.perf_counter() < end: pass
            w.writerow([f"{busy:.1f}", gap, f"{time.time()-t0:.3f}", f"{e()-e0:.1f}", i]); f.flush()
    f.close(); say("duty done")
for s in (decode, prefill, duty):
    try: s()
    except Exception as x: say(s.__name__, "failed", repr(x)[:300])
