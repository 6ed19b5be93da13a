package lm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestLatentDimsLimits: each dimension is accepted at its limits and refused one step beyond; all experts may be chosen, but no more.
func TestLatentDimsLimits(t *testing.T) {
	deep.Heavy(t)
	file, err := attention.OpenSafetensors(latentOther)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key           string
		least, most   int
		step          int // to the next number beyond a limit
		field         func(*latentDims) int
		small, larger string // what is said of a number beyond the limits, "" for the range
	}{
		{"vocab", 2, maxContext, 1, func(d *latentDims) int { return d.vocab }, "", ""},
		{"hidden", 1, maxWidth, 1, func(d *latentDims) int { return d.width }, "", ""},
		{"layers", 1, maxLayers, 1, func(d *latentDims) int { return d.layers }, "", ""},
		{"heads", 1, maxLayers, 1, func(d *latentDims) int { return d.heads }, "", ""},
		{"q_lora", 1, maxWidth, 1, func(d *latentDims) int { return d.rank }, "", ""},
		{"kv_lora", 1, maxWidth, 1, func(d *latentDims) int { return d.latent }, "", ""},
		{"nope", 1, maxWidth, 1, func(d *latentDims) int { return d.nope }, "", ""},
		{"rope", 0, 16, 2, func(d *latentDims) int { return d.rope }, "", "at least rope = 18"}, // keys of the indexer have 16 elements
		{"v", 1, maxWidth, 1, func(d *latentDims) int { return d.value }, "", ""},
		{"T", 2, maxContext, 1, func(d *latentDims) int { return d.context }, "", ""},
		{"index_heads", 1, maxLayers, 1, func(d *latentDims) int { return d.indexHeads }, "", ""},
		{"index_dim", 8, maxWidth, 1, func(d *latentDims) int { return d.indexDim }, "at least rope = 8", ""},
		{"topk", 1, maxContext, 1, func(d *latentDims) int { return d.topK }, "", ""},
		{"dense_width", 1, maxWidth, 1, func(d *latentDims) int { return d.dense }, "", ""},
		{"experts", 3, maxWidth, 1, func(d *latentDims) int { return d.experts }, "at most experts = 2", ""},
		{"chosen", 1, 5, 1, func(d *latentDims) int { return d.chosen }, "", "at most experts = 5"},
		{"shared", 0, maxLayers, 1, func(d *latentDims) int { return d.shared }, "", ""},
		{"width", 1, maxWidth, 1, func(d *latentDims) int { return d.expertWidth }, "", ""},
	} {
		read := func(n int) (*latentDims, error) {
			metadata := map[string]string{}
			for _, key := range latentKeys {
				metadata[key] = file.Metadata(key)
			}
			metadata[c.key] = strconv.Itoa(n)
			var data bytes.Buffer
			if err := attention.WriteSafetensors(&data, file.Tensors, metadata); err != nil {
				t.Fatal(err)
			}
			changed, err := attention.ParseSafetensors(data.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			return readLatentDims(changed)
		}
		for _, n := range []int{c.least, c.most} {
			if d, err := read(n); err != nil || c.field(d) != n {
				t.Errorf("%s = %d: %v", c.key, n, err)
			}
		}
		for n, what := range map[int]string{c.least - c.step: c.small, c.most + c.step: c.larger} {
			if what == "" {
				what = fmt.Sprintf(`__metadata__.%s = "%d": expected "`, c.key, n)
			}
			if _, err := read(n); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s = %d: %v, want %s", c.key, n, err, what)
			}
		}
	}
}

// latentKeys are the metadata of a model with latent attention.
var latentKeys = strings.Fields("vocab hidden layers heads q_lora kv_lora nope rope v index_heads index_dim topk dense_width experts chosen shared width scale base eps T")
