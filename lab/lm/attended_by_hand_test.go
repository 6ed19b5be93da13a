package lm

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
)

// plainState is a state that chooses no pages.
type plainState struct{ policy.State }

// pagedState has pages of four tokens; dropped pages may weigh up to a third of the kept ones.
type pagedState struct{ policy.State }

func (pagedState) DroppedBound([]float32, *policy.Part, float64) float64 { return 1. / 3 }
func (pagedState) PageTokens() int                                       { return 4 }

// TestStepsByHand: two layers of two heads with one element. Tokens have weights of 1, 2, 4 and 8 of 15, and values 15, 30, 45 and 60, so
// that attention to all gives 1 + 4 + 12 + 32 = 49.
func TestStepsByHand(t *testing.T) {
	weights := func(tokens ...int) (lse float64) {
		sum := 0.0
		for _, i := range tokens {
			sum += math.Exp2(float64(i))
		}
		return math.Log(sum)
	}
	scores := []float64{0, math.Ln2, 2 * math.Ln2, 3 * math.Ln2}
	a := newAttended(&Model{Weights: &Weights{Shape: Shape{Layers: 2, Heads: 2, HeadDim: 1}}, workers: 2}, 1100, 2)
	of := func(state policy.State, parts ...policy.Part) *chosenHead {
		return &chosenHead{state: state, values: []float32{15, 30, 45, 60}, query: [][]float32{{1}}, selection: policy.Selection{Parts: parts}}
	}
	part := func(ranges ...[2]int) policy.Part { return policy.Part{Ranges: ranges} }
	// Layer 0: head 0 attends to the last two tokens, 12 of 15 of the mass: (4·45 + 8·60)/12 = 55; head 1 to the first and the last: 9 of 15,
	// (15 + 480)/9 = 55. Layer 1: both heads attend to everything, one of them in two parts.
	a.head(0, 0, 0, of(plainState{}, part([2]int{2, 4})), scores, []float64{55}, weights(2, 3))
	a.head(1, 0, 1, of(pagedState{}, part([2]int{0, 1}, [2]int{3, 4})), scores, []float64{55}, weights(0, 3))
	endOfLayer(a, 0, []float64{55, 55})
	a.head(0, 1, 0, of(plainState{}, part([2]int{0, 4})), scores, []float64{49}, weights(0, 1, 2, 3))
	a.head(1, 1, 1, of(plainState{}, part([2]int{0, 3}), part([2]int{3, 4})), scores, []float64{50}, weights(0, 1, 2, 3))
	endOfLayer(a, 1, []float64{52, 45})
	// A second step of layer 0: head 0 attends to one token, 8 of 15, and head 1 to everything, in two pages of the five tokens.
	a.head(0, 0, 0, of(plainState{}, part([2]int{3, 4})), scores, []float64{60}, weights(3))
	a.head(1, 0, 1, of(pagedState{}, part([2]int{0, 4})), scores, []float64{49}, weights(0, 1, 2, 3))
	endOfLayer(a, 0, []float64{49, 49})
	a.finish()
	if len(a.Layers) != 2 {
		t.Fatalf("%d layers", len(a.Layers))
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) < 1e-6) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	l := &a.Layers[0]
	near("kept mass", l.KeptMass, (12./15+9./15+8./15+1)/4)
	near("recall", l.Recall, (1+0.5+1+1)/4) // of the first and the last token, one is among the two highest scores
	near("tokens", l.Tokens, (2.+2+1+4)/4)
	near("rows", l.Rows, 1)
	near("output", l.OutputRelativeL2, (6./49+0)/2)
	near("99% of the output", l.OutputRelativeL2P99, 0.99*6/49)
	near("99% of the dropped mass", l.DroppedMassP99, 6./15+0.97*(7./15-6./15)) // of 0, 3, 6 and 7 of 15: interpolated at 2.97 of positions 0 to 3
	near("pages", l.Pages, 1)                                                   // all four tokens are in one
	near("bound", l.DroppedMassBound, 0.25)
	near("99% of the bound", l.DroppedMassBoundP99, 0.25)
	l = &a.Layers[1]
	near("kept mass of layer 1", l.KeptMass, 1)
	near("recall of layer 1", l.Recall, 1)
	near("tokens of layer 1", l.Tokens, 4)
	near("output of layer 1", l.OutputRelativeL2, math.Sqrt((3*3+4*4)/(2*49.*49)))
	for _, x := range []float64{l.Pages, l.DroppedMassBound, l.DroppedMassBoundP99} {
		if !math.IsNaN(x) {
			t.Errorf("a layer without pages has %v", x)
		}
	}
}

