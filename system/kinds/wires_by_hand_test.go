package kinds

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// TestPeaksByHand: the peak rate at which each system can read keys and values. Two replicas of two GPUs have half of the node's channels each.
func TestPeaksByHand(t *testing.T) {
	for sets, want := range map[string]func(gpus, host, ranks, channel float64) float64{
		"gpu-only":                           func(gpus, _, _, _ float64) float64 { return gpus },
		"hbm-pim hbm_pim.bandwidth_factor=9": func(gpus, _, _, _ float64) float64 { return 9 * gpus },
		"rank-pim":                           func(_, _, _, channel float64) float64 { return 4 * channel },
		"l3":                                 func(_, _, ranks, _ float64) float64 { return ranks },
		"l3 memory.spare=decode":             func(gpus, _, ranks, _ float64) float64 { return gpus + ranks },
		"cpu-offload":                        func(gpus, host, _, _ float64) float64 { return gpus + host },
		"gpu+cpu":                            func(_, host, _, _ float64) float64 { return host },
		"gpu+cpu policy.name=hgca":           func(gpus, host, _, _ float64) float64 { return gpus + host },
	} {
		n := rigOf(t, append(strings.Fields("run.system="+sets), "run.model=llama-2-7b", "node.gpus=4", "model.tensor_parallel=2", "node.ranksets=4")...)
		s := &n.cfg.DRAM.Spec
		channels := float64(n.cfg.Node.Channels / 2)
		bank := float64(s.BurstBytes()) / (float64(s.TCCDL) * s.TCK.Seconds())
		peak := want(2*float64(n.cfg.GPU.MemoryBandwidth), channels*float64(s.Bandwidth()), channels*4*float64(s.Banks())*bank, channels*float64(s.Bandwidth()))
		if got := float64(n.loop(nil, nil).Engine.Peak()); math.Abs(got/peak-1) > 1e-12 || peak <= 0 {
			t.Errorf("%s: %g B/s, by hand %g", sets, got, peak)
		}
	}
}

// TestL3WiresByHand: the properties of ranksets, links and GPUs of L3 that follow from the
// configuration.
func TestL3WiresByHand(t *testing.T) {
	for _, sets := range []string{"", "scheduler.sub_batches=1 comm.rotation=false comm.balance=least-loaded", "pim.mc_buffer=64KiB comm.async_prefill=false", "comm.concurrent=false", "policy.name=quest node.ranksets=2", "pim.transfer_boundary=row node.gpus=16"} {
		n := rigOf(t, append(strings.Fields(sets), "run.model=llama-3-8b")...)
		e, cfg := n.l3(), n.cfg
		s, c := &cfg.DRAM.Spec, &e.costs
		tCK := s.TCK
		d := e.ranks
		has := func(set string) bool { return strings.Contains(sets, set) }
		subs := 2
		if has("sub_batches=1") {
			subs = 1
		}
		if c.latency != cfg.PCIe.Latency || c.upLatency != d.UpLatency || c.vacate != units.Duration(s.TRP)*tCK || c.reactivate != units.Duration(cfg.PIM.ActivationClocks(s)+int64(s.TRCD))*tCK || c.headsEach != d.HeadsEach() ||
			c.step != ranks.BoundaryStep(n.CommandTables.Kernels.Table, cfg.PIM.TransferBoundary, s.Banks()) || c.rotate == has("rotation=false") || c.concurrent == has("concurrent=false") || c.asyncPrefill == has("async_prefill=false") ||
			c.buffered != has("mc_buffer") || c.halfDuplex != d.HalfDuplex() || len(c.sub) != subs || len(c.groups) != subs*cfg.Node.Ranksets || len(c.order) != len(d.Attends.Runs) {
			t.Errorf("%s: %+v", sets, c)
		}
		for r, layers := range d.Attends.Runs {
			run := c.order[r]
			if of := c.of(int(run.Kind)); int(run.Count) != layers || len(of) != subs || len(of[subs-1].groups) != cfg.Node.Ranksets || d.Attends.Kinds[run.Kind] != d.Attends.Alike[r] {
				t.Errorf("%s: run %d is %+v, want %d layers", sets, r, run, layers)
			}
		}
		if e.join != n.Hardware.Join() || e.joinWatts != float64(cfg.Model.TensorParallel)*cfg.GPU.Power.ActiveIdle {
			t.Errorf("%s: %v and %v W", sets, e.join, e.joinWatts)
		}
		for _, half := range []bool{true, false} {
			c.halfDuplex = half
			r := c.resources(3)
			writes := onLinkDown
			if c.buffered {
				writes = onWriter
			}
			for i := range r {
				twin := 0
				switch {
				case half && i == writes:
					twin = onLinkUp + 1
				case half && i == onLinkUp:
					twin = writes + 1
				}
				if int(r[i].Twin) != twin {
					t.Errorf("%s: %s serves with %d, by hand %d", sets, r[i].Name, r[i].Twin, twin)
				}
			}
			if x := r[onRanksets]; x.Count != 3 || x.Rotates != c.rotate || x.Vacate != c.vacate || x.Reactivate != c.reactivate || x.Boundaries.Each != int64(c.headsEach) || x.Boundaries.Step != c.step || r[onLinkDown].Latency != c.latency || r[onLinkUp].Latency != c.upLatency {
				t.Errorf("%s: %+v", sets, r)
			}
		}
	}
	// A boundary of chunks; and with two sub-batches, links lose the rate that kernels take.
	for set, subs := range map[string]float64{"scheduler.sub_batches=2": 1, "scheduler.sub_batches=1": 0} {
		n := rigOf(t, set, "run.model=llama-2-7b", "pcie.kernel_share=0.25", "pim.transfer_boundary="+pim.BoundaryChunk)
		down := n.l3().ranks.Traffic(40).Down.Held()
		n.cfg.PCIe.KernelShare = 0
		whole := n.l3().ranks.Traffic(40).Down.Held()
		if got, want := down.Seconds()/whole.Seconds(), 1/(1-0.25*subs); math.Abs(got-want) > 0.02 {
			t.Errorf("%s: transfers take %.3f times as long beside kernels, by hand %.3f", set, got, want)
		}
	}
}

