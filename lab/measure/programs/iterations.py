"""Measure whole iterations of transformer models on one GPU, or on several under tensor parallelism
(torchrun --nproc-per-node=N). Weights are random; shapes are those of the models. Writes $OUT/iterations_[server_]tpN.csv:
model, tp, kind, batch, context, chunk, finished, ms, joules (all GPUs; empty where the counter is not readable).

decode: `batch` requests with `context` keys each make one token. prefill: one prompt piece of `chunk` tokens after
`finished`. mixed: both in one batch. Each iteration is one CUDA graph, all-reduces included; times are medians.

MODELS=llama-3-8b:80,opt-13b:40   models, and GB of memory for the KV cache of each
SUITE=server                      split decode attention, cuDNN where nothing is finished; else PyTorch's FlashAttention-2
KINDS=decode,prefill,mixed        kinds to measure (all)
LIMIT=500                         seconds after which no further point begins
PROFILE=1                         prints the kernels of eight iterations instead of writing files for many
"""
import csv, os, sys, time, torch
import torch.nn.functional as F
import torch.distributed as dist
from torch.nn.attention import sdpa_kernel, SDPBackend
from torch.nn.attention.bias import causal_lower_right

OUT = os.environ["OUT"]; LIMIT = float(os.environ.get("LIMIT", "500")); T0 = time.time()
rank, tp = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.cuda.set_device(rank); dev, dt = f"cuda:{rank}", torch.float16
if tp > 1: dist.init_process_group("nccl", device_id=torch.device(dev))
torch.manual_seed(rank)

def say(*a):
    if rank == 0: print(f"[{time.time()-T0:6.1f}s]", *a, flush=True)

try:
    import pynvml; pynvml.nvmlInit(); H = pynvml.nvmlDeviceGetHandleByIndex(rank); pynvml.nvmlDeviceGetTotalEnergyConsumption(H)
    def joules(): return pynvml.nvmlDeviceGetTotalEnergyConsumption(H) / 1000
except Exception as e:
    say("no energy counter:", e)
    def joules(): return float("nan")

MODELS = {  # layers, width, q heads, kv heads, head dim, feed-forward, gated, vocabulary
    "llama-2-7b": (32, 4096, 32, 32, 128, 11008, True, 32000),
    "llama-3-8b": (32, 4096, 32, 8, 128, 14336, True, 128256),
    "opt-30b": (48, 7168, 56, 56, 128, 28672, False, 50272),
    "llama-3-70b": (80, 8192, 64, 8, 128, 28672, True, 128256),
    "llama-2-13b": (40, 5120, 40, 40, 128, 13824, True, 32000),
    "qwen2.5-32b": (64, 5120, 40, 8, 128, 27648, True, 152064),
    "opt-13b": (40, 5120, 40, 40, 128, 20480, False, 50272),
    "opt-66b": (64, 9216, 72, 72, 128, 36864, False, 50272),
    "gpt-175b": (96, 12288, 96, 96, 128, 49152, False, 50257),
}

@torch.compile(dynamic=True)
def norm_add(x, r, w):
    r = r + x; f = r.float()
    return r, (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).half() * w
@torch.compile(dynamic=True)
def swiglu(x):
    a, b = x.chunk(2, -1); return F.silu(a) * b
@torch.compile(dynamic=True)
def gelu(x): return F.gelu(x)
torch._dynamo.config.cache_size_limit = 512
torch._dynamo.config.recompile_limit = 512

SERVER = os.environ.get("SUITE") == "server"  # split decode attention, cuDNN prefill where nothing is finished
if SERVER: from server_kernels import Decode

