package configs

import "testing"

// TestKnownFollowsBases: a kind comes from its own fit, its base, or nothing; a base of another GPU counts as scaled by data sheets.
func TestKnownFollowsBases(t *testing.T) {
	for _, c := range []struct {
		fit, kind string
		grade     Grade
		of        string
	}{
		{"h200-sxm.vllm-0.24", "gemm", Measured, "h200-sxm.vllm-0.24"},
		{"h200-sxm.vllm-0.24", "page_sparse", Borrowed, "h200-sxm"},
		{"b200-sxm.vllm-0.24", "page_sparse", DataSheet, "h200-sxm"},
		{"h100-sxm", "page_sparse", Borrowed, "h200-sxm"},
		{"rtx-4090-vllm-0.19", "gemm", Measured, "rtx-4090-vllm-0.19"},
		{"rtx-4090-vllm-0.19", "page_sparse", DataSheet, "h200-sxm"},
		{"h200-sxm.vllm-0.24", "no such kernels", Never, ""},
		{"", "gemm", Never, ""},
	} {
		k, err := known(c.fit, c.kind)
		if err != nil || k.Grade != c.grade || k.Fit != c.of {
			t.Errorf("%s of %q: %+v, %v", c.kind, c.fit, k, err)
		}
	}
	if _, err := known("no-such-fit", "gemm"); err == nil {
		t.Error("an unknown fit is known")
	}
	for fit, want := range map[string]bool{"h200-sxm": true, "h200-sxm.vllm-0.24": true, "h200": false, "b200-sxm.vllm-0.24": false} {
		if ofGPU(fit, "h200-sxm") != want {
			t.Errorf("%s of h200-sxm: %v", fit, !want)
		}
	}
}
