package service

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestClosedLoop: two users of one slot wait for each other's whole request, so their time to the
// first token is one user's plus a whole request's; the time between tokens is that of one user.
func TestClosedLoop(t *testing.T) {
	const text = "gpu,gpus,framework,model,in_tokens,out_tokens,batch,ttft_ms,tpot_ms\n" +
		"h100,1,one,llama-2-7b,512,100,1,20,8\nh100,1,two,llama-2-7b,512,100,2,20,8\n"
	m, err := Read(write(t, text, "[framework.one]\n[framework.two]\nwaiting = 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := 99 * 8e-3; math.Abs(m.Rows[0].Latency-want) > 1e-12 || m.Rows[0].TTFT != 0.02 {
		t.Errorf("read %+v, want %v s between the first token and the last", m.Rows[0], want)
	}
	r, err := Judge(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	one, two := r.Rows[0], r.Rows[1]
	if want := 2*one.SimulatedTTFT + one.Simulated; math.Abs(two.SimulatedTTFT/want-1) > 1e-9 {
		t.Errorf("two users have their first token after %v s, want %v", two.SimulatedTTFT, want)
	}
	if math.Abs(two.Simulated/one.Simulated-1) > 1e-9 || one.Steps != 99 || two.Steps != 99 {
		t.Errorf("one user %+v, two with a slot %+v", one, two)
	}
}

// TestClosedLoops: errors on AIConfigurator's held-out measurements. With many users on many GPUs the API
// server dominates the time to the first token: lab/docs/validation.md. All-reduces that were up to four
// times too long on several H100s compensated for unmodelled times of these servers: the errors were 0.05
// and 0.21 with them.
func TestClosedLoops(t *testing.T) {
	deep.Turn(t, 1, 2)
	var between, first, few, factor []float64
	for _, j := range judged(t).Rows {
		if j.TTFT == 0 || j.Fitted {
			continue
		}
		off := math.Abs(j.PredictedTTFT/j.TTFT - 1)
		between, first = append(between, math.Abs(j.Error())), append(first, off)
		factor = append(factor, math.Abs(math.Log(j.PredictedTTFT/j.TTFT)))
		if j.Batch <= 32 {
			few = append(few, off)
		}
	}
	for _, c := range []struct {
		name   string
		errors []float64
		rows   int
		bound  float64
	}{
		{"time between tokens", between, 71, 0.06},
		{"time to the first token", first, 71, 0.23},
		{"that of up to 32 users", few, 44, 0.18},
	} {
		slices.Sort(c.errors)
		if median := rank(c.errors, 0.5); len(c.errors) != c.rows || median > c.bound {
			t.Errorf("%s of %d rows: median error %.3f, want %v of %d", c.name, len(c.errors), median, c.bound, c.rows)
		}
	}
	sum := 0.0
	for _, f := range factor {
		sum += f
	}
	if typical := math.Exp(sum / float64(len(factor))); typical > 1.45 {
		t.Errorf("the time to the first token is off by a factor of %.2f, as a geometric mean", typical)
	}
}

// TestAPIServerOfLoops: the two times of service.toml are the pair of their grid with the least error over the fitted rows.
func TestAPIServerOfLoops(t *testing.T) {
	if !deep.Long() {
		t.Skip("66 times all closed loops; L3SIM_LONG=1 runs them")
	}
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.users() == 0 })
	least, best := math.Inf(1), ""
	for request := 0; request <= 25; request += 5 {
		for token := 0; token <= 100; token += 10 {
			pair := []string{fmt.Sprintf("serving.api_request=%dms", request), fmt.Sprintf("serving.api_token=%dus", token)}
			r, err := Judge(t.Context(), m, Options{Configs: configs.Options{Sets: pair}})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, j := range r.Rows {
				if j.Fitted {
					sum += math.Abs(math.Log(j.PredictedTTFT/j.TTFT)) + math.Abs(j.Error())
				}
			}
			if sum < least {
				least, best = sum, strings.Join(pair, " ")
			}
		}
	}
	if best != "serving.api_request=5ms serving.api_token=90us" {
		t.Errorf("the best pair is %s", best)
	}
}
