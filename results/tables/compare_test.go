package tables

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sweepTable reads rows "point,ranksets,seed,status,error,config,throughput,tbt".
func sweepTable(t interface{ Fatal(...any) }, rows string) *Table {
	table, err := readTable("results.csv", strings.NewReader(
		"point,node.ranksets,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms\n"+rows))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestCompare(t *testing.T) {
	old := sweepTable(t, `same,1,1,done,,a,100,10
slower,2,1,done,,b,200,20
slower,2,2,done,,c,220,20
breaks,3,1,done,,d,50,5
heals,4,1,failed,boom,e,,
gone,5,1,done,,f,10,1
oldname,6,1,done,,g,10,1
`)
	updated := sweepTable(t, `newname,6,1,done,,g,10,2
same,1,1,done,,a,100,10
slower,2,2,done,,c,209,20
slower,2,1,done,,B,190,20
breaks,3,1,failed,no room,d,,
heals,4,1,done,,e,7,7
fresh,7,1,done,,h,1,1
`)
	c, err := Compare(old, updated)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name string
		fate Fate
	}{{"newname", Changed}, {"same", Equal}, {"slower", Changed}, {"breaks", FailsNow}, {"heals", WorksNow}, {"fresh", Added}, {"gone", Vanished}}
	if len(c.Points) != len(want) {
		t.Fatalf("%d points", len(c.Points))
	}
	for i, w := range want {
		if c.Points[i].Name != w.name || c.Points[i].Fate != w.fate {
			t.Errorf("point %d: %s %s, want %s %s", i, c.Points[i].Name, c.Points[i].Fate, w.name, w.fate)
		}
	}
	if c.Points[0].OldName != "oldname" || !c.Points[2].Reconfigured || c.Points[1].Reconfigured {
		t.Errorf("%+v", c.Points[:3])
	}
	// Seeds are paired by number, not by order: both lost 5%.
	if x := c.Points[2].Metrics["output_tokens_per_s"]; x == nil || math.Abs(float64(x.Relative)+0.05) > 1e-12 || x.spread > 1e-12 {
		t.Errorf("%+v", x)
	}
	var b bytes.Buffer
	rule := &Rule{"output_tokens_per_s<-2%", Limit{Column: "output_tokens_per_s", Operator: "<", Value: -0.02}, true}
	if err := c.WriteText(&b, CompareOptions{Metrics: []string{"output_tokens_per_s"}, Rules: []*Rule{rule}}); err != nil {
		t.Fatal(err)
	}
	const text = `7 points, 2 changed, 1 equal, 1 added, 1 vanished, 1 fails now, 1 works now; 1 with another configuration of the same name

fails now:
  breaks: no room

works now:
  heals

added:
  fresh

vanished:
  gone

beyond the limit output_tokens_per_s<-2%:
  slower  -5.00%
  breaks  fails now

metric               point             old         new          delta
output_tokens_per_s  slower     210.0 ± 7%  199.5 ± 7%  -5.00% ± 0.0%
output_tokens_per_s  (2 equal)
output_tokens_per_s  geomean         59.44       58.43         -1.70%

also changed: tbt_p99_ms
`
	if b.String() != text {
		t.Errorf("got\n%s\nwant\n%s", b.String(), text)
	}
}

func TestRules(t *testing.T) {
	metrics := []string{"output_tokens_per_s", "tbt_p99_ms"}
	point := func(old, updated float64) *PointChange {
		return &PointChange{Fate: Changed, Metrics: map[string]*Change{"tbt_p99_ms": newChange([]float64{old}, []float64{updated})}}
	}
	for _, c := range []struct {
		rule         string
		old, updated float64
		trips        bool
	}{
		{"tbt_p99_ms>5%", 100, 105.1, true}, {"tbt_p99_ms>5%", 100, 105, false}, {"tbt_p99_ms>=5%", 100, 105, true},
		{" tbt_p99_ms < -2.5% ", 100, 97, true}, {"tbt_p99_ms<=-3%", 100, 97, true}, {"tbt_p99_ms<-3%", 100, 97, false},
		{"tbt_p99_ms>0", 1, 1.5, true}, {"tbt_p99_ms>0.5", 1, 1.5, false}, {"tbt_p99_ms>0%", 0, 0, false}, {"tbt_p99_ms>1e3%", 0, 1, true},
	} {
		r, err := ParseRule("--fail-if", c.rule, metrics)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if got := r.Trips(point(c.old, c.updated)); got != c.trips {
			t.Errorf("%s at %g to %g: trips %t", c.rule, c.old, c.updated, got)
		}
	}
	if r, _ := ParseRule("", "tbt_p99_ms>50%", metrics); !r.Trips(&PointChange{Fate: FailsNow}) || r.Trips(&PointChange{Fate: Added}) {
		t.Error("a point that fails now must trip, an added one must not")
	}
	for rule, want := range map[string]string{
		"": "expected METRIC<NUMBER%", "tbt_p99_ms": "expected METRIC", "tbt_p99_ms=5": "expected METRIC", "tbt_p99_ms>x": "expected METRIC",
		"tbt_p99_ms>1e999": "expected METRIC", "tbt_p98_ms>5%": `did you mean "tbt_p99_ms"`,
	} {
		if _, err := ParseRule("--fail-if", rule, metrics); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", rule, err)
		}
	}
}

