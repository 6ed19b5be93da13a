package configs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// TestMemoryThatFitsExactly: if keys and values are elsewhere, GPUs need exactly the bytes of a replica's weights, in addition to their
// reserve. With keys and values in GPU memory, they also need the activations of the largest iteration and one page. One byte less on each
// GPU is too little.
func TestMemoryThatFitsExactly(t *testing.T) {
	for _, system := range []string{"l3", "gpu-only"} {
		for _, gpus := range []int{1, 4} {
			sets := []string{"run.model=llama-2-7b", "run.system=" + system, fmt.Sprintf("node.gpus=%d", gpus),
				fmt.Sprintf("model.tensor_parallel=%d", gpus), "gpu.memory_reserve=3GiB"}
			c, err := Load(Options{Sets: sets})
			if err != nil {
				t.Fatal(err)
			}
			need := c.Model.WeightBytes()
			if system == "gpu-only" {
				need += c.Model.ActivationBytes(c.Batching.MaxBatchTokens) + units.Bytes(c.Batching.PageTokens)*c.Model.KVBytesPerToken()
			}
			n := units.Bytes(gpus)
			if need%n != 0 {
				t.Fatalf("%s: %d bytes do not divide by %d", system, need, gpus)
			}
			for _, short := range []units.Bytes{0, 1} {
				capacity := need/n + 3*units.GiB - short
				_, err := Load(Options{Sets: append(sets, "gpu.memory_capacity="+capacity.String())})
				if (err == nil) != (short == 0) {
					t.Errorf("%s on %d GPUs, %d bytes short: %v", system, gpus, short, err)
				}
			}
		}
	}
}

// TestNoNegativeRoom: if the reserve exceeds the server's share, the room is 0, not negative.
func TestNoNegativeRoom(t *testing.T) {
	for _, sets := range [][]string{{"run.system=gpu-only", "gpu.memory_share=0.0001"}, {"run.system=l3", "gpu.memory_share=0.0001"}, {"run.system=hbm-pim", "hbm_pim.capacity_share=0.001"}} {
		_, err := Load(Options{Sets: append(sets, "run.model=llama-2-7b")})
		if err == nil || !strings.Contains(err.Error(), "_share = 0.00") || !strings.Contains(err.Error(), "GPUs, which hold 0.0 GiB without gpu.memory_reserve") {
			t.Errorf("%v: %v", sets, err)
		}
	}
}

// TestMemoryShareOfPresets: in fair, servers leave a tenth of any GPU's memory free by default; in other presets they use all.
func TestMemoryShareOfPresets(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want float64
	}{
		{Options{Preset: "fair"}, 0.9}, {Options{Preset: "fair", Sets: []string{"gpu.preset=h200-sxm"}}, 0.9},
		{Options{Preset: "fair", Flags: []Flag{{Key: "gpu.preset", Value: "rtx-a6000"}}, Sets: []string{"run.model=llama-3-8b"}}, 0.9},
		{Options{Preset: "fair", Sets: []string{"gpu.memory_share=1"}}, 1}, {Options{Preset: "paper"}, 1}, {Options{}, 1},
	} {
		if got := mustLoad(t, "", c.o).GPU.MemoryShare; got != c.want {
			t.Errorf("%+v: a share of %v, want %v", c.o, got, c.want)
		}
	}
	for _, bad := range []string{"0", "-0.1", "1.1"} {
		if _, err := Load(Options{Sets: []string{"gpu.memory_share=" + bad}}); err == nil || !strings.Contains(err.Error(), "gpu.memory_share = "+bad+": expected more than 0, at most 1") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestKVFormat: the DIMMs store keys and values in the model's format; FP8 has no scales in rows.
func TestKVFormat(t *testing.T) {
	for _, c := range []struct {
		format            string
		bits, scale, room int
		float             bool
	}{{"fp16", 16, 0, 512, false}, {"fp8", 8, 0, 1024, true}, {"int8", 8, 4, 960, false}, {"int4", 4, 4, 1920, false}} {
		cfg := mustLoad(t, "", Options{Sets: []string{"model.kv_format=" + c.format}})
		h := cfg.HeadShape()
		g, err := pim.NewGeometry(&cfg.DRAM.Spec, h)
		if err != nil || h.KVBits != c.bits || h.ScaleBytes != c.scale || h.KVFloat != c.float || g.RowTokens != c.room {
			t.Errorf("%s: %+v, %d tokens a row, %v", c.format, h, g.RowTokens, err)
		}
	}
	for _, h := range []pim.HeadShape{{KVBits: 16}, {}, {KVBits: 4}, {KVBits: 8, ScaleBytes: 4}, {KVBits: 8, KeyGroup: 128}} {
		h.HeadDim, h.Queries, h.ElementBits, h.KVFloat = 128, 1, 16, true
		if errs := input.Faults(&h); len(errs) != 1 || errs[0].Key != "kv_float" {
			t.Errorf("%+v: %v", h, errs)
		}
	}
	if _, err := load("", Options{Sets: []string{"gpu.narrow_kv.element_time_4bit=1ps"}}); err == nil || !strings.Contains(err.Error(), "gpu.narrow_kv.element_time_int4") {
		t.Errorf("the former name of a time: %v", err)
	}
}