// TestAttendedReport: each number of a layer is in the report and in the text under its own name; where no head chooses pages, it is null.
func TestAttendedReport(t *testing.T) {
	nan := math.NaN()
	a := &Attended{Layers: []LayerAttended{
		{KeptMass: 0.5, Recall: 0.25, Tokens: 12.5, Rows: 3.5, OutputRelativeL2: 0.125, OutputRelativeL2P99: 0.75, DroppedMassP99: 0.625, Pages: 7.5, DroppedMassBound: 0.375, DroppedMassBoundP99: 0.875,
			PageShare: 0.1, PageOverlap: []float64{0.2}, PageUnion: []float64{1, 1.5}, ListShare: 0.3, ListOverlap: []float64{0.4}, ListUnion: []float64{1, 1.25}},
		{KeptMass: 1, Recall: 2, Tokens: 3, Rows: 4, OutputRelativeL2: 5, OutputRelativeL2P99: 6, DroppedMassP99: 7, Pages: nan, DroppedMassBound: nan, DroppedMassBoundP99: nan},
	}}
	got, err := json.Marshal(NewAttendedReport(a))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kept_mass":[0.5,1],"recall":[0.25,2],"output_relative_l2":[0.125,5],"attended_tokens":[12.5,3],"output_relative_l2_p99":[0.75,6],"dropped_mass_p99":[0.625,7],` +
		`"rows_touched":[3.5,4],"pages_touched":[7.5,null],"dropped_mass_bound":[0.375,null],"dropped_mass_bound_p99":[0.875,null],` +
		`"page_share":[0.1,0],"page_overlap":[[0.2],null],"page_union":[[1,1.5],null],"list_share":[0.3,0],"list_overlap":[[0.4],null],"list_union":[[1,1.25],null]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var text strings.Builder
	if err := a.WriteText(&text, "quest"); err != nil {
		t.Fatal(err)
	}
	want = `quest, means over steps and heads:
layer  tokens   rows  kept mass  recall  output error  p99 of dropped mass  and its bound
    0    12.5    3.5     0.5000  0.2500        0.1250               0.6250         0.8750
    1     3.0    4.0     1.0000  2.0000        5.0000               7.0000              -
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

// TestChoicesText: for two choosing layers and one that does not choose, the means for each distance between choices and for each
// number of choices.
func TestChoicesText(t *testing.T) {
	layer := func(by, pages float64) LayerAttended {
		var shared, union []float64
		for i := range 8 {
			if i < 7 {
				shared = append(shared, by*float64(8-i)/10) // 0.8, 0.7 ... 0.2 with by = 1
			}
			union = append(union, 1+by*float64(i)/10) // 1, 1.1 ... 1.7
		}
		return LayerAttended{PageShare: pages, PageOverlap: shared, PageUnion: union}
	}
	a := &Attended{Layers: []LayerAttended{layer(1, 0.2), {}, layer(0.5, 0.1)}}
	var text strings.Builder
	if err := a.writeChoices(&text); err != nil {
		t.Fatal(err)
	}
	// Beyond chance: (0.8 − 0.2)/0.8 = 0.75 and (0.4 − 0.1)/0.9 = 0.333.
	want := "A choice has 0.150 of the pages before the newest. The choices 1, 2, 3 and 7 steps before have 0.600, 0.525, 0.450 and 0.150 of its pages; beyond chance, 0.542 one step before.\n" +
		"The choices of 2, 3, 4 and 8 steps have 1.075, 1.150, 1.225 and 1.525 times its pages.\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	// With one choice fewer than are compared: nothing.
	short := layer(1, 0.2)
	short.PageUnion = short.PageUnion[:7]
	text.Reset()
	if err := (&Attended{Layers: []LayerAttended{short}}).writeChoices(&text); err != nil || text.Len() > 0 {
		t.Errorf("%v, %q", err, text.String())
	}
}
