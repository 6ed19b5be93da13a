package kinds

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// TestHostWorkAddsUp: the CPUs attend and rank one after the other, in every policy with work of both kinds.
func TestHostWorkAddsUp(t *testing.T) {
	requests := []scheduler.Decoding{{Base: 8001, Prompt: 8000}, {Base: 5001, Prompt: 4000}}
	most := 0
	for _, name := range []string{"dense", "h2o", "hgca", "csattention policy.csattention.mode=host"} {
		e := gpuCPUOf(t, append(strings.Fields("policy.name="+name), "cpu_offload.element_time=10ns")...)
		x, parts, want := e.Policy.Decode([]policy.Request{{Prompt: 8000, Context: 8001}, {Prompt: 4000, Context: 5001}}, 0), 0, units.Duration(0)
		for i := range x.Attend {
			if c := &x.Attend[i]; c.Device == policy.Home {
				parts, want = parts+1, want+e.AttendClass(c)
			}
		}
		for i := range x.Passes {
			if p := &x.Passes[i]; p.Device == policy.Home {
				parts, want = parts+1, want+e.Pass(p)
			}
		}
		var h hostWork
		e.Decoding = make([]gpus.Decoding, len(e.Runs))
		if e.decodes(&h, requests, 0, 0); h.took != want {
			t.Errorf("%s: the CPUs take %v, %d parts by hand %v", name, h.took, parts, want)
		}
		most = max(most, parts)
	}
	if most < 2 {
		t.Error("no policy has work of both kinds")
	}
}

// TestWeightsOfUnits: a step of one token has the units multiply their columns of all layers, two matrices of 12,288 elements a column of
// two bytes, or half a byte: the GPUs do not read them. Eight GPUs have a part each.
func TestWeightsOfUnits(t *testing.T) {
	for bits, bytes := range map[int]float64{16: 2, 8: 1} {
		e := rigOf(t, "run.system=hbm-pim", "run.model=gpt-175b", "gpu.preset=a100-paper", "hbm_pim.feed_forward=0.25", fmt.Sprint("model.weight_bits=", bits)).hbm()
		columns, _ := e.Helps(1)
		read, _ := e.helped(1)
		weights := float64(96*e.Model.TensorParallel*columns) * 2 * 12288
		if want := weights * bytes; columns == 0 || math.Abs(e.NotRead/want-1) > 1e-12 {
			t.Errorf("%d bits: the GPUs leave out %v B, by hand %v", bits, e.NotRead, want)
		}
		// The units read that once for the token, which is as much as so many tokens of a KV head have: 2·128 elements of two bytes.
		if want := weights * e.reading.element / 512; math.Abs(float64(read)/want-1) > 1e-6 {
			t.Errorf("%d bits: the units read as %d tokens, by hand %v", bits, read, want)
		}
		if read, did := e.helped(1 << 20); read != 0 || did != (hbm.Tally{}) {
			if columns, _ := e.Helps(1 << 20); columns == 0 {
				t.Errorf("of nothing the units read %d tokens", read)
			}
		}
	}
}

// TestHostHasATokenOfEach: keys and values of one token of a replica take 2·96·12,288 elements of two bytes, 4.5 MiB.
func TestHostHasATokenOfEach(t *testing.T) {
	const token = 2 * 96 * 12288 * 2
	for replicas := 1; replicas <= 2; replicas++ {
		for _, more := range []int{0, -1} {
			bytes := replicas*token + more
			_, err := Loader().Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "run.model=gpt-175b", "node.gpus=" + fmt.Sprint(8*replicas), "cpu_offload.host_memory_share=1",
				fmt.Sprintf("node.memory_capacity=%dB", bytes)}})
			refused := err != nil && strings.Contains(err.Error(), "those of a token on each replica take")
			if refused != (more < 0) {
				t.Errorf("%d B for %d replicas: %v", bytes, replicas, err)
			}
		}
	}
}
