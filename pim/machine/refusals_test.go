package machine

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// TestRefusalsByHand: an impossible run is refused, and the error names key and value.
func TestRefusalsByHand(t *testing.T) {
	d, shape := parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}
	g, err := pim.NewGeometry(d, shape)
	if err != nil {
		t.Fatal(err)
	}
	transfer := func(ranks, tokens int, from int64) error {
		_, err := MeasureTransfer(pim.Default(), d, shape, ranks, 64, tokens, from)
		return err
	}
	heads := func(l Load) error {
		_, err := l.heads(&g, d)
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{transfer(0, 1, 0), "tokens = 1: expected at least one token and one rank"}, {transfer(1, 0, 0), "tokens = 0: expected at least one token and one rank"}, {transfer(1, 7, -1), "tokens = 7: expected "},
		{heads(Load{Context: 0, KVHeads: 1, Shape: shape}), "context = 0: expected at least one token and one KV head"}, {heads(Load{Context: 9, KVHeads: 0, Shape: shape}), "context = 9: expected at least one token and one KV head"},
		// 65,536 rows, two for 512 tokens: 32,768 units of a rank.
		{heads(Load{Context: 32768*512 + 1, KVHeads: 1, Shape: shape}), "context = 16777217: expected at most 16777216 tokens: 1 KV heads share the 65536 rows of a rank"},
		{heads(Load{Context: 8192*512 + 1, KVHeads: 4, Shape: shape}), "context = 4194305: expected at most 4194304 tokens: 4 KV heads share the 65536 rows of a rank"},
		{heads(Load{Context: 8192 * 512, KVHeads: 4, Shape: shape}), ""},
	} {
		got := ""
		if c.err != nil {
			got = c.err.Error()
		}
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	for o := range operationNames {
		if Operation(o).String() == "" {
			t.Errorf("operation %d has no name", o)
		}
	}
}
