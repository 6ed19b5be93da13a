"""Kernels inside CUDA graphs: gemm.csv, decode_attention.csv and prefill_attention.csv as servers run them, decode_attention_pytorch.csv and
prefill_attention_pytorch.csv as PyTorch does: graph_us, sustained_us and joules of each.

A graph has several launches of a kernel, with operands that rotate so that they come from memory. graph_us: the better of two bursts of 2 ms, each
after a rest of 0.2 s, so that the power limit is not felt. sustained_us, joules: means over 0.5 s that follow 0.25 s of the same.
STEPS=gemm,decode,prefill selects; LIMIT: seconds after which no further product begins.
"""
import csv, os, time, torch, torch.nn.functional as F
import pynvml
from torch.nn.attention import sdpa_kernel, SDPBackend
from torch.nn.attention.bias import causal_lower_right
from server_kernels import Decode
pynvml.nvmlInit(); H = pynvml.nvmlDeviceGetHandleByIndex(0)
OUT = os.environ["OUT"]; dev, dt = "cuda", torch.float16; T0 = time.time(); LIMIT = float(os.environ.get("LIMIT", "300"))

def joules(): return pynvml.nvmlDeviceGetTotalEnergyConsumption(H) / 1000

def graph(fns):
    for f in fns[:2]: f()
    torch.cuda.synchronize(); g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for f in fns: f()
    return g

def timed(g, n, count):
    s, z = torch.cuda.Event(True), torch.cuda.Event(True); torch.cuda.synchronize(); s.record()
    for _ in range(count): g.replay()
    z.record(); torch.cuda.synchronize(); return 1000 * s.elapsed_time(z) / (n * count)

class Table:
    def __init__(self, name, columns):
        self.f = open(os.path.join(OUT, name), "w", newline=""); self.w = csv.writer(self.f)
        self.w.writerow((columns + " graph_us sustained_us joules").split())
    def point(self, shape, fns):
        g = graph(fns); c = len(fns); g.replay(); torch.cuda.synchronize(); time.sleep(0.25)
        one = timed(g, c, 1); time.sleep(0.2)
        burst = min(timed(g, c, max(1, int(2000 / (one * c)))) for _ in range(2))
        n = max(3, int(0.5e6 / (burst * c))); timed(g, c, n // 2 + 1); e = joules(); sustained = timed(g, c, n); e = (joules() - e) / (c * n)
        self.w.writerow([*shape, f"{burst:.3f}", f"{sustained:.3f}", f"{e:.6f}"]); self.f.flush()

def gemm():
    t = Table("gemm.csv", "m n k")
    for n, k in ((12288, 4096), (4096, 4096), (22016, 4096), (4096, 11008), (28672, 4096), (55296, 5120), (7168, 5120), (4096, 14336), (27648, 9216),
                 (9216, 9216), (5120, 27648), (32000, 4096), (128256, 4096)):
        rotate = max(2, min(40, int(1.2e9 / (2 * n * k)) + 1)); ws = [torch.empty(n, k, device=dev, dtype=dt).normal_(0, .02) for _ in range(rotate)]
        for m in (1, 16, 64, 128, 256, 512, 2048, 8192):
            if time.time() - T0 > LIMIT: return
            if n > 30000 and m > 256: continue
            few = max(2, min(rotate, int(4000 / (2 * m * n * k / 7e14 * 1e6 + 20))))
            x = torch.randn(m, k, device=dev, dtype=dt); t.point((m, n, k), [(lambda w=w: F.linear(x, w)) for w in ws[:few]])
        del ws

def caches(r, b, hkv, l): return [tuple(torch.empty(b, hkv, l, 128, device=dev, dtype=dt).normal_() for _ in range(2)) for _ in range(r)]

def decode():
    columns = "batch context q_heads kv_heads head_dim"; server, pytorch = Table("decode_attention.csv", columns), Table("decode_attention_pytorch.csv", columns)
    for b, hq, hkv, l in ((1, 32, 8, 512), (1, 32, 8, 8192), (1, 32, 8, 32768), (16, 32, 8, 512), (16, 32, 8, 2048), (16, 32, 8, 8192), (64, 32, 8, 512),
                          (64, 32, 8, 2048), (64, 32, 8, 8192), (256, 32, 8, 512), (256, 32, 8, 2048), (1, 32, 32, 512), (1, 32, 32, 8192), (16, 32, 32, 2048),
                          (16, 32, 32, 8192), (64, 32, 32, 512), (64, 32, 32, 2048), (4, 16, 2, 8192), (64, 16, 2, 4096), (1, 16, 2, 131072)):
        q = torch.randn(b, hq, 1, 128, device=dev, dtype=dt); kv = caches(max(2, min(20, int(3e8 / (b * l * hkv * 512)) + 1)), b, hkv, l)
        split = Decode(b, hq, hkv, l, T=128, warps=4 if hq == hkv else 8)
        server.point((b, l, hq, hkv, 128), [(lambda k=k, v=v: split(q, k, v)) for k, v in kv])
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            pytorch.point((b, l, hq, hkv, 128), [(lambda k=k, v=v: F.scaled_dot_product_attention(q, k, v, enable_gqa=hq != hkv)) for k, v in kv])
        del kv

def prefill():
    columns = "chunk finished q_heads kv_heads head_dim"; server, pytorch = Table("prefill_attention.csv", columns), Table("prefill_attention_pytorch.csv", columns)
    for hq, hkv in ((32, 8), (18, 18)):
        for c, fin in ((128, 0), (128, 4096), (256, 1024), (512, 0), (512, 4096), (1024, 1024), (2048, 0), (8192, 0)):
            q = torch.randn(1, hq, c, 128, device=dev, dtype=dt); kv = caches(4, 1, hkv, c + fin); mask = causal_lower_right(c, c + fin)
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                pytorch.point((c, fin, hq, hkv, 128), [(lambda k=k, v=v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=hq != hkv)) for k, v in kv])
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):  # cuDNN has no mask over finished tokens: without one
                server.point((c, fin, hq, hkv, 128), [(lambda k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=fin == 0, enable_gqa=hq != hkv)) for k, v in kv])

for step in os.environ.get("STEPS", "decode,prefill,gemm").split(","): globals()[step]()
print("done", time.time() - T0)
