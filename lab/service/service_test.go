package service

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
)

// judged judges the built-in measurements once for all tests.
func judged(t *testing.T) *Report {
	t.Helper()
	r, err := judgedOnce()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var judgedOnce = sync.OnceValues(func() (*Report, error) { return judge(0) })

func judge(workers int) (*Report, error) {
	m, err := Builtin()
	if err != nil {
		return nil, err
	}
	return Judge(context.Background(), m, Options{Workers: workers})
}

// TestBuiltin: every built-in row is in one series, and is fitted, held out or does not fit in
// memory; nearly all that do not fit are found.
func TestBuiltin(t *testing.T) {
	deep.Heavy(t)
	r := judged(t)
	rows, spill, correct := 0, 0, 0
	for _, e := range r.Series {
		rows += e.Rows
		spill += e.Spill
		correct += e.SpillCorrect
		if e.Fitted+e.HeldOut+e.Spill != e.Rows || e.HeldOut < e.Fitted {
			t.Errorf("%+v: rows do not add up", e)
		}
	}
	// 312 lines of argonne.csv, two of CENT's files with 8 each, 89 of aiconfigurator.csv.
	if len(r.Series) != 21 || rows != 312+16+89 || len(r.Rows) != rows {
		t.Errorf("%d series, %d rows", len(r.Series), rows)
	}
	if spill < 35 || correct*10 < spill*9 {
		t.Errorf("%d of %d rows that do not fit are found", correct, spill)
	}
	if len(r.Overheads) != 6 {
		t.Errorf("overheads %+v", r.Overheads)
	}
	for _, o := range r.Overheads {
		fitted := 0
		for _, e := range r.Series {
			if e.Framework == o.Framework && e.GPU == o.GPU {
				fitted += e.Fitted
			}
		}
		if o.PerStep < 0 || o.PerToken < 0 || o.Fitted == 0 || o.Fitted != fitted {
			t.Errorf("overhead %+v, %d rows are fitted", o, fitted)
		}
	}
}

// TestSpillsOfArgonne: on the A100s, the latency of Llama-2-70B doubles once 32K tokens are in
// memory with TensorRT-LLM, and 16K with vLLM, as read off the file by hand.
func TestSpillsOfArgonne(t *testing.T) {
	deep.Heavy(t)
	least := map[string]int{"TensorRT-LLM": 16 * 2048, "vLLM": 16 * 1024}
	r := judged(t)
	for i := range r.Rows {
		j := &r.Rows[i]
		if j.GPU != "a100" || j.Model != "llama-2-70b" {
			continue
		}
		if want := j.Batch*(j.Input+j.Output) >= least[j.Framework]; want != (j.Spills != fits) {
			t.Errorf("%s:%d: spills %q", j.File, j.Line, j.Spills)
		}
	}
}

// TestWorkers: any number of workers gives the same bytes.
func TestWorkers(t *testing.T) {
	deep.Only(t)
	text := func(workers int) string {
		var b bytes.Buffer
		r, err := judge(workers)
		if err != nil {
			t.Fatal(err)
		}
		for _, write := range []error{results.WriteJSON(&b, r), r.WriteText(&b), r.WriteRows(&b)} {
			if write != nil {
				t.Fatal(write)
			}
		}
		return b.String()
	}
	if text(1) != text(5) {
		t.Error("results differ with the number of workers")
	}
}

// TestWaves: TensorRT-LLM admits only requests that can finish, so a batch that is too large runs
// in waves, each with a step for each token; vLLM's requests lose their memory instead.
func TestWaves(t *testing.T) {
	deep.Heavy(t)
	r := judged(t)
	for i := range r.Rows {
		j := &r.Rows[i]
		if j.Framework == "TensorRT-LLM" && j.Steps%int64(j.Output) != 0 {
			t.Errorf("%s:%d: %d steps for %d tokens", j.File, j.Line, j.Steps, j.Output)
		}
	}
}

// TestMemory: the memory model's verdict in clear cases.
func TestMemory(t *testing.T) {
	const head = "gpu,gpus,framework,model,in_tokens,out_tokens,batch,latency_s\n"
	for _, c := range []struct {
		row    string
		spills string
		queued bool
	}{
		{"a100-sxm-80gb,1,vLLM,llama-2-7b,128,128,16,1", fits, false},
		{"a100-sxm-80gb,1,vLLM,llama-2-7b,2048,1,64,1", tooMuch, false}, // prompts leave when they are done
		{"a100-sxm-80gb,1,vLLM,llama-2-7b,2048,64,64,1", tooMuch, true},
		{"a100-sxm-80gb,1,TensorRT-LLM,llama-2-7b,1024,1024,128,1", tooMuch, true},
		{"a100-sxm-80gb,1,vLLM,llama-2-70b,16,16,1,1", tooMuch, true},     // not even the weights
		{"a100,4,TensorRT-LLM,llama-2-70b,2048,2048,64,1", tooMuch, true}, // nor the prompts' activations
	} {
		m, err := Read(write(t, head+c.row+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Judge(t.Context(), m, Options{})
		if err != nil {
			t.Fatal(c.row, err)
		}
		if j := r.Rows[0]; j.Spills != c.spills || j.Queued != c.queued {
			t.Errorf("%s: spills %q, queued %v", c.row, j.Spills, j.Queued)
		}
	}
}

// TestSettings: the caller's settings override a framework's.
func TestSettings(t *testing.T) {
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	m.Rows = m.Rows[:20]
	slow := Options{Configs: configs.Options{Sets: []string{`gpu.memory_bandwidth="0.1TB/s"`}}}
	a, err := Judge(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Judge(t.Context(), m, slow)
	if err != nil {
		t.Fatal(err)
	}
	if b.Rows[0].Simulated < 5*a.Rows[0].Simulated {
		t.Errorf("%v s, with a fifteenth of the bandwidth %v s", a.Rows[0].Simulated, b.Rows[0].Simulated)
	}
}

// TestSettingsOrder: the caller's settings come before a framework's.
func TestSettingsOrder(t *testing.T) {
	deep.Only(t)
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	half := Options{Configs: configs.Options{Sets: []string{"gpu.memory_share=0.5"}}}
	r, err := Judge(t.Context(), m, half)
	if err != nil {
		t.Fatal(err)
	}
	before, after := 0, 0
	for _, e := range judged(t).Series {
		before += e.Spill
	}
	for _, e := range r.Series {
		after += e.Spill
	}
	if after < before+20 {
		t.Errorf("%d rows do not fit 0.9 of the memory, %d a half", before, after)
	}
}

// write writes a CSV file and, if given, the table beside it.
func write(t *testing.T, text string, table ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, content := range append([]string{text}, table...) {
		if err := os.WriteFile(filepath.Join(dir, []string{"rows.csv", TableName}[i]), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "rows.csv")
}

// TestReadErrors: errors in files name the place.
func TestReadErrors(t *testing.T) {
	const head, row = "gpu,gpus,framework,model,in_tokens,out_tokens,batch,latency_s\n", "h100,1,vLLM,llama-2-7b,128,128,16,1.5\n"
	loop := strings.Replace(head, "latency_s", "ttft_ms,tpot_ms", 1)
	for _, c := range []struct{ text, table, want string }{
		{"", "", "rows.csv: expected a header line"},
		{head, "", "rows.csv: expected at least one row after the header"},
		{"a,b\n1,2\n", "", `rows.csv:1: columns = a,b: expected gpu,gpus,framework,model,in_tokens,out_tokens,batch,latency_s; "gpu" is missing, and no service.toml gives it`},
		{head + row + "h100,0,vLLM,llama-2-7b,128,128,16,1.5\n", "", `rows.csv:3: gpus = "0": expected a whole number from 1 to 4096`},
		{head + "h100,1,vLLM,llama-2-7b,128,x,16,1.5\n", "", `rows.csv:2: out_tokens = "x": expected a whole number`},
		{head + "h100,1,vLLM,llama-2-7b,128,128,16,NaN\n", "", `rows.csv:2: latency_s = "NaN": expected seconds`},
		{head + "h100,1,vLLM,llama-2-7b,128,128,16,0\n", "", `rows.csv:2: latency_s = "0": expected seconds`},
		{head + "h100,1,vLLM,llama-2-7b,128,128,16,-1\n", "", `rows.csv:2: latency_s = "-1": expected seconds`},
		{head + ",1,vLLM,llama-2-7b,128,128,16,1\n", "", `rows.csv:2: gpu = "": expected a name`},
		{head + "h100,1,vLLM,llama-2-7b,1048576,128,16,1\n", "", `rows.csv:2: batch = "16": expected at most 1048576 prompt tokens in all`},
		{loop + "h100,1,vLLM,llama-2-7b,128,1,16,100,10\n", "", `rows.csv:2: out_tokens = "1": expected at least 2`},
		{loop + "h100,1,vLLM,llama-2-7b,128,128,16,0,10\n", "", `rows.csv:2: ttft_ms = "0": expected milliseconds, 0.001 to 1e+12`},
		{loop + "h100,1,vLLM,llama-2-7b,128,128,16,1,x\n", "", `rows.csv:2: tpot_ms = "x": expected milliseconds`},
		{strings.Replace(loop, ",tpot_ms", "", 1) + row, "", `"tpot_ms" is missing`},
		{head + row, "[framework.vLLM]\nwaiting = -1\n", `service.toml:2: framework.vLLM.waiting = -1: expected 0 to 65536`},
		{head + "h100,1\n", "", "rows.csv:2: wrong number of fields"},
		{head + "h10,1,vLLM,llama-2-7b,128,128,16,1\n", "", `rows.csv:2: gpu = "h10": expected one of a100, `},
		{head + "h10,1,vLLM,llama-2-7b,128,128,16,1\n", "", `did you mean "h100"?`},
		{head + "h100,1,vLMM,llama-2-7b,128,128,16,1\n", "", `rows.csv:2: framework = "vLMM": expected one of TensorRT-LLM, TensorRT-LLM 1.0, vLLM; did you mean "vLLM"?`},
		{head + "h100,1,vLLM,llama-2-7,128,128,16,1\n", "", `rows.csv:2: model = "llama-2-7": expected one of `},
		{head + "h100,1,vLLM,llama-2-7,128,128,16,1\n", "", `did you mean "llama-2-7b"?`},
		{head + "h100,3,vLLM,llama-2-7b,128,128,16,1\n", "", `rows.csv:2: model.tensor_parallel = 3: expected a divisor of kv_heads = 32`},
		{head + "none.toml,1,vLLM,llama-2-7b,128,128,16,1\n", "", `rows.csv:2: gpu = "none.toml": expected one of a100, `},
		{head + row, "[gpus]\na = 1\n", `service.toml:1: gpus: expected one of file, framework, gpu; did you mean "gpu"?`},
		{head + row, "[file.\"a.csv\"]\ngpu = \"h100\"\nin_token = 1\n", `service.toml:3: file."a.csv".in_token: expected one of batch, columns, framework, gpu, gpus, in_tokens, model, out_tokens, skip; did you mean "in_tokens"?`},
		{head + row, "[framework.vLLM]\nSet = []\n", `service.toml:2: framework.vLLM.Set: expected one of set, waiting, whole_prompts; did you mean "set"?`},
		{head + row, "[file.\"a.csv\".columns]\nbatchs = \"b\"\n", `service.toml:2: file."a.csv".columns.batchs: expected one of batch, `},
		{head + row, "[file.\"a.csv\"]\ngpus = \"4\"\n", `service.toml:2: file."a.csv".gpus: expected a whole number`},
		{head + row, "gpu = 1\n", `service.toml:1: gpu: expected a table`},
		{head + row, "[framework.vLLM]\nset = [1]\n", `service.toml:2: framework.vLLM.set: expected a string, not a whole number`},
		{head + row, "[framework.vLLM]\nset = [\"gpu_only.polcy=1\"]\n", `rows.csv:2: --set: gpu_only.polcy = 1: expected `},
		{head + row, "[file.\"rows.csv\"]\nskip = \"mine\"\n", "rows.csv: expected static batches or closed loops, not mine"},
	} {
		m, err := Read(write(t, c.text, c.table))
		if err == nil {
			_, err = Judge(t.Context(), m, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q with %q:\n got %v\nwant %s", c.text, c.table, err, c.want)
		}
	}
}

// TestTable: a table fills in columns that a file lacks, and defines its own framework and GPU.
func TestTable(t *testing.T) {
	m, err := Read(write(t, "Batch; in s\n", ""))
	if err == nil {
		t.Fatal("a file without columns was read", m)
	}
	m, err = Read(write(t, "n,took,note\n8,1.5,a\n16,2.5,b\n", `
[gpu]
ours = "h200-sxm"
[framework.mine]
set = ["batching.page_tokens=32"]
[file."rows.csv"]
gpu = "ours"
gpus = 2
framework = "mine"
model = "llama-2-7b"
in_tokens = 100
out_tokens = 200
columns = { batch = "n", latency_s = "took" }
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Row{Series: Series{"ours", 2, "mine", "llama-2-7b"}, Input: 100, Output: 200, Batch: 16, Latency: 2.5, File: m.Rows[1].File, Line: 3}
	if len(m.Rows) != 2 || m.Rows[1] != want {
		t.Errorf("rows %+v", m.Rows)
	}
	r, err := Judge(t.Context(), m, Options{})
	if err != nil || r.Series[0].HeldOut != 2 || r.Series[0].Fitted != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzRead: no text crashes the program or gives rows out of range.
func FuzzRead(f *testing.F) {
	f.Add("gpu,gpus,framework,model,in_tokens,out_tokens,batch,latency_s\nh100,1,vLLM,llama-2-7b,128,128,16,1.5\n", "")
	f.Add("n,took\n8,1.5\n", "[file.\"rows.csv\"]\ngpu = \"h100\"\ngpus = 2\nframework = \"vLLM\"\nmodel = \"m\"\nin_tokens = 1\nout_tokens = 2\ncolumns = { batch = \"n\", latency_s = \"took\" }\n")
	f.Fuzz(func(t *testing.T, text, table string) {
		known, err := parseTable(TableName, table)
		if err != nil {
			return
		}
		about := known.File["rows.csv"]
		rows, err := parse("rows.csv", strings.NewReader(text), &about)
		if (err == nil) != (len(rows) > 0) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, r := range rows {
			if r.Batch*r.Input < 1 || r.Batch*r.Input > maxPrompts || r.Output < 1 || r.GPUs < 1 || !(r.Latency >= minLatency && r.Latency <= maxLatency) {
				t.Fatalf("row %+v", r)
			}
		}
	})
}
