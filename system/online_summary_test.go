package system

import (
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestOnlineSummaryByHand: two requests on a server for one; the second waits for the first.
func TestOnlineSummaryByHand(t *testing.T) {
	cfg, node, service := serverOf(t, 1, 1, 12)
	requests := equalLengths(2, 1, 12)
	requests[1].Arrival = units.Millisecond
	r := mustRun(t, node, &traces.Trace{Requests: requests}, false)
	s, err := r.Summary(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ms := func(d units.Duration) float64 { return 1e3 * d.Seconds() }
	wait, prompt := service-units.Millisecond, r.Requests[0].FirstToken
	for what, c := range map[string][2]float64{
		"queue":              {s.Queue.Mean, ms(wait) / 2},
		"longest queue":      {s.Queue.Max, ms(wait)},
		"TTFT":               {s.TTFT.Mean, ms(prompt) + ms(wait)/2},
		"TPOT":               {s.TPOT.Max, ms(service-prompt) / 11},
		"tokens/s per user":  {s.TokensPerSPerUser, 1000 / (ms(service-prompt) / 11)},
		"end to end":         {s.E2E.Max, ms(service + wait)},
		"requests a second":  {s.RequestsPerS, 1 / service.Seconds()},
		"tokens a second":    {s.TotalTokensPerS, 13 / service.Seconds()},
		"output a second":    {s.OutputTokensPerS, 12 / service.Seconds()},
		"goodput":            {s.Goodput.TokensPerS, 12 / service.Seconds()},
		"requests of it":     {s.Goodput.RequestsPerS, 1 / service.Seconds()},
		"attainment":         {s.Goodput.Attainment, 1},
		"in the system":      {s.RequestsInSystem, (service + service + wait).Seconds() / (2 * service.Seconds())},
		"rate":               {s.Arrivals.RatePerS, 1000},
		"simulated time (s)": {s.SimulatedS, 2 * service.Seconds()},
	} {
		if math.Abs(c[0]-c[1]) > 1e-9*c[1] {
			t.Errorf("%s: %v, want %v", what, c[0], c[1])
		}
	}
	if s.Arrivals.Kind != traces.ArrivalsTrace || s.Saturated {
		t.Errorf("%+v, saturated %v", s.Arrivals, s.Saturated)
	}

	// A user who thinks for a second sends the second request one service time and one second after
	// the first.
	cfg.Arrivals.Kind, cfg.Arrivals.Users, cfg.Arrivals.ThinkTime = traces.ArrivalsClosed, 1, units.Second
	s, err = mustRun(t, node, coming(t, cfg, equalLengths(3, 1, 12)), false).Summary(cfg)
	if want := 2 / (3 + 2*service.Seconds()); err != nil || math.Abs(s.Arrivals.RatePerS-want) > 1e-9 {
		t.Errorf("a rate of %v, want %v (%v)", s.Arrivals.RatePerS, want, err)
	}
}

// TestPrefillStreak: while prompts keep arriving, decoding requests wait for exactly the allowed
// number of prompt-only iterations.
func TestPrefillStreak(t *testing.T) {
	for _, system := range []string{"gpu-only", "cpu-offload"} {
		longest := func(streak int) (most int) {
			cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=llama-3-8b", "node.gpus=1", "batching.max_num_batched_tokens=2048", fmt.Sprint("serving.prefill_streak=", streak)}})
			if err != nil {
				t.Fatal(err)
			}
			r := mustNode(t, cfg).replica(0, equalLengths(40, 2000, 30), Options{})
			for i := range r.requests {
				r.assembly.Batcher.Add(int32(i))
			}
			run, decodes := 0, 0
			for {
				b := r.assembly.Batcher.Next()
				if b.Empty() {
					return most
				}
				if run++; b.Decoding() > 0 || decodes == 0 {
					run = 0
				}
				most = max(most, run)
				r.assembly.Batcher.Complete(func(_ int32, tokens int) {
					if tokens == 1 {
						decodes++
					}
				})
			}
		}
		if none, one, three := longest(0), longest(1), longest(3); none < 35 || one != 1 || three != 3 {
			t.Errorf("%s: %d, %d and %d iterations of prompts in a row without a limit, with 1 and with 3", system, none, one, three)
		}
	}
}
