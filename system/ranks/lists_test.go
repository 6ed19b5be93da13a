package ranks

import (
	"math"
	"math/bits"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/pim/values"
)

// TestListsAreTimedAsOneHead: the tables' time for the rows and bounds that a head's program touches equals
// the program's, for pages of every size, with grouped queries, and with scores by the rank's unit.
func TestListsAreTimedAsOneHead(t *testing.T) {
	deep.Only(t)
	for _, model := range []string{"gpt-175b", "llama-3-8b"} {
		for _, by := range []string{tables.SelectBank, tables.SelectRank} {
			n := benchOf(t, "run.model="+model, "policy.name=lserve", "policy.lserve.select_device="+by)
			for page := 16; page <= 1024; page *= 2 {
				l := values.PageLoad{Context: 20_000 + page, Shape: n.cfg.HeadShape(), Budget: 4096, Page: page, Logical: 16, Reuse: 1, Select: by, TopK: 64, Seed: 7, Local: 0.98}
				m, err := values.MeasurePages(&n.cfg.PIM, &n.cfg.DRAM.Spec, l)
				if err != nil {
					t.Fatal(err)
				}
				if got := n.kernels.Table.Attention(m.Tokens) + n.kernels.Table.Scattered(m.Tokens, m.Rows); got != m.AttentionClocks || n.kernels.bounds.Select(m.Bounds) != m.SelectClocks {
					t.Errorf("%s, pages of %d: %d clocks and %d to choose, of one head %d and %d", model, page, got, n.kernels.bounds.Select(m.Bounds), m.AttentionClocks, m.SelectClocks)
				}
			}
		}
	}
}

// TestRowsOfLists: the mean number of rows over all choices of pages, and of pages that two heads choose,
// counted by enumeration.
func TestRowsOfLists(t *testing.T) {
	for _, l := range []listOf{{128, 9, 3, 1}, {64, 17, 2, 1}, {128, 13, 5, 1}, {32, 17, 4, 1}, {128, 9, 9, 1}, {128, 9, 1, 1}, {256, 11, 4, 1}, {128, 9, 3, 2}, {64, 9, 4, 2}} {
		others, each := l.pages-1, 512/l.page
		rows := func(set uint) (n int) {
			for ; set != 0; set >>= each {
				n += min(1, bits.OnesCount(set&(1<<each-1)))
			}
			return n
		}
		var sets []uint
		for set := range uint(1) << others {
			if bits.OnesCount(set) == l.chosen-1 {
				sets = append(sets, set)
			}
		}
		pages, touched, n := 0, 0, 0
		for _, a := range sets {
			for _, b := range sets {
				if l.group == 1 && a != b {
					continue
				}
				pages, touched, n = pages+bits.OnesCount(a|b), touched+rows(a|b), n+1
			}
		}
		got := l.scatter(512)
		if want := 1 + int(math.Ceil(float64(pages)/float64(n)-1e-9)); got.pages != want {
			t.Errorf("%+v: %d pages, want %d", l, got.pages, want)
		}
		if want := 1 + int(math.Ceil(float64(touched)/float64(n)-1e-9)); l.group == 1 && got.rows != want || got.rows < want {
			t.Errorf("%+v: %d rows, want %d", l, got.rows, want)
		}
	}
}

// TestQuadTokens: rows of lists in quads by hand, with 100 of 128 tokens in the newest page: four pages a row;
// alone in the last row, its quad scores 4 tokens where a row scores 16.
func TestQuadTokens(t *testing.T) {
	d := devicesOf(benchOf(t, "policy.name=lserve", "policy.lserve.page=128", "policy.lserve.layout=quad"))
	for _, c := range []struct{ context, tokens, reads, rows, last int }{
		{8*128 - 28, 4*128 - 28, 512, 1, 512}, {8*128 - 28, 5*128 - 28, 512 + 400, 2, 400}, {8*128 - 28, 6*128 - 28, 1024, 2, 512}, {9*128 - 28, 9*128 - 28, 1024 + 400, 3, 400}, {100, 100, 400, 1, 400},
	} {
		class := policy.Class{Heads: 96, Tokens: []int{c.tokens}, Paged: policy.Paged{Page: 128}, OnDIMMs: policy.OnDIMMs{Quads: true}}
		if tokens, rows, last := d.list(&class, 0, c.context); tokens != c.reads || rows != c.rows || last != c.last {
			t.Errorf("%d of %d tokens: as long as %d in %d rows, %d in the last, want %+v", c.tokens, c.context, tokens, rows, last, c)
		}
	}
}

// TestChoiceClocks: clocks of a choice on a head's rank by hand: 64 for 16 bounds, repeated for each further pass;
// one for each page and query head if scores are normalised; and 64 from the last score to the list.
func TestChoiceClocks(t *testing.T) {
	for group, want := range map[string]int64{ // 500 bounds of 32 chunks in two rows
		"sum": 235 + 31*64 + 162, "max": 0, "softmax-sum": 4 * 125, "per-head": 0,
	} {
		n := benchOf(t, "run.model=llama-3-8b", "policy.name=lserve", "policy.lserve.select_device=bank", "policy.lserve.select_group="+group)
		d := devicesOf(n)
		s := n.cfg.Policy.Pages()
		x := policy.Step{Choose: []policy.Choice{{Device: "bank", Heads: 4, Scored: []int{500}, Ranked: []int{125}, Keep: 63, PerQueryScores: group != "sum", Softmax: group == "softmax-sum"}}}
		got, v := d.chooses(&x, 0)
		if group != "sum" { // four passes
			want += d.bounds.Select(500) - int64(s.TopKLatency)
			if passes := d.bounds.Select(512) - d.bounds.Select(496); passes != 4*64 {
				t.Errorf("%s: 16 bounds more take %d clocks", group, passes)
			}
		}
		if got != want+64 || v != (vectors{}) {
			t.Errorf("%s: %d clocks and %+v, want %d", group, got, v, want+64)
		}
	}
}

