package system

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
)

// TestLoadedRequestsByHand: the requests of a file that a configuration names: all, the first, those of a window, cut to the model's context, those
// that two systems can hold, and a number drawn from all. Conflicting settings are named.
func TestLoadedRequestsByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	const rows = "when,in,out,arrival_s,input_tokens,output_tokens\n0,7,2,0,100,10\n1,8,3,2,400,20\n2,9,4,4,90000,30\n"
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	const system = "run.system=gpu-only run.model=llama-3-8b model.context=0 "
	for _, c := range []struct {
		sets string
		want any // prompts, or a part of the error
	}{
		{system, []int{100, 400, 90_000}},
		{system + "run.requests=2", []int{100, 400}},
		{system + "run.columns=input=in,output=out,arrival=when,unit=s", []int{7, 8, 9}},
		{system + "arrivals.window=1s:3s", []int{400}},
		{system + "model.context=300 serving.beyond_context=clip", []int{100, 299, 299}}, // and a token of output
		{system + "model.context=300 serving.beyond_context=warn", []int{100, 400, 90_000}},
		{system + "run.common_to=gpu-only", []int{100, 400, 90_000}},
		{system + "gpu_only.kv_tokens=1000 memory.admission=final run.common_to=gpu-only", []int{100, 400}},
		{system + "gpu_only.kv_tokens=16 memory.admission=final run.common_to=gpu-only", `run.common_to = "gpu-only": expected systems that can all hold one of the 3 requests of `},
		{system + "traces.prefix_tokens=64", "traces.prefix_tokens = 64: expected 0 with run.trace = "},
	} {
		cfg, err := everything().Load(configs.Options{Sets: append(strings.Fields(c.sets), fmt.Sprintf("run.trace=%q", path))})
		if err != nil {
			t.Errorf("%s: %v", c.sets, err)
			continue
		}
		trace, err := LoadRequests(cfg)
		if want, bad := c.want.(string); bad {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", c.sets, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.sets, err)
			continue
		}
		var got []int
		for i := range trace.Requests {
			got = append(got, trace.Requests[i].Input)
		}
		if !slices.Equal(got, c.want.([]int)) {
			t.Errorf("%s: prompts of %v tokens, want %v", c.sets, got, c.want)
		}
	}
	// The moments of a trace are those of its requests, for built-in traces and files. Columns are for files alone, and requests can be drawn from
	// a file.
	for _, sets := range []string{"run.requests=40", "run.requests=40 traces.prefix_tokens=64", "run.requests=40 arrivals.window=0s:1s", "run.trace=" + path, "run.trace=" + path + " run.requests=7 traces.distribution=empirical", "run.requests=40 serving.beyond_context=clip model.context=512"} {
		cfg, err := everything().Load(configs.Options{Sets: append(strings.Fields(system+sets), "arrivals.kind=poisson", "arrivals.rate_per_s=100")})
		if err != nil {
			t.Errorf("%s: %v", sets, err)
			continue
		}
		trace, err := LoadTrace(cfg)
		if err != nil {
			t.Errorf("%s: %v", sets, err)
			continue
		}
		if got, err := TraceMoments(cfg); err != nil || got != trace.Moments() || got == (traces.Moments{}) {
			t.Errorf("%s: %+v, %v, of the requests %+v", sets, got, err, trace.Moments())
		}
	}
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.columns=input=in,output=out"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRequests(cfg); err == nil || !strings.Contains(err.Error(), "run.columns = \"input=in,output=out\": expected none with run.trace = ") {
		t.Errorf("columns of a built-in trace: %v", err)
	}
}