class Model:
    def __init__(self, name, kv_gb):
        self.L, d, hq, hkv, self.hd, ff, self.gated, vocab = MODELS[name]
        self.hq, self.hkv, self.d = hq // tp, hkv // tp, d
        def w(n, k): return torch.empty(n, k, device=dev, dtype=dt).normal_(0, 0.02)
        self.layers = [(w((self.hq + 2 * self.hkv) * self.hd, d), w(d, self.hq * self.hd), w(ff // tp * (2 if self.gated else 1), d), w(d, ff // tp)) for _ in range(self.L)]
        self.head = w(-(-vocab // tp), d); self.nw = torch.ones(d, device=dev, dtype=dt)
        self.pool = torch.empty(int(kv_gb * 1e9 / 2), device=dev, dtype=dt)
        for c in self.pool.split(1 << 28): c.normal_()
    def reduce(self, x):
        if tp > 1: dist.all_reduce(x)
        return x
    def views(self, b, l, base=0):
        n = b * self.hkv * l * self.hd; v = []
        for i in range(2 * self.L): v.append(self.pool[base + i * n: base + (i + 1) * n].view(b, self.hkv, l, self.hd))
        return v, base + 2 * self.L * n
    def fits(self, b, l, c=0): return 2 * self.L * self.hkv * self.hd * (b * l + c) <= self.pool.numel()
    def step(self, b, ctx, chunk, fin):
        m = b + chunk; base = 0
        if b: kv, base = self.views(b, ctx)
        if chunk: pk, base = self.views(1, fin + chunk, base)
        x = torch.randn(m, self.d, device=dev, dtype=dt); mask = causal_lower_right(chunk, chunk + fin) if chunk else None
        gqa = self.hq != self.hkv; q0, k0 = self.hq * self.hd, self.hkv * self.hd
        dec = Decode(b, self.hq, self.hkv, ctx, T=128, warps=4 if self.hq == self.hkv else 8, dev=dev) if SERVER and b else None
        def run():
            r, h = norm_add(x, x, self.nw)
            for i, (wqkv, wo, w1, w2) in enumerate(self.layers):
                qkv = F.linear(h, wqkv); outs = []
                if b:
                    q = qkv[:b, :q0].view(b, self.hq, 1, self.hd)
                    k, v = kv[2 * i], kv[2 * i + 1]
                    k[:, :, ctx - 1] = qkv[:b, q0:q0 + k0].view(b, self.hkv, self.hd); v[:, :, ctx - 1] = qkv[:b, q0 + k0:].view(b, self.hkv, self.hd)
                    outs.append((dec(q, k, v) if dec else F.scaled_dot_product_attention(q, k, v, enable_gqa=gqa)).reshape(b, q0))
                if chunk:
                    q = qkv[b:, :q0].view(1, chunk, self.hq, self.hd).transpose(1, 2)
                    k, v = pk[2 * i], pk[2 * i + 1]
                    k[:, :, fin:] = qkv[b:, q0:q0 + k0].view(1, chunk, self.hkv, self.hd).transpose(1, 2)
                    v[:, :, fin:] = qkv[b:, q0 + k0:].view(1, chunk, self.hkv, self.hd).transpose(1, 2)
                    if SERVER and fin == 0:
                        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION): y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa)
                    else: y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=gqa)
                    outs.append(y.transpose(1, 2).reshape(chunk, q0))
                a = outs[0] if len(outs) == 1 else torch.cat(outs)
                r, h = norm_add(self.reduce(F.linear(a, wo)), r, self.nw)
                f = F.linear(h, w1); f = swiglu(f) if self.gated else gelu(f)
                r, h = norm_add(self.reduce(F.linear(f, w2)), r, self.nw)
            return F.linear(h[: b + (1 if chunk else 0)], self.head).argmax(-1)
        return run
    def time(self, b, ctx, chunk, fin):
        run = self.step(b, ctx, chunk, fin)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch.no_grad():
            s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(s):
                for _ in range(2): run()
            torch.cuda.current_stream().wait_stream(s); torch.cuda.synchronize()
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g): run()
        for _ in range(2): g.replay()
        torch.cuda.synchronize(); t = time.time(); g.replay(); torch.cuda.synchronize(); one = time.time() - t
        n = torch.tensor([max(3, int(0.15 / one))], device=dev)
        if tp > 1: dist.broadcast(n, 0)
        n = int(n); ts = []; torch.cuda.synchronize(); j0 = joules()
        for _ in range(5):
            a, z = torch.cuda.Event(True), torch.cuda.Event(True); a.record()
            for _ in range(n): g.replay()
            z.record(); torch.cuda.synchronize(); ts.append(a.elapsed_time(z) / n)
        e = torch.tensor([(joules() - j0) / (5 * n)], device=dev, dtype=torch.float64)
        if tp > 1: dist.all_reduce(e)
        if os.environ.get("PROFILE"): profiled(g, f"{b} {ctx} {chunk} {fin}: {sorted(ts)[2]:.4f} ms")
        del g
        return sorted(ts)[2], float(e)

def profiled(g, name):
    """Print count, mean time and mean gap before it of each kernel of a graph."""
    from torch.profiler import profile, ProfilerActivity
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for _ in range(3): g.replay()
        torch.cuda.synchronize()
    kernels, gaps, last = {}, 0.0, None
    for x in sorted((x for x in prof.events() if x.device_type == torch.autograd.DeviceType.CUDA), key=lambda x: x.time_range.start):
        k = kernels.setdefault(x.name[:90], [0, 0.0, 0.0]); k[0] += 1; k[1] += x.time_range.end - x.time_range.start
        gap = 0 if last is None else x.time_range.start - last
        if 0 <= gap < 20: k[2] += gap; gaps += gap
        last = x.time_range.end
    print("PROFILE", name, "kernels", sum(k[0] for k in kernels.values()) / 3, "gaps us", gaps / 3)
    for name, (n, time, gap) in sorted(kernels.items(), key=lambda kv: -kv[1][1]):
        print(f"   {n // 3:6d} x {time / n:8.2f} us, gap before {gap / n:.2f}  {name}")

def main():
    f = open(os.path.join(OUT, f"iterations_{'server_' if SERVER else ''}tp{tp}.csv"), "w", newline="") if rank == 0 else None
    w = csv.writer(f) if f else None
    if w: w.writerow("model tp kind batch context chunk finished ms joules".split())
    for spec in os.environ["MODELS"].split(","):
        name, kv = spec.split(":"); m = Model(name, float(kv)); say(name, "loaded")
        pts = [("decode", b, c, 0, 0) for b in (1, 2, 4, 8, 16, 32, 64, 128, 256) for c in (512, 2048, 8192, 32768) if b not in (2, 8) or c == 2048]
        pts += [("prefill", 0, 0, c, p) for c in (128, 512, 2048, 8192) for p in (0, 4096, 16384)]
        pts += [("mixed", b, c, k, 1024) for b in (8, 64) for c in (1024, 4096) for k in (256, 1024)]
        want = os.environ.get("KINDS", "decode,prefill,mixed").split(",")
        if os.environ.get("PROFILE"): pts = [("decode", 1, 512, 0, 0), ("decode", 64, 2048, 0, 0), ("decode", 256, 512, 0, 0), ("prefill", 0, 0, 128, 0), ("prefill", 0, 0, 512, 4096), ("prefill", 0, 0, 2048, 0), ("prefill", 0, 0, 8192, 0), ("mixed", 8, 1024, 256, 1024)]
        for kind, b, c, k, p in pts:
            if kind not in want: continue
            stop = torch.tensor([time.time() - T0 > LIMIT], device=dev, dtype=torch.int32)
            if tp > 1: dist.broadcast(stop, 0)
            if int(stop): say("out of time"); break
            if not m.fits(b, c, k + p): continue
            try: ms, j = m.time(b, c, k, p)
            except torch.OutOfMemoryError as e: say("OOM", kind, b, c, k, p); torch.cuda.empty_cache(); continue
            if w: w.writerow([name, tp, kind, b, c, k, p, f"{ms:.4f}", "" if j != j else f"{j:.4f}"]); f.flush()
        say(name, "done"); del m; torch.cuda.empty_cache()
    if tp > 1: dist.barrier(); dist.destroy_process_group()
main()
