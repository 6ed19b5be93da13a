package plan

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/units"
)

// TestBindsOfUsers: a resource binds if doubling it adds at least one user. Three users wait for up to two and a half services. Two slots, or twice
// the target, hold six. GPUs of twice the bandwidth take somewhat more than half the time, and hold four but not six. Memory, compute, links and
// chunks do not matter with one request at a time.
func TestBindsOfUsers(t *testing.T) {
	_, trace, prompt, service := single(t, 60)
	slo := prompt + service*units.Duration(5)/2
	o := configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=1", "batching.max_num_seqs=1", "arrivals.kind=closed-loop", "arrivals.users=5", fmt.Sprintf("slo.ttft=%.6fms", 1e3*slo.Seconds())}}
	cfg, err := AsGiven(o)
	if err != nil {
		t.Fatal(err)
	}
	found, err := (&Search{Precision: 0.02}).Row(t.Context(), o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Bind{{"batch limit", 1}, {"target TTFT", 1}, {"GPU bandwidth", 0.25}}; found.Users != 3 || !reflect.DeepEqual(found.Binds, want) {
		t.Errorf("%d users, bound by %v, want %v", found.Users, found.Binds, want)
	}
}
