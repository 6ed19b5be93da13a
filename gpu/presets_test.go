package gpu

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// loadPreset reads a GPU preset of package configs, whose files this package's tests fit and judge.
func loadPreset(t testing.TB, name string) *Spec {
	t.Helper()
	var file struct {
		GPU struct {
			Spec
			Price float64 `toml:"price"` // of the configuration, not of the GPU's kernels
			Fit   string  `toml:"fit"`
		} `toml:"gpu"`
		Fit map[string]any `toml:"fit"` // of the fit's file
	}
	decodePreset(t, "gpus", name, &file)
	decodePreset(t, "fits", file.GPU.Fit, &file)
	if errs := input.Faults(&file.GPU.Spec); len(errs) > 0 {
		t.Fatalf("%s: %v", name, errs[0])
	}
	return &file.GPU.Spec
}

func loadModel(t testing.TB, name string) *llm.Model {
	t.Helper()
	var file struct {
		Model llm.Model `toml:"model"`
	}
	decodePreset(t, "models", name, &file)
	if errs := input.Faults(&file.Model); len(errs) > 0 {
		t.Fatalf("%s: %v", name, errs[0])
	}
	return &file.Model
}

func decodePreset(t testing.TB, kind, name string, file any) {
	t.Helper()
	path := filepath.Join("..", "configs", kind, name+".toml")
	meta, err := toml.DecodeFile(path, file)
	if err != nil {
		t.Fatal(err)
	}
	// [fit] describes the file and sets nothing.
	if unknown := slices.DeleteFunc(meta.Undecoded(), func(k toml.Key) bool { return k[0] == "fit" }); len(unknown) > 0 {
		t.Fatalf("%s: unknown key %v", path, unknown[0])
	}
}

// presetNames returns the names of all presets of a kind.
func presetNames(t testing.TB, kind string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", "configs", kind))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".toml" {
			names = append(names, e.Name()[:len(e.Name())-len(ext)])
		}
	}
	return names
}

func TestPresetsAreValid(t *testing.T) {
	for _, name := range presetNames(t, "gpus") {
		if s := loadPreset(t, name); s.Name != name {
			t.Errorf("%s calls itself %q", name, s.Name)
		}
	}
	for _, name := range presetNames(t, "models") {
		if m := loadModel(t, name); m.Name != name {
			t.Errorf("%s calls itself %q", name, m.Name)
		}
	}
}