// TestCompareWithItself: any table compared with itself, in any order of its
// rows, is equal in every metric.
func TestCompareWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []string
		n := rapid.IntRange(1, 8).Draw(t, "points")
		for i := range n {
			v := rapid.Float64Range(-1e6, 1e6).Draw(t, "v")
			rows = append(rows, strings.Join([]string{string(rune('a' + i/2)), "1", string(rune('1' + i%2)), "done", "", "x", ftoa(v), ftoa(v / 3)}, ","))
		}
		a := sweepTable(t, strings.Join(rows, "\n"))
		b := sweepTable(t, strings.Join(rapid.Permutation(rows).Draw(t, "order"), "\n"))
		c, err := Compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if c.count(func(p *PointChange) bool { return p.Fate == Equal }) != len(c.Points) || len(c.changedMetrics()) != 0 {
			t.Fatalf("%+v", c.Points)
		}
	})
}

func TestCompareRefuses(t *testing.T) {
	good := sweepTable(t, "a,1,1,done,,x,1,1\n")
	for want, bad := range map[string]*Table{
		"each point and seed once":                sweepTable(t, "a,1,1,done,,x,1,1\na,1,1,done,,x,1,1\n"),
		"results that l3sim wrote, with a column": {Name: "x.csv", Columns: []string{"a"}},
	} {
		if _, err := Compare(bad, good); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("old: %v, want %s", err, want)
		}
		if _, err := Compare(good, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("new: %v, want %s", err, want)
		}
	}
}

// TestLost: points and seeds that only the old table has are counted, and a point without a common
// seed is not called equal.
func TestLost(t *testing.T) {
	old := sweepTable(t, "a,1,1,done,,a,100,10\na,1,2,done,,b,100,10\nb,2,1,done,,c,1,1\ngone,3,1,done,,d,1,1\ngone,3,2,failed,boom,e,,\n")
	updated := sweepTable(t, "a,1,1,done,,a,100,10\nb,2,7,done,,f,1,1\n")
	c, err := Compare(old, updated)
	if err != nil {
		t.Fatal(err)
	}
	if c.Lost() != 1+1+2 || c.Points[0].Fate != Equal || c.Points[1].Fate != OtherSeeds || c.Points[2].Fate != Vanished {
		t.Errorf("lost %d, %+v", c.Lost(), c.Points)
	}
	rule := &Rule{Limit: Limit{Column: "output_tokens_per_s", Operator: "<", Value: -0.02}}
	if n := c.count(rule.Judges); n != 1 {
		t.Errorf("%d points judged, want a alone", n)
	}
	failing := sweepTable(t, "a,1,1,failed,boom,a,,\n")
	if c, err := Compare(old, failing); err != nil || c.count(rule.Judges) != 1 {
		t.Errorf("a point that fails now is judged: %v", err)
	}
	if want := "3 points, 1 equal, 1 vanished, 1 other seeds; 2 old seeds of these are missing"; c.headline() != want {
		t.Errorf("got %s", c.headline())
	}
}

// TestHeadlineNamesChanges: a comparison in which some points changed and none lost a seed
// is not equal.
func TestHeadlineNamesChanges(t *testing.T) {
	rows := func(value string) *Table { return sweepTable(t, "a,1,1,done,,a,100,10\nb,2,1,done,,b,"+value+",10\n") }
	c, err := Compare(rows("100"), rows("101"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.headline(); got != "2 points, 1 changed, 1 equal" {
		t.Errorf("got %s", got)
	}
	table := &Table{}
	if c.addMetric(table, "output_tokens_per_s"); table.Rows[1][1] != Of("(1 equal)") {
		t.Errorf("got %q", table.Rows)
	}
}

// TestListNamesTwenty: for each outcome, twenty points are named and the others counted.
func TestListNamesTwenty(t *testing.T) {
	for n, more := range map[int]string{20: "", 21: "1 more", 22: "2 more"} {
		c := &Comparison{Points: make([]PointChange, n)}
		for i := range c.Points {
			c.Points[i] = PointChange{Name: "p", Fate: Added}
		}
		var b strings.Builder
		if c.list(&b, "added", false, func(p *PointChange) string { return p.Name }); strings.Count(b.String(), "  p\n") != 20 || more != "" != strings.Contains(b.String(), "more") || !strings.Contains(b.String(), more) {
			t.Errorf("%d points:%s", n, b.String())
		}
	}
}

func TestFourDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1.000", -2.5: "-2.500", 99999: "99,999", 0.012345: "0.01235"} {
		if got := fourDigits(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