// TestRecordedLists: recorded lists have the rows and chunks of the recording, as means over heads, rounded up. Single tokens read whole chunks; if
// each query head chooses, pages of any head are read.
func TestRecordedLists(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=lserve"))
	const context = 16*512 - 30 // the newest page has 34 tokens
	chunk := d.Table.ChunkTokens()
	p := policy.Profile{Measured: policy.ProfileMeasured{Prompt: context - 2}, Heads: []policy.ProfileHead{
		{Chosen: [][][2]int{{{0, 5}}, {{0, 960}, {1024, 1088}, {5000, 5001}, {context - 34, context}}}}, // 18 pages of 64 in rows 0, 1, 2, 9 and 15
		{}, // attends to everything
		{Chosen: [][][2]int{{{0, 5}}, {{0, 960}, {context - 34, context}}}}, // 16 pages in rows 0, 1 and 15
	}}
	d.recorded = p.Choices()
	for name, c := range map[string]struct {
		class              policy.Class
		context            int
		tokens, rows, last int
	}{
		"pages":      {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}}, context, 15*64 + 34, 4, 34},
		"profile":    {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{7}, Read: []int{0}}}, context, 15*64 + 34, 4, 34},
		"four heads": {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64, PerQueryHead: true}}, context, 16*64 + 34, 4, 34},
		"at least":   {policy.Class{Tokens: []int{30*64 + 34}, Paged: policy.Paged{Page: 64, PerQueryHead: true}}, context, 30*64 + 34, 4, 34},
		"earlier":    {policy.Class{Tokens: []int{15*64 + 33}, Paged: policy.Paged{Page: 64}}, context - 1, 15*64 + 33, 2, 33}, // one row is too few for these tokens
		"everything": {policy.Class{Tokens: []int{context}, Paged: policy.Paged{Page: 64}}, context, context, 16, 482},
		// Chunks of 0 to 960, 1024 to 1088, that of token 5,000, and three of the last 34 tokens, half of the 64 and the one of only the first head.
		"single": {policy.Class{Tokens: []int{700}, Paged: policy.Paged{Page: 1, Chosen: 700}}, context, (960+32)/chunk*chunk + 16 + 2*chunk + (context-1)%chunk + 1, 4, (context-1)%chunk + 1},
	} {
		if tokens, rows, last := d.list(&c.class, 0, c.context); tokens != c.tokens || rows != c.rows || last != c.last {
			t.Errorf("%s: %d tokens in %d rows, %d in the last, want %d, %d, %d", name, tokens, rows, last, c.tokens, c.rows, c.last)
		}
	}
	if chunk != 16 {
		t.Errorf("chunks of %d tokens", chunk)
	}
	// A part of 4 of 16 rows has its share of the 66 recorded chunks and 4 rows, 2,048 of 8,162: 16.6 and 1.004.
	if tokens, rows, last := d.singles(176, 2048, context); tokens != 17*16 || rows != 2 || last != 16 {
		t.Errorf("a part: %d tokens in %d rows, %d in the last, by hand 272, 2 and 16", tokens, rows, last)
	}
	if tokens, rows, last := d.singles(2048, 2048, context); tokens != 2048 || rows != 4 || last != 512 {
		t.Errorf("a whole part: %d tokens in %d rows, %d in the last", tokens, rows, last)
	}
	n := benchOf(t, "run.model=llama-3-8b", "policy.name=lserve")
	if devicesOf(n).recorded != nil {
		t.Error("choices without a profile")
	}
}

// TestRowsReadOfLists: a list of pages reads the rows that random pages touch, or that a profile gives, if these
// hold as many tokens and the context has as many; if query heads choose separately, pages of any head are read.
func TestRowsReadOfLists(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=lserve"))
	const context = 16*512 - 30 // the newest page has 34 tokens
	for name, c := range map[string]struct {
		class              policy.Class
		tokens, rows, last int
	}{
		"everything": {policy.Class{Tokens: []int{context}, Paged: policy.Paged{Page: 64}}, context, 16, 482},
		"in order":   {policy.Class{Tokens: []int{1000}}, 1000, 2, 488},
		// 15 of 127 pages: a row of eight is missed with probability (112 ... 105)/(127 ... 120) = 0.3557.
		"random":     {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}}, 15*64 + 34, 1 + 11, 34}, // 127/8 · 0.6443 = 10.2
		"whole rows": {policy.Class{Tokens: []int{3*512 + 482}, Paged: policy.Paged{Page: 512}}, 3*512 + 482, 4, 482},
		"a profile":  {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{7}, Read: []int{0}}}, 15*64 + 34, 7, 34},
		"too few":    {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{1}, Read: []int{0}}}, 15*64 + 34, 2, 34},
		"too many":   {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{99}, Read: []int{0}}}, 15*64 + 34, 16, 34},
		// Four heads choose 127 · (1 − (1 − 15/127)^4) = 50.2 pages.
		"four heads": {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64, PerQueryHead: true}}, 51*64 + 34, 1 + 16, 34},
		"measured":   {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64, PerQueryHead: true}, OnDIMMs: policy.OnDIMMs{Rows: []int{9}, Read: []int{1300}}}, 20*64 + 34, 9, 34},
	} {
		if c.rows > 16 {
			c.rows = 16
		}
		if tokens, rows, last := d.list(&c.class, 0, context); tokens != c.tokens || rows != c.rows || last != c.last {
			t.Errorf("%s: %d tokens in %d rows, %d in the last, want %d, %d, %d", name, tokens, rows, last, c.tokens, c.rows, c.last)
		}
	}
}