// TestUnitsOfHBMByHand: how AttAcc's options change the units.
func TestUnitsOfHBMByHand(t *testing.T) {
	for _, c := range []struct {
		sets       string
		reads, own int // of keys and values, for four query heads of each KV head
		groups     int // ranksets of the memory
		former     int
	}{
		{"", 4, 4, 1, 2}, {"hbm_pim.queries_per_read=4", 1, 4, 1, 2}, {"hbm_pim.queries_per_read=3", 2, 4, 1, 2}, {"hbm_pim.queries_per_read=8 serving.verified_tokens=4 serving.acceptance=0.5", 2, 4, 1, 2},
		{"serving.verified_tokens=3 serving.acceptance=0.5", 12, 12, 1, 2}, {"hbm_pim.placement=channel hbm_pim.stacks=2", 4, 4, 32, 2}, {"hbm_pim.sub_batches=never", 4, 4, 1, 1},
	} {
		n := rigOf(t, append(strings.Fields(c.sets), "run.system=hbm-pim", "run.model=llama-3-8b")...)
		l := n.loop(nil, nil)
		e := l.Engine.(*hbmPIM)
		if e.reads != float64(c.reads) || e.own != c.own || l.Batcher.Ledger.Ranksets() != c.groups || len(l.Batcher.Batch.Sub) != c.former || len(e.loads) != len(e.seconds) || len(e.loads) > 0 && len(e.loads) != c.groups {
			t.Errorf("%s: %v and %d readings, %d places, %d sub-batches", c.sets, e.reads, e.own, l.Batcher.Ledger.Ranksets(), len(l.Batcher.Batch.Sub))
		}
	}
}

// TestTokensByHand: a device beside the GPUs reads the contexts of its requests once for each KV head and layer, or once for each query head.
func TestTokensByHand(t *testing.T) {
	for sets, readings := range map[string]int64{"cpu-offload": 1, "gpu+cpu": 1, "hbm-pim": 4, "hbm-pim hbm_pim.queries_per_read=4": 1, "gpu-only": 0} {
		e := rigOf(t, append(strings.Fields("run.system="+sets), "run.model=llama-3-8b")...).loop(nil, nil).Engine
		requests := []scheduler.Decoding{{Request: 0, Base: 1000, Prompt: 900}, {Request: 1, Base: 300, Prompt: 300}}
		b := &scheduler.Batch{Step: 2, Sub: []scheduler.SubBatch{{Decode: requests}}}
		if sets == "cpu-offload" {
			b.Sub[0] = scheduler.SubBatch{Host: requests, Decode: []scheduler.Decoding{{Request: 2, Base: 5000, Prompt: 4000}}}
		}
		for times := range int64(2) {
			if _, err := e.Run(b, 0); err != nil {
				t.Fatal(err)
			}
			if got, want := e.Core().Work.Tokens, (times+1)*readings*32*8*(1002+302); got != want {
				t.Errorf("%s: reads %d tokens of heads, by hand %d", sets, got, want)
			}
		}
	}
}
