package values

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/tables"
)

// PageLoad is decode steps of one KV head that attend to selected pages: the newest page, and those with the highest bounds on their scores
// (Quest: Tang et al., ICML 2024). Logical pages, and lists used for several steps, are LServe's (Yang et al., MLSys 2025).
type PageLoad struct {
	Context int           `json:"-"` // tokens, including the newest
	Shape   pim.HeadShape `json:"-"`
	Budget  int           `json:"budget"`       // tokens that are attended to
	Page    int           `json:"page"`         // tokens of a page: whole chunks
	Logical int           `json:"logical_page"` // tokens with their own bounds, a divisor of Page
	Select  string        `json:"select"`
	Reuse   int           `json:"reuse"` // number of steps that use one list
	TopK    int           `json:"-"`     // clocks from the last score to the list; the registers of the list are filled as scores arrive
	// Keys and queries are drawn with Seed. Successive keys have the correlation Local, 0 to 1, since real keys cluster.
	Seed  uint64  `json:"-"`
	Local float64 `json:"-"`
}

func (l *PageLoad) check(g *pim.Geometry) error {
	bad := func(key string, value any, expected string, args ...any) error {
		return &input.Error{Key: key, Value: fmt.Sprint(value), Expected: fmt.Sprintf(expected, args...)}
	}
	ways := []string{tables.SelectBank, tables.SelectRank, tables.SelectGPU, tables.SelectNone}
	switch {
	case l.Context < 1 || l.Context > 1<<22:
		return bad("context", l.Context, "1 to %d tokens", 1<<22)
	case l.Page < g.ChunkTokens || l.Page%g.ChunkTokens != 0 || l.Page > 1<<16:
		return bad("page", l.Page, "a multiple of %d tokens, which the banks score at once, up to %d", g.ChunkTokens, 1<<16)
	case g.ScaleChunks == 0 && (g.RowTokens%min(l.Page, g.RowTokens) != 0 || l.Page%min(l.Page, g.RowTokens) != 0): // with scales in rows, pages may cross row ends
		return bad("page", l.Page, "a divisor or a multiple of %d, the tokens of a row", g.RowTokens)
	case l.Budget < l.Page || l.Budget > 1<<22:
		return bad("budget", l.Budget, "at least the page of %d tokens, up to %d", l.Page, 1<<22)
	case l.Logical < 1 || l.Page%l.Logical != 0:
		return bad("logical_page", l.Logical, "a divisor of the page of %d tokens", l.Page)
	case l.Reuse < 1 || l.Reuse > 1<<16:
		return bad("reuse", l.Reuse, "1 to 65536 steps")
	case l.TopK < 0 || l.TopK > 1<<12:
		return bad("top_k_latency", l.TopK, "0 to 4096 clocks")
	case !(l.Local >= 0 && l.Local <= 1):
		return bad("local", l.Local, "0 to 1")
	case !slices.Contains(ways, l.Select):
		return input.UnknownName("select", l.Select, ways)
	}
	return nil
}

// PageMeasurement is the clocks of a step on an idle rank, without append and refresh.
type PageMeasurement struct {
	Pages           int   `json:"pages"` // of the list
	Tokens          int   `json:"tokens"`
	Rows            int   `json:"rows"`             // of keys, and as many of values
	Bounds          int   `json:"bounds"`           // logical pages scored
	AttentionClocks int64 `json:"attention_clocks"` // over the list
	SelectClocks    int64 `json:"select_clocks"`    // to make a list
	TotalClocks     int64 `json:"total_clocks"`     // mean of a step, where the list is made once in Reuse steps, rounded up
	DenseClocks     int64 `json:"dense_clocks"`     // over the whole context
	List            []int `json:"-"`                // pages, ascending
}

// MeasurePages draws keys and queries, scores the pages with the program of the selected unit, and runs attention over the chosen ones. It
// returns an input.Error for specs, shapes and loads that do not fit together.
func MeasurePages(spec *pim.Spec, d *dram.Spec, l PageLoad) (*PageMeasurement, error) {
	b, err := machine.NewRunner(spec, d, l.Shape)
	if err != nil {
		return nil, err
	}
	g := &b.Program.Geometry
	if err := l.check(g); err != nil {
		return nil, err
	}
	r := &PageMeasurement{Bounds: (l.Context + l.Logical - 1) / l.Logical}
	if r.List, err = l.choose(spec, d); err != nil {
		return nil, err
	}
	list, tokens, rows := pim.PageList(g, l.Context, l.Page, r.List)
	r.Pages, r.Tokens, r.Rows = len(r.List), tokens, rows
	r.AttentionClocks, r.DenseClocks = b.Run(machine.Head{Context: tokens, List: list}), b.Attention(l.Context)
	if l.everything() {
		l.Select = tables.SelectNone
	}
	if r.SelectClocks, err = l.selectClocks(spec, d, r.Bounds); err != nil {
		return nil, err
	}
	r.TotalClocks = r.AttentionClocks + (r.SelectClocks+int64(l.Reuse)-1)/int64(l.Reuse)
	return r, nil
}

