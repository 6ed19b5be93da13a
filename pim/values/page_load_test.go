package values

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/tables"
)

// TestLimitsOfPageLoads: each number out of its bounds is refused with its key and bounds; the bounds themselves are accepted.
func TestLimitsOfPageLoads(t *testing.T) {
	g, err := pim.NewGeometry(parts.DDR4(t), halfHead)
	if err != nil {
		t.Fatal(err)
	}
	good := PageLoad{Context: 4096, Shape: halfHead, Page: 64, Budget: 1024, Logical: 16, Reuse: 4, Select: tables.SelectBank, Local: 0.5}
	for _, c := range []struct {
		want   string
		change func(l *PageLoad)
	}{
		{"", func(*PageLoad) {}},
		{"", func(l *PageLoad) {
			l.Context, l.Budget, l.Reuse, l.TopK, l.Local, l.Logical = 1<<22, 1<<22, 1<<16, 1<<12, 1, 64
		}},
		{"", func(l *PageLoad) { l.Context, l.Budget, l.Reuse, l.Local, l.Logical, l.Page = 1, 16, 1, 0, 1, 16 }},
		{"", func(l *PageLoad) { l.Page, l.Budget = 1<<16, 1<<16 }},
		{"context = 0: expected 1 to 4194304 tokens", func(l *PageLoad) { l.Context = 0 }},
		{"context = 4194305: ", func(l *PageLoad) { l.Context = 1<<22 + 1 }},
		{"page = 8: expected a multiple of 16 tokens, which the banks score at once, up to 65536", func(l *PageLoad) { l.Page = 8 }},
		{"page = 24: expected a multiple of 16 tokens", func(l *PageLoad) { l.Page = 24 }},
		{"page = 131072: expected a multiple of 16 tokens", func(l *PageLoad) { l.Page, l.Budget = 1<<17, 1<<17 }},
		{"page = 48: expected a divisor or a multiple of 512, the tokens of a row", func(l *PageLoad) { l.Page = 48 }},
		{"page = 768: expected a divisor or a multiple of 512", func(l *PageLoad) { l.Page = 768 }},
		{"budget = 63: expected at least the page of 64 tokens, up to 4194304", func(l *PageLoad) { l.Budget = 63 }},
		{"budget = 4194305: ", func(l *PageLoad) { l.Budget = 1<<22 + 1 }},
		{"logical_page = 0: expected a divisor of the page of 64 tokens", func(l *PageLoad) { l.Logical = 0 }},
		{"logical_page = 24: expected a divisor", func(l *PageLoad) { l.Logical = 24 }},
		{"reuse = 0: expected 1 to 65536 steps", func(l *PageLoad) { l.Reuse = 0 }},
		{"reuse = 65537: ", func(l *PageLoad) { l.Reuse = 1<<16 + 1 }},
		{"top_k_latency = -1: expected 0 to 4096 clocks", func(l *PageLoad) { l.TopK = -1 }},
		{"top_k_latency = 4097: ", func(l *PageLoad) { l.TopK = 1<<12 + 1 }},
		{"local = 1.5: expected 0 to 1", func(l *PageLoad) { l.Local = 1.5 }},
		{"local = -0.5: expected 0 to 1", func(l *PageLoad) { l.Local = -0.5 }},
		{`select = "bnk": expected one of `, func(l *PageLoad) { l.Select = "bnk" }},
	} {
		l := good
		c.change(&l)
		got := ""
		if err := l.check(&g); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %s, want %s", l, got, c.want)
		}
	}
	l := good
	l.Context, l.Logical = 1<<22, 1 // a buffer of 131,072 scores
	if _, err := MeasurePages(pim.Default(), parts.DDR4(t), l); err == nil || !strings.HasPrefix(err.Error(), "context = 4194304: expected at most ") || !strings.HasSuffix(err.Error(), " tokens, the bounds of whose pages the score buffer holds") {
		t.Errorf("more bounds than the buffer holds: %v", err)
	}
}
