package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// drawsCSV has two models. Of a and b, a wins twice, ties once and loses once; c equals b except for a failed
// draw.
const drawsCSV = `point,draw,run.system,run.model,node.gpus,run.seed,status,error,config_sha256,output_tokens_per_s,ttft_mean_ms,iterations
a,1,l3,m,4,1,done,,x,10,1,3
b,1,gpu-only,m,8,1,done,,x,9,2,3
c,1,rank-pim,m,8,1,done,,x,9,2,3
z,1,l3,other,8,1,done,,x,1000,2,3
a,2,l3,m,4,2,done,,x,10,1,3
b,2,gpu-only,m,8,2,done,,x,10,2,3
c,2,rank-pim,m,8,2,failed,why,x,,,
a,3,l3,m,4,3,done,,x,10,1,3
b,3,gpu-only,m,8,3,done,,x,11,2,3
c,3,rank-pim,m,8,3,done,,x,11,2,3
b,4,gpu-only,m,8,4,done,,x,5,2,3
a,4,l3,m,4,4,done,,x,10,1,3
c,4,rank-pim,m,8,4,done,,x,5,2,3
`

func draws(t *testing.T) *Table {
	t.Helper()
	table, err := readTable("draws.csv", strings.NewReader(drawsCSV))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestRank: pairs by hand. Draws are paired by number, in any order of rows; points of different models are not compared.
func TestRank(t *testing.T) {
	for _, c := range []struct {
		column string
		groups []string
		want   string
	}{
		{"output_tokens_per_s", nil, "[m a b 4 2.5 0.625 tie] [m a c 3 2 0.6666666666666666 tie] [m b c 3 1.5 0.5 tie]"},
		{"ttft_mean_ms", nil, "[m a b 4 4 1 wins] [m a c 3 3 1 wins] [m b c 3 1.5 0.5 tie]"},
		{"output_tokens_per_s", []string{"gpus"}, "[m 8 b c 3 1.5 0.5 tie]"},
	} {
		r, err := draws(t).Rank("--rank", c.column, "--group", c.groups...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Trim(fmt.Sprint(r.Rows), "[]"); got != strings.Trim(c.want, "[]") {
			t.Errorf("%s by %v:\n%s\nwant\n%s", c.column, c.groups, got, c.want)
		}
	}
}

// TestRankOfTraces: points of different traces are not compared, as they serve other requests.
func TestRankOfTraces(t *testing.T) {
	table, err := readTable("draws.csv", strings.NewReader("point,draw,run.trace,node.gpus,run.seed,status,error,config_sha256,output_tokens_per_s\n"+
		"a,1,chat,4,1,done,,x,10\nb,1,chat,8,1,done,,x,9\nc,1,long,4,1,done,,x,3\nd,1,long,8,1,done,,x,2\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := table.Rank("--rank", "output_tokens_per_s", "--group")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Rows), "[[chat a b 1 1 1 wins] [long c d 1 1 1 wins]]"; got != want || r.Columns[0] != "run.trace" {
		t.Errorf("%v: %s, want %s", r.Columns, got, want)
	}
}

// TestRankOfOneTrace: keys that all points share are not in the names of groups.
func TestRankOfOneTrace(t *testing.T) {
	table, err := readTable("draws.csv", strings.NewReader("point,draw,run.trace,run.model,output_tokens_per_s\na,1,chat,m,10\nb,1,chat,m,9\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := table.Rank("--rank", "output_tokens_per_s", "--group")
	if err != nil || fmt.Sprint(r.Rows) != "[[a b 1 1 1 wins]]" {
		t.Errorf("%v, %v", r, err)
	}
}

// TestSureRank: a point that wins exactly 90% of the draws wins; with fewer it is a tie.
func TestSureRank(t *testing.T) {
	for losses, want := range map[int]string{0: "wins", 2: "wins", 3: "tie", 10: "tie"} {
		table := &Table{Columns: []string{PointColumn, DrawColumn, "output_tokens_per_s"}}
		for i := range 20 {
			mine := 2
			if i < losses {
				mine = 0
			}
			table.Add("a", i+1, mine)
			table.Add("b", i+1, 1)
		}
		r, err := table.Rank("--rank", "output_tokens_per_s", "--group")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Value(0, "verdict").String(); got != want {
			t.Errorf("%d of 20 draws lost: %s, want %s", losses, got, want)
		}
	}
}

// TestRankIsOfPairs: the winner of a pair is first even if the other wins more against all others.
func TestRankIsOfPairs(t *testing.T) {
	table := &Table{Columns: []string{PointColumn, DrawColumn, "output_tokens_per_s"}}
	for i, values := range [][3]int{{3, 2, 1}, {3, 2, 1}, {1, 3, 2}} { // a, b, c; b always beats c, a only twice
		for p, v := range values {
			table.Add(string(rune('a'+p)), i+1, v)
		}
	}
	for i := range 4 { // a has fewer draws, so fewer wins in all
		table.Add("b", 4+i, 2)
		table.Add("c", 4+i, 1)
	}
	r, err := table.Rank("--rank", "output_tokens_per_s", "--group")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Rows); got != "[[a b 3 2 0.6666666666666666 tie] [b c 7 7 1 wins] [a c 3 2 0.6666666666666666 tie]]" {
		t.Errorf("got %s", got)
	}
}

func TestBadRank(t *testing.T) {
	for _, c := range []struct{ column, group, want string }{
		{"output_tokens", "", `did you mean "output_tokens_per_s"?`},
		{"iterations", "", "a column that is better higher or lower"},
		{"ttft_mean_ms", "gpu", `--group = "gpu"`},
		{"ttft_mean_ms", "system", "two points of one model and trace"},
	} {
		var groups []string
		if c.group != "" {
			groups = append(groups, c.group)
		}
		if _, err := draws(t).Rank("--rank", c.column, "--group", groups...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s by %s: got %v, want %s", c.column, c.group, err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "results.csv")
	if err := os.WriteFile(file, []byte("point,status\na,done\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDraws(file); err == nil || !strings.Contains(err.Error(), "l3sim sweep --bands N") {
		t.Errorf("a file without draws: %v", err)
	}
}

// TestColumnsOfDraws: a percentile over draws has its metric's direction; a metric's own percentile is not one
// over draws.
func TestColumnsOfDraws(t *testing.T) {
	for name, want := range map[string]Column{
		"output_tokens_per_s_p10": {Better: Higher, Unit: "tokens/s", Kind: Real},
		"ttft_p99_ms_p90":         {Better: Lower, Unit: "ms", Kind: Real},
		"draws":                   {Kind: Integer}, "draw": {Kind: Integer},
	} {
		c := Describe(name)
		if c.Name != name || c.Better != want.Better || c.Unit != want.Unit || c.Kind != want.Kind || c.Meaning == "" || c.Label == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for _, name := range []string{"tbt_p90_ms", "decode_batch_mean", "other_p10"} {
		if strings.Contains(Describe(name).Meaning, "over draws") {
			t.Errorf("%s is described as a percentile over draws", name)
		}
	}
}
