package pim

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestListsByHand: rows of 64 tokens in chunks of 16, pages of 32 or 128.
func TestListsByHand(t *testing.T) {
	g := &Geometry{RowTokens: 64, ChunkTokens: 16}
	for _, c := range []struct {
		context, page int
		pages         []int
		want          TokenList
		tokens, units int
	}{
		{200, 32, []int{0}, TokenList{{0, 0, 0}}, 32, 1}, {200, 32, []int{0, 1}, TokenList{{0, 0, 0}}, 64, 1}, {200, 32, []int{1, 2}, TokenList{{0, 0, 2}, {32, 1, 0}}, 64, 2},
		{200, 32, []int{0, 3, 6}, TokenList{{0, 0, 0}, {32, 1, 2}, {64, 3, 0}}, 72, 3}, {200, 128, []int{0, 1}, TokenList{{0, 0, 0}, {64, 1, 0}, {128, 2, 0}, {192, 3, 0}}, 200, 4},
		{200, 16, []int{0, 2}, TokenList{{0, 0, 0}, {16, 0, 2}}, 32, 1}, {64, 32, []int{1}, TokenList{{0, 0, 2}}, 32, 1}, {64, 32, []int{2}, nil, 0, 0}, {200, 32, nil, nil, 0, 0},
	} {
		list, tokens, units := PageList(g, c.context, c.page, c.pages)
		if !slices.Equal(list, c.want) || tokens != c.tokens || units != c.units {
			t.Errorf("%+v: %v, %d tokens in %d units", c, list, tokens, units)
		}
		if len(list) > 0 {
			if err := list.Check(g, tokens); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
	list := TokenList{{0, 0, 2}, {32, 1, 0}, {64, 3, 1}}
	for _, c := range []struct {
		list                     TokenList
		token, unit, within, end int
	}{
		{list, 0, 0, 32, 32}, {list, 31, 0, 63, 32}, {list, 32, 1, 0, 64}, {list, 40, 1, 8, 64}, {list, 64, 3, 16, 112}, {list, 70, 3, 22, 112}, {nil, 0, 0, 0, 64}, {nil, 63, 0, 63, 64}, {nil, 64, 1, 0, 128}, {TokenList{{0, 5, 3}}, 4, 5, 52, 16}, {TokenList{{0, 5, 2}, {32, 6, 2}}, 33, 6, 33, 64},
	} {
		if unit, within, end := c.list.Place(g, c.token); unit != c.unit || within != c.within || end != c.end {
			t.Errorf("token %d of %v: unit %d, place %d, to %d, by hand %+v", c.token, c.list, unit, within, end, c)
		}
	}
	for _, c := range []struct {
		list   TokenList
		tokens int
		want   string
	}{
		{nil, 5, ""}, {list, 100, ""}, {list, 112, ""}, {list, 113, "extent 2: {Start:64 Unit:3 Chunk:1}"}, {TokenList{{16, 0, 0}}, 32, "the first extent to begin at token 0"},
		{TokenList{{0, 0, 0}, {8, 1, 0}}, 20, "extents of whole chunks of 16"}, {TokenList{{0, 0, 0}, {16, 1, 0}}, 16, "one after another"}, {TokenList{{0, 0, 0}, {0, 1, 0}}, 16, "one after another"},
		{TokenList{{0, -1, 0}}, 16, "within a unit of 64"}, {TokenList{{0, 0, -1}}, 16, "within a unit of 64"}, {TokenList{{0, 0, 0}}, 64, ""}, {TokenList{{0, 0, 0}}, 65, "within a unit of 64"},
	} {
		if err := c.list.Check(g, c.tokens); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %d tokens: %v, want %q", c.list, c.tokens, err, c.want)
		}
	}
	for _, c := range []struct {
		ranges [][2]int
		want   TokenList
		tokens int // -1 for an error
	}{
		{[][2]int{{0, 16}}, TokenList{{0, 0, 0}}, 16}, {[][2]int{{16, 32}, {32, 40}}, TokenList{{0, 0, 1}}, 24}, {[][2]int{{0, 16}, {48, 80}}, TokenList{{0, 0, 0}, {16, 0, 3}, {32, 1, 0}}, 48}, {nil, nil, 0},
		{[][2]int{{8, 16}}, nil, -1}, {[][2]int{{0, 8}, {16, 32}}, nil, -1}, {[][2]int{{16, 16}}, nil, -1}, {[][2]int{{0, 32}, {16, 48}}, nil, -1}, {[][2]int{{-16, 16}}, nil, -1},
	} {
		list, tokens, err := RangeList(g, nil, c.ranges)
		if (err != nil) != (c.tokens < 0) || err == nil && (!slices.Equal(list, c.want) || tokens != c.tokens) {
			t.Errorf("%v: %v, %d tokens, %v", c.ranges, list, tokens, err)
		}
	}
}

// TestScalesByHand: 16 elements of 4 bits, −8 to 7, represent −4 to 11 in steps of 1; 256 of 8 bits represent 0 to 255.
func TestScalesByHand(t *testing.T) {
	for _, c := range []struct {
		low, high float32
		bits      int
		want      Scales
	}{
		{-4, 11, 4, Scales{1, -4}}, {0, 30, 4, Scales{2, -8}}, {0, 255, 8, Scales{1, -128}}, {-64, 63.5, 8, Scales{0.5, 0}}, {0, 0, 4, Scales{1, -8}},
		{2048, 2048, 4, Scales{1, -2056}}, {-4096, -4096, 4, Scales{2, 2040}}, // limited by the resolution of FP16
	} {
		s := FitScales(c.low, c.high, c.bits)
		if s != c.want {
			t.Errorf("%+v: %+v", c, s)
		}
		if again := ScalesOf(s.Word()); again != s {
			t.Errorf("%+v is stored as %+v", s, again)
		}
	}
	s := Scales{2, -8}
	for x, element := range map[float32]int16{0: -8, 2: -7, 2.9: -7, 3.1: -6, 30: 7, 99: 7, -5: -8, 16: 0} {
		if got := int16(s.Encode(x, 4)); got != element {
			t.Errorf("%v is element %d, by hand %d", x, got, element)
		}
		if got, want := s.Decode(uint16(element)), 2*(float32(element)+8); got != want {
			t.Errorf("element %d is %v, by hand %v", element, got, want)
		}
	}
	for _, c := range []struct {
		most float32
		bits int
		want float32
	}{{127, 8, 1}, {63.5, 8, 0.5}, {254, 8, 2}, {7, 4, 1}, {3.5, 4, 0.5}, {0, 8, 1}} {
		if got := FitTensor(c.most, c.bits); got != (Scales{Scale: c.want}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	f := FitFP8(896) // twice the largest number of E4M3
	if f != (Scales{Scale: 2}) || FitFP8(0).Scale != 1 || FitFP8(224).Scale != 0.5 {
		t.Errorf("%+v", f)
	}
	for _, x := range []float32{0, 2, -2, 3, 896, -896, 0.5, 5.5} {
		if got := f.DecodeFP8(f.EncodeFP8(x)); got != x {
			t.Errorf("%v is read back as %v", x, got)
		}
	}
	if got := f.DecodeFP8(f.EncodeFP8(5000)); math.Abs(float64(got)) != 896 {
		t.Errorf("5000 is read back as %v", got)
	}
}