// TestUnmeasuredTakeFromMeasured: parameters that are not measured on a GPU equal those of the GPU that its preset names as the source,
// also after a new fit of that GPU.
func TestUnmeasuredTakeFromMeasured(t *testing.T) {
	a100, h200, a6000 := loadPreset(t, "a100-sxm-80gb"), loadPreset(t, "h200-sxm"), loadPreset(t, "rtx-a6000")
	want := *a6000
	want.Extend = a100.Extend
	want.Extend.BlockBandwidth = a6000.Extend.BlockBandwidth
	want.MatMul, want.Prefill, want.Decode, want.Pointwise = a100.MatMul, a100.Prefill, a100.Decode, a100.Pointwise
	part := float64(a6000.MemoryBandwidth) / float64(a100.MemoryBandwidth) * float64(a100.SMs) / float64(a6000.SMs)
	want.Measured = MeasuredSpec{} // none of it was measured
	want.Decode.BlockBandwidth, want.Decode.UnequalBandwidth = a6000.Decode.BlockBandwidth, a6000.Decode.UnequalBandwidth
	if got := float64(a6000.Decode.BlockBandwidth) / float64(a100.Decode.BlockBandwidth); math.Abs(got/part-1) > 1e-3 {
		t.Errorf("rtx-a6000: a lone block reads at %.4f of the A100's rate, an SM's part is %.4f", got, part)
	}
	pcie, nvlink := 31.508, 300.0 // GB/s in one direction: generation 4 on 16 lanes, the A100's links
	follow := func(of, from units.Bandwidth) {
		if got := float64(of) / float64(from); math.Abs(got/(pcie/nvlink)-1) > 2e-3 {
			t.Errorf("rtx-a6000: all-reduces at %v, %.4f of the A100's %v; its links have %.4f", of, got, from, pcie/nvlink)
		}
	}
	own, its := &a6000.Collective, &a100.Collective
	follow(own.SmallBandwidth, its.SmallBandwidth)
	follow(own.SecondShotBandwidth, its.SecondShotBandwidth)
	follow(own.FlaggedBandwidth, its.FlaggedBandwidth)
	follow(own.Bandwidth, its.Bandwidth)
	want.Collective = *its
	want.Collective.SmallLimit, want.Collective.SmallBandwidth, want.Collective.SecondShotBandwidth = own.SmallLimit, own.SmallBandwidth, own.SecondShotBandwidth
	want.Collective.FlaggedBandwidth, want.Collective.Bandwidth = own.FlaggedBandwidth, own.Bandwidth
	if want != *a6000 {
		t.Errorf("rtx-a6000:\ngot  %+v\nwant %+v", *a6000, want)
	}
	// An SM's small kernels scale with its clock, whatever the bandwidth, except for that bound.
	for name, ghz := range map[string]float64{"h100-sxm": 1.98, "a100-sxm-80gb": 1.41, "a100-sxm-40gb": 1.41, "rtx-a6000": 1.8} {
		s := loadPreset(t, name)
		extend := h200.Extend
		extend.BlockBandwidth = s.Extend.BlockBandwidth
		if got, want := float64(s.Extend.BlockBandwidth)/float64(h200.Extend.BlockBandwidth), ghz/1.98; s.Extend != extend || math.Abs(got/want-1) > 1e-3 {
			t.Errorf("%s, extend_attention: %+v, h200-sxm %+v", name, s.Extend, h200.Extend)
		}
		for what, e := range map[string][2]float64{
			"norms": {s.Fused.Norm, h200.Fused.Norm}, "activations": {s.Fused.Activation, h200.Fused.Activation}, "copies": {s.Fused.Copy, h200.Fused.Copy},
		} {
			rate := e[1] * float64(h200.MemoryBandwidth) / float64(s.MemoryBandwidth) * float64(s.SMs) / float64(h200.SMs) * ghz / 1.98
			if want := min(rate, s.Pointwise.Memory); math.Abs(e[0]/want-1) > 2e-3 {
				t.Errorf("%s: %s reach %.3f of the bandwidth, want %.3f", name, what, e[0], want)
			}
		}
		if got, want := float64(s.Fused.RowElement)*ghz, float64(h200.Fused.RowElement)*1.98; math.Abs(got/want-1) > 5e-3 || s.Fused.Overhead != h200.Fused.Overhead {
			t.Errorf("%s: %+v, h200-sxm %+v", name, s.Fused, h200.Fused)
		}
	}
	// Unequal contexts were only measured with the H200's server kernels. A block's rate scales with the source's, but is the same for the
	// same kernels on the same SMs.
	for _, name := range []string{"h200-sxm", "h100-sxm", "a100-sxm-80gb", "a100-sxm-40gb", "rtx-a6000"} {
		for _, d := range []DecodeSpec{loadPreset(t, name).Decode, loadPreset(t, name).PyTorch.Decode} {
			if d.Model == "" {
				continue
			}
			h := &h200.Decode
			want := float64(d.BlockBandwidth) / float64(h.BlockBandwidth)
			if name == "h100-sxm" && d == loadPreset(t, name).Decode {
				want = 1
			}
			if d.UnequalTime != h.UnequalTime || d.UnequalShare != h.UnequalShare || d.Split != SplitFixed && d.UnequalTarget != h.UnequalTarget ||
				math.Abs(float64(d.UnequalBandwidth)/float64(h.UnequalBandwidth)/want-1) > 1e-3 {
				t.Errorf("%s: unequal contexts cost %+v, h200-sxm %+v", name, d, *h)
			}
		}
	}
	if h100 := loadPreset(t, "h100-sxm"); h100.Collective != h200.Collective {
		t.Errorf("h100-sxm, all_reduce:\ngot  %+v\nwant %+v", h100.Collective, h200.Collective)
	}
	for _, name := range []string{"h100-sxm", "a100-sxm-80gb", "a100-sxm-40gb", "a100-paper", "rtx-a6000"} {
		p, shares := loadPreset(t, name).PageSparse, h200.PageSparse
		shares.VectorPeak, shares.BlockBandwidth = p.VectorPeak, p.BlockBandwidth
		clock := float64(p.TopKElement) / float64(shares.TopKElement)
		if got := float64(p.TopKThread) / float64(shares.TopKThread); math.Abs(got/clock-1) > 1e-3 {
			t.Errorf("%s: cycles of top-k take %.3f and %.3f of the H200's", name, clock, got)
		}
		shares.TopKElement, shares.TopKThread = p.TopKElement, p.TopKThread
		if p != shares {
			t.Errorf("%s, page_sparse:\ngot  %+v\nwant %+v", name, p, shares)
		}
	}
}
