package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/traces"
)

// TestCommonRequestsDependOnTheHardware: points that name the same trace, but drop different
// requests because of their memories, do not share one.
func TestCommonRequestsDependOnTheHardware(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte("num_prefill_tokens,num_decode_tokens\n100,3\n100000,3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := plan(t, fmt.Sprintf("[set]\nrun.model = \"llama-2-7b\"\nrun.trace = %q\nrun.common_to = \"l3\"\n[grid]\nnode.memory_capacity = [\"256GiB\", \"16TiB\"]\n", path))
	for i, want := range []int{1, 2} {
		if got := p.Points[i].Requests; got != want {
			t.Errorf("%s: %d requests, want %d", p.Points[i].Name, got, want)
		}
		trace, err := p.cache.trace(config(t, p, i))
		if err != nil || len(trace.Requests) != want {
			t.Errorf("%s: runs %d requests, %v", p.Points[i].Name, len(trace.Requests), err)
		}
	}
}

// TestDrawnLengths: if a file's lengths are drawn, every seed has its own requests; otherwise all
// seeds have the same.
func TestDrawnLengths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte("num_prefill_tokens,num_decode_tokens\n1,10\n2,20\n3,30\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for distribution, same := range map[string]bool{"auto": true, "empirical": false} {
		p := plan(t, "[set]\nrun.model = \"llama-2-7b\"\nrun.requests = 3\nrun.trace = '"+path+"'\ntraces.distribution = \""+distribution+"\"\n[grid]\nrun.seed = [1, 2]\n")
		var hashes []string
		for i := range p.Points {
			info, err := p.cache.info(config(t, p, i))
			if err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, info.hash)
		}
		if len(hashes) != 2 || (hashes[0] == hashes[1]) != same {
			t.Errorf("%s: %v", distribution, hashes)
		}
	}
}

// TestKeptTraces: a fixed number of recently used traces stay in memory; an evicted one is read again.
func TestKeptTraces(t *testing.T) {
	var seeds []string
	for seed := range keptTraces + 3 {
		seeds = append(seeds, fmt.Sprint(seed))
	}
	p := plan(t, "[set]\nrun.model = \"llama-2-7b\"\nrun.requests = 3\nrun.trace = 'synthetic'\ntraces.input_mean = 10\ntraces.output_mean = 10\n[grid]\nrun.seed = ["+strings.Join(seeds, ", ")+"]\n")
	p.cache = newTraceCache() // a plan reads traces in any order
	var all []*traces.Trace
	for i := range p.Points {
		trace, err := p.cache.trace(config(t, p, i))
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, trace); len(p.cache.kept) > keptTraces {
			t.Fatalf("%d traces are kept, want at most %d", len(p.cache.kept), keptTraces)
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		again, err := p.cache.trace(config(t, p, i))
		if kept := i >= len(all)-keptTraces; err != nil || (again == all[i]) != kept || hashTrace(again) != hashTrace(all[i]) {
			t.Errorf("trace %d of %d: kept %v, %v", i, len(all), again == all[i], err)
		}
	}
}

// TestHashOfSharing: shared prefixes and dependences of requests change a trace's hash.
func TestHashOfSharing(t *testing.T) {
	seen := map[string]int{}
	for i, r := range []traces.Request{
		{Input: 5, Output: 6}, {Input: 5, Output: 6, Hashes: []uint64{1}}, {Input: 5, Output: 6, Hashes: []uint64{2}}, {Input: 5, Output: 6, Turn: &traces.Turn{}},
		{Input: 5, Output: 6, Turn: &traces.Turn{Number: 1}}, {Input: 5, Output: 6, Turn: &traces.Turn{Number: 1, Waits: true}}, {Input: 5, Output: 6, Turn: &traces.Turn{Number: 1, Waits: true, Think: 3}},
	} {
		hash := hashTrace(&traces.Trace{Requests: []traces.Request{r}})
		if k, twice := seen[hash]; twice {
			t.Errorf("%d and %d have one hash", k, i)
		}
		seen[hash] = i
	}
}
