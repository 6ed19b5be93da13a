package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// handFolder writes a folder with the given command, base keys and results.
func handFolder(t *testing.T, base tables.Base, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, tables.ResultsFile, strings.Join(lines, "\n")+"\n")
	if err := results.WriteFiles(dir, []results.File{base.InFile()}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSetByHand: everything that a page shows of a small folder. Point a has two seeds (1 and 3 tokens/s: mean 2, deviation √2), and
// so has b; c has no cost and exceeds what boards hold; one seed of d failed.
func TestSetByHand(t *testing.T) {
	base := tables.Base{Command: "sweep", Version: "0123456789abcdef", Configs: []string{"a b.toml", "c.toml"}, Sets: []string{"run.requests=4", "node.ranksets=7"},
		Keys: map[string]string{"run.model": "base-model", "gpu.preset": "a100", "node.gpus": "8", "dram.preset": "ddr5", "run.requests": "4", "prices.name": "p", "prices.date": "2025-12-01"}}
	dir := handFolder(t, base,
		"point,run.system,node.ranksets,node.memory_capacity_bytes,run.trace,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms,usd_per_million_output_tokens,beyond_boards,e2e_mean_s",
		"a,l3,5,1073741824,chat,0,done,,x,1,10,4,false,1.23456789",
		"a,l3,5,1073741824,chat,1,done,,x,3,14,4,false,1.23456789",
		"b,gpu-only,7,2147483648,chat,0,done,,y,4,20,6,false,2",
		"b,gpu-only,7,2147483648,chat,1,done,,y,4,20,8,false,2",
		"c,l3,9,1073741824,chat,0,done,,z,5,30,,true,3",
		"d,l3,11,1073741824,chat,0,done,,w,9,1,1,false,3",
		"d,l3,11,1073741824,chat,1,failed,bad,w,,,,,")
	r, err := Read([]string{dir}, Options{Goals: "max output_tokens_per_s, min tbt_p99_ms"})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sets[0]
	check := func(what string, got any, want string) {
		t.Helper()
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want {
			t.Errorf("%s:\n%s\nwant\n%s", what, text, want)
		}
	}
	check("counts", []int{s.Points, s.Failed}, `[3,1]`)
	check("seeds", s.Seeds, `[2,2,1]`)
	check("names", s.Names, `["a","b","c"]`)
	check("signs", s.Signs, `["",""," †"]`)
	check("goals", s.Goals, `[{"column":"output_tokens_per_s","label":"throughput (output tokens/s)","maximize":true},{"column":"tbt_p99_ms","label":"TBT p99 (ms)","maximize":false}]`)
	check("front", s.Front, `[2,1,0]`)
	check("best", s.Best, `[1,0]`)
	check("spread", s.Spread, `[[1.41,2.83],[0,0],[0,0]]`)
	check("badges", s.Badges, `[{"name":"model","value":"base-model"},{"name":"system","value":"l3, gpu-only"},{"name":"GPU","value":"a100"},{"name":"GPUs","value":"8"},{"name":"DRAM","value":"ddr5"},{"name":"DIMM memory","value":"1GiB, 2GiB"},{"name":"ranksets","value":"5, 7, 9"},{"name":"trace","value":"chat"},{"name":"requests","value":"4"},{"name":"prices","value":"p of 2025-12-01"},{"name":"l3sim","value":"0123456789ab"}]`)
	check("columns", s.Columns, `[{"name":"point","label":"point","key":false,"better":0,"numeric":false},{"name":"run.system","label":"system","key":true,"better":0,"numeric":false},{"name":"node.ranksets","label":"ranksets","key":true,"better":0,"numeric":true},{"name":"node.memory_capacity_bytes","label":"memory capacity","key":true,"better":0,"numeric":true},{"name":"output_tokens_per_s","label":"throughput (output tokens/s)","key":false,"better":1,"numeric":true},{"name":"tbt_p99_ms","label":"TBT p99 (ms)","key":false,"better":-1,"numeric":true},{"name":"usd_per_million_output_tokens","label":"cost (USD per million output tokens)","key":false,"better":-1,"numeric":true},{"name":"beyond_boards","label":"beyond boards","key":false,"better":0,"numeric":false},{"name":"e2e_mean_s","label":"end-to-end mean (s)","key":false,"better":-1,"numeric":true}]`)
	check("constants", s.Constants, `[{"name":"run.trace","value":"chat"}]`)
	check("rows", s.Rows, `[["a","l3",5,1073741824,2,12,4,"false",1.23457],["b","gpu-only",7,2147483648,4,20,7,"false",2],["c","l3",9,1073741824,5,30,null,"true",3]]`)
	check("command", s.Command, `"l3sim run --config 'a b.toml' --config c.toml --set run.requests=4 --set node.ranksets=7"`)
	check("sets", s.Sets, `[" --set 'run.system=\"l3\"' --set node.ranksets=5 --set 'node.memory_capacity=\"1GiB\"' --set 'run.trace=\"chat\"' --set run.seed=0"," --set 'run.system=\"gpu-only\"' --set 'node.memory_capacity=\"2GiB\"' --set 'run.trace=\"chat\"' --set run.seed=0"," --set 'run.system=\"l3\"' --set node.ranksets=9 --set 'node.memory_capacity=\"1GiB\"' --set 'run.trace=\"chat\"' --set run.seed=0"]`)
	check("legend", s.Legend, `["† more DIMMs on a channel than boards of servers have slots at that rate"]`)
	check("answers", s.Answers, `["gpu-only has the highest throughput: 4 output tokens/s (design b), 2 times that of l3 at its best (2, design a). Design c † would have 5 output tokens/s, but no board of a server holds it.","l3 has the lowest time between tokens, 99th percentile: 12 ms (design a), 40% less than gpu-only at its best (20, design b)."]`)
	check("title", r.Title, `"l3, gpu-only serving base-model, trace chat"`)
}

// TestGoalsByHand: without goals a page uses tokens and their time, and the cost if costs differ.
func TestGoalsByHand(t *testing.T) {
	read := func(cost string, o Options, more ...string) (*Report, error) {
		header := "point,run.system,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms,usd_per_million_output_tokens"
		lines := append([]string{header, "a,l3,0,done,,x,1,10,4"}, more...)
		return Read([]string{handFolder(t, tables.Base{Command: "run"}, append(lines, "b,l3,0,done,,y,2,20,"+cost)...)}, o)
	}
	for _, c := range []struct{ cost, goals, columns string }{
		{"4", "", "output_tokens_per_s tbt_p99_ms"},
		{"5", "", "output_tokens_per_s usd_per_million_output_tokens tbt_p99_ms"},
		{"5", "min tbt_p99_ms, max output_tokens_per_s", "tbt_p99_ms output_tokens_per_s"},
	} {
		r, err := read(c.cost, Options{Goals: c.goals})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, g := range r.Sets[0].Goals {
			got += " " + g.Column
			if g.Maximize != (g.Column == "output_tokens_per_s") {
				t.Errorf("%+v", g)
			}
		}
		if got[1:] != c.columns || r.Sets[0].Command != "l3sim run" {
			t.Errorf("cost %s, goals %q: got %s, %s", c.cost, c.goals, got, r.Sets[0].Command)
		}
	}
	if _, err := read("5", Options{Goals: "max nothing, min tbt_p99_ms"}); err == nil || !strings.Contains(err.Error(), `--goals = "nothing": expected a column of `) {
		t.Errorf("goals without a column: %v", err)
	}
	if r, err := read("5", Options{Title: "mine"}); err != nil || r.Title != "mine" {
		t.Errorf("got %v", err)
	}
	// A table of another command has no line that repeats a point.
	if r, err := Read([]string{handFolder(t, tables.Base{Command: "gpu"}, "point,run.system,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms", "a,l3,0,done,,x,1,10")}, Options{}); err != nil || r.Sets[0].Command != "" || r.Sets[0].Sets != nil {
		t.Errorf("%v, %+v", err, r)
	}
	// All designs but one exceed what boards hold: the sentence has nothing to compare with.
	table := &tables.Table{Columns: []string{tables.PointColumn, "run.system", "output_tokens_per_s", "beyond_boards"}}
	table.Add("a", "l3", 100.0, false)
	table.Add("b", "l3", 50.0, true)
	s := &Set{Names: []string{"a", "b"}, Signs: []string{"", " †"}}
	goals, err := table.ParseGoals("", "max output_tokens_per_s, min beyond_boards")
	if err != nil {
		t.Fatal(err)
	}
	if got, row := s.answers(table, goals[0], 0); got != "Design a has the highest throughput: 100 output tokens/s." || row != 0 {
		t.Errorf("%d: %s", row, got)
	}
}
