package tables

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestValuesInJSON: numbers, texts, truth values and nothing come back as they were, whole numbers with all their digits.
func TestValuesInJSON(t *testing.T) {
	for text, want := range map[string]Value{"9007199254740993": Of(int64(9007199254740993)), "18446744073709551615": Of(uint64(math.MaxUint64)), "-3": Of(-3), "1.5": Of(1.5), `"1.5"`: Of("1.5"), `"x"`: Of("x"), "true": Of(true), "null": {}} {
		var got Value
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
		if back, err := json.Marshal(got); err != nil || string(back) != text {
			t.Errorf("%s is written as %s, %v", text, back, err)
		}
	}
	if err := json.Unmarshal([]byte("{"), new(Value)); err == nil {
		t.Error("half an object is a cell")
	}
}

// TestWordsByHand: each statistic and abbreviation in words, sections before the names of keys that need them, units in brackets, bytes without.
func TestWordsByHand(t *testing.T) {
	for column, want := range map[string]string{
		"x_mean_ms": "x, mean|ms", "x_max_ms": "x, maximum|ms", "x_p50_ms": "x, median|ms", "x_p90_ms": "x, 90th percentile|ms", "x_p95_ms": "x, 95th percentile|ms", "x_p99_ms": "x, 99th percentile|ms",
		"node.some_key_bytes": "some key|", "gpu.some_key": "GPU some key|", "pcie.some_key": "PCIe some key|", "policy.quest.some_key": "quest some key|", "policy.name": "policy|", "utilization_x": "x utilization|",
		"a_energy_b_j": "a energy, b|J",
	} {
		words, unit := Words(column)
		if got := words + "|" + unit; !strings.EqualFold(got, want) {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

// TestManyValues: of more than twelve values of a key the first twelve are written, and how many more there are.
func TestManyValues(t *testing.T) {
	e := &Exploration{Points: 40, Front: make([]FrontPoint, 5)}
	for n := 12; n <= 14; n++ {
		k := Knob{Column: "n"}
		for i := range n {
			k.Levels = append(k.Levels, Level{Value: Of(i + 1), Front: i % 3, All: i + 2})
		}
		k.Most = k.Levels[9]
		e.Knobs = []Knob{k}
		var b strings.Builder
		if err := e.writeKnobs(&b); err != nil {
			t.Fatal(err)
		}
		want := "n 10 0 of 5 28% 1: 0/2, 2: 1/3, 3: 2/4, 4: 0/5, 5: 1/6, 6: 2/7, 7: 0/8, 8: 1/9, 9: 2/10, 10: 0/11, 11: 1/12, 12: 2/13"
		if n > 12 {
			want += fmt.Sprintf(", %d more", n-12)
		}
		if got := strings.Join(strings.Fields(b.String()), " "); !strings.HasSuffix(got, want) {
			t.Errorf("%d values: got %s\nwant %s", n, got, want)
		}
	}
}

// TestChangeByHand: two seeds, 2 and 4 before, 3 and 8 after: means of 3 and 5.5, deviations of 1.41 and 3.54, changes of 50% and 100%.
func TestChangeByHand(t *testing.T) {
	c := newChange([]float64{2, 4}, []float64{3, 8})
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("old", c.Old, 3)
	near("new", c.New, 5.5)
	near("deviation of the old", c.oldStd, math.Sqrt2)
	near("deviation of the new", c.newStd, 2.5*math.Sqrt2)
	near("relative", float64(c.Relative), 2.5/3)
	near("deviation of the changes", c.spread, 0.25*math.Sqrt2)
	if c.seeds != 2 || !c.differs || newChange([]float64{1, 2}, []float64{1, 2}).differs || !newChange([]float64{1, 2}, []float64{2, 1}).differs {
		t.Errorf("%+v", c)
	}
	if got, err := share(math.Inf(1)).MarshalJSON(); err != nil || string(got) != "null" {
		t.Errorf("an infinite share is %s, %v", got, err)
	}
}
