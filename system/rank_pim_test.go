package system

import (
	"context"
	"testing"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestHiddenTransfersTakeTime: rank-pim hides transfers behind computation only as far as there is
// time, and counts the use of links and channels: the vectors of each prompt token and each
// decoding request once a layer.
func TestHiddenTransfersTakeTime(t *testing.T) {
	const requests, input, output = 3, 4000, 5
	trace := &traces.Trace{Requests: equalLengths(requests, input, output)}
	run := func(sets ...string) (*Node, *Result) {
		n := nodeOf(t, append(sets, "run.system=rank-pim")...)
		return n, mustRun(t, n, trace, false)
	}
	n, fast := run()
	m, layers := &n.cfg.Model, float64(n.cfg.Model.Layers)
	prompt, decode := float64(requests*input), float64(requests*(output-1))
	down := prompt*float64(m.KVBytesPerTokenLayer()) + decode*float64(m.QKVBytesPerTokenLayer())
	up := decode * float64(m.AttentionBytesPerTokenLayer())
	end, link, channel := fast.end.Seconds(), float64(n.hw.Links()), float64(n.hw.Channels())
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"down", fast.busy.PCIeDown, layers * down / link / end},
		{"up", fast.busy.PCIeUp, layers * up / link / end},
		// Descriptors and polls add little.
		{"channel", fast.busy.Channel, layers * (down + up) / channel / end},
	} {
		if c.got < c.want*0.999 || c.got > c.want*1.002 {
			t.Errorf("%s is busy for %v of the time, want %v", c.name, c.got, c.want)
		}
	}
	n, slow := run("pcie.efficiency=0.001")
	if _, err := n.Run(context.Background(), trace, Options{Timeline: &Window{To: slow.end}}); err != nil {
		t.Error(err)
	}
	if slow.end <= fast.end || slow.busy.PCIeDown < 0.9 || slow.busy.PCIeDown > 1 {
		t.Errorf("links of a thousandth: %v instead of %v, busy for %v of it", slow.end, fast.end, slow.busy.PCIeDown)
	}
}

// TestRunPaysForTransposition: a run whose CPU transposes elements takes longer.
func TestRunPaysForTransposition(t *testing.T) {
	trace, err := traces.Synthetic("longbench", 20, 1, mustLoad(t).Traces)
	if err != nil {
		t.Fatal(err)
	}
	run := func(sets ...string) units.Duration {
		return mustRun(t, nodeOf(t, append(sets, "comm.async_prefill=false")...), trace, false).end
	}
	if fast, late := run(), run(`pim.relayout="cpu"`); late <= fast {
		t.Errorf("a run with transposition takes %v, without %v", late, fast)
	}
}