func (l *PageLoad) everything() bool { return l.Context <= l.Budget }

// selectClocks returns the rank's clocks to make a list.
func (l *PageLoad) selectClocks(spec *pim.Spec, d *dram.Spec, bounds int) (int64, error) {
	if l.Select == tables.SelectNone || l.Select == tables.SelectGPU {
		return 0, nil
	}
	b, err := tables.BoundBuilder(spec, d, tables.BoundsOf(l.Shape), l.Select)
	if err != nil {
		return 0, err
	}
	return b.Run(machine.Head{Context: bounds, Scores: true}) + int64(l.TopK), nil
}

func (l *PageLoad) choose(spec *pim.Spec, d *dram.Spec) ([]int, error) {
	pages := (l.Context + l.Page - 1) / l.Page
	n := min(max(3, l.Budget/l.Page), pages)
	list := make([]int, pages)
	for i := range list {
		list[i] = i
	}
	if l.everything() || n == pages {
		return list, nil
	}
	scores, err := l.score(spec, d)
	if err != nil {
		return nil, err
	}
	best := list[:pages-1] // all but the newest
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	list = append(best[:n-1], pages-1)
	slices.Sort(list)
	return list, nil
}

// score computes the scores of drawn keys' bounds on the banks' units, and returns the largest score over each page's logical pages.
func (l *PageLoad) score(spec *pim.Spec, d *dram.Spec) ([]float32, error) {
	shape := tables.BoundsOf(l.Shape)
	room, err := spec.SegmentTokens(d, shape)
	if err != nil {
		return nil, err
	}
	bounds := (l.Context + l.Logical - 1) / l.Logical
	if room < bounds {
		return nil, &input.Error{Key: "context", Value: fmt.Sprint(l.Context), Expected: fmt.Sprintf(
			"at most %d tokens, the bounds of whose pages the score buffer holds", room*l.Logical)}
	}
	g, err := pim.NewGeometry(d, shape)
	if err != nil {
		return nil, err
	}
	rank, err := NewHostRank(spec, d, shape, g.Rows(bounds), 1, true)
	if err != nil {
		return nil, err
	}
	query, err := l.draw(bounds, func(i int, bound []uint16) error { return rank.Store(0, i, bound, bound) })
	if err != nil {
		return nil, err
	}
	all, err := rank.Score(0, &DecodeHead{Context: bounds, Query: [][]uint16{query}})
	if err != nil {
		return nil, err
	}
	scores := slices.Repeat([]float32{float32(math.Inf(-1))}, (l.Context+l.Page-1)/l.Page)
	for i, s := range all[0] {
		page := i * l.Logical / l.Page
		scores[page] = max(scores[page], s)
	}
	return scores, nil
}

// draw passes the bounds of drawn keys to store one after another, and returns the query for them: the sums of the group's positive and
// negative parts. They are divided by 16 to keep sums within FP16.
func (l *PageLoad) draw(bounds int, store func(i int, bound []uint16) error) ([]uint16, error) {
	r, dim := rand.New(rand.NewPCG(l.Seed, 18)), l.Shape.HeadDim
	split := make([]float32, 2*dim)
	for range l.Shape.Queries {
		for e := range dim {
			if q := float32(float32(r.NormFloat64()) / 16); q > 0 {
				split[dim+e] += q // multiplies the largest elements
			} else {
				split[e] += q
			}
		}
	}
	key, bound, token := make([]float32, dim), make([]float32, 2*dim), 0
	fresh := math.Sqrt(1 - float64(l.Local*l.Local))
	var half []uint16
	for i := range bounds {
		for first := token; token < min(first+l.Logical, l.Context); token++ {
			for e := range key {
				x := float32(r.NormFloat64())
				if token > 0 {
					x = float32(float64(fresh*float64(x)) + float64(l.Local*float64(key[e])))
				}
				key[e] = x
				if token == first {
					bound[e], bound[dim+e] = x, x
				}
				bound[e], bound[dim+e] = min(bound[e], x), max(bound[dim+e], x)
			}
		}
		half = EncodeHalf(half[:0], bound)
		if err := store(i, half); err != nil {
			return nil, err
		}
	}
	return EncodeHalf(nil, split), nil
}
