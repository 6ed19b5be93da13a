package plan

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
)

var (
	bruteForce    = flag.Bool("brute", false, "search every point of the grid of each question, and write testdata/questions.json")
	firstQuestion = flag.Int("question.first", 0, "number of the first question")
	questions     = flag.Int("questions", 3, "how many questions are searched point by point, from the first on")
)

const questionsFile = "testdata/questions.json"

// truth is the result of a search of every point of the grid.
type truth struct {
	Question int      `json:"question"`
	Sets     []string `json:"set"`
	Trace    string   `json:"trace"`
	Points   int      `json:"points"`   // valid points of the grid
	Best     []string `json:"best"`     // settings of the best point
	Rate     float64  `json:"rate"`     // its highest rate
	Requests int64    `json:"requests"` // that a search of every point simulates, extrapolated from some
}

// question returns the options and the trace of a numbered question: a system, a model of four layers, a GPU, lengths
// and targets.
func question(t testing.TB, number int) (configs.Options, *traces.Trace, string) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(number), 48))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	system := []string{"l3", "gpu-only", "hbm-pim"}[number%3]
	prompt, answer := 100+r.IntN(4000), 20+r.IntN(300)
	o := configs.Options{Sets: []string{
		"run.system=" + system, "run.model=" + pick("llama-3-8b", "llama-2-7b", "llama-3-70b"), "model.layers=4", "run.requests=2500",
		"gpu.preset=" + pick("a100-sxm-80gb", "h100-sxm", "h200-sxm"), "node.gpus=" + pick("1", "2", "4"), "arrivals.kind=poisson",
		fmt.Sprintf("slo.ttft=%dms", 50+r.IntN(1000)), fmt.Sprintf("slo.tbt=%dms", 3+r.IntN(25)),
		"run.trace=synthetic", fmt.Sprintf("traces.input_mean=%d", prompt), fmt.Sprintf("traces.input_std=%d", prompt*(20+r.IntN(80))/100),
		fmt.Sprintf("traces.output_mean=%d", answer), fmt.Sprintf("traces.output_std=%d", answer*(20+r.IntN(80))/100),
	}}
	cfg, err := AsGiven(o)
	if err != nil {
		t.Fatal(number, err)
	}
	trace, err := Requests(cfg)
	if err != nil {
		t.Fatal(number, err)
	}
	return o, trace, results.DescribeTrace(trace).Name
}

// brute searches every point of the grid of a question. A point runs once, just above the best so far, and is searched if it holds that
// rate.
func brute(t *testing.T, number int) truth {
	o, trace, name := question(t, number)
	cfg, err := AsGiven(AsServer(o))
	if err != nil {
		t.Fatal(err)
	}
	s := &Search{Precision: 0.01, Tune: true}
	c, err := s.Contest(o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	out := truth{Question: number, Sets: o.Sets, Trace: name}
	var all [][]int
	for i := range c.axes {
		if i == 0 {
			all = [][]int{make([]int, len(c.axes))}
		}
		var more [][]int
		for _, p := range all {
			for v := range c.axes[i].values {
				q := slices.Clone(p)
				q[i] = v
				more = append(more, q)
			}
		}
		all = more
	}
	rand.New(rand.NewPCG(uint64(number), 49)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var mu sync.Mutex
	var best []int
	c.ctx = t.Context()
	group, ctx := errgroup.WithContext(c.ctx)
	group.SetLimit(2)
	for _, p := range all {
		group.Go(func() error {
			e := c.entrant(p, len(trace.Requests))
			if c.open(e) == nil {
				return c.err
			}
			mu.Lock()
			bar := out.Rate * 1.005
			out.Points++
			mu.Unlock()
			if bar == 0 {
				guess, err := e.judge.full(ctx)
				if err != nil {
					c.leave(e, err)
					return c.err
				}
				bar = guess / 2
			}
			if met := c.holds(e, bar); met || out.Rate == 0 {
				if rate := c.climb(e, bar, 0.01); c.err == nil {
					mu.Lock()
					if rate > out.Rate {
						out.Rate, best = rate, p
					}
					mu.Unlock()
				}
			}
			c.mu.Lock()
			delete(c.seen, fmt.Sprint(p, len(trace.Requests), []string(nil)))
			c.mu.Unlock()
			return c.err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if best != nil {
		out.Best = settings(c.axes, best)
	}
	out.Requests = each(t, number) * int64(out.Points)
	return out
}

// sampled are the points of a grid from which the requests of a full search are extrapolated.
const sampled = 6

// each returns the mean number of requests that a search of one point simulates, over some points of a
// question's grid.
func each(t *testing.T, number int) int64 {
	o, trace, _ := question(t, number)
	cfg, err := AsGiven(AsServer(o))
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	s := &Search{Precision: 0.02, Tune: true, Meter: func(n int64) { requests.Add(n) }}
	c, err := s.Contest(o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	c.ctx = t.Context()
	r, points := rand.New(rand.NewPCG(uint64(number), 50)), int64(0)
	for points < sampled {
		var p []int
		for _, axis := range c.axes {
			p = append(p, r.IntN(len(axis.values)))
		}
		e := c.entrant(p, len(trace.Requests))
		if c.open(e) == nil {
			if c.err != nil {
				t.Fatal(c.err)
			}
			continue
		}
		if guess, err := e.judge.full(t.Context()); err == nil {
			if c.climb(e, guess/2, 0.02); c.err != nil {
				t.Fatal(c.err)
			}
			points++
		}
	}
	return requests.Load() / points
}

// TestQuestions: the search of knobs is within 3% of a search of every point, with at most 15% of its requests. A long run also asks
// new questions. -brute computes the truth in testdata again.
func TestQuestions(t *testing.T) {
	if *bruteForce {
		var all []truth
		if text, err := os.ReadFile(questionsFile); err == nil && json.Unmarshal(text, &all) != nil {
			t.Fatal("not read")
		}
		for n := *firstQuestion; n < *firstQuestion+*questions; n++ {
			i := slices.IndexFunc(all, func(x truth) bool { return x.Question == n })
			switch {
			case i < 0:
				all = append(all, brute(t, n))
			case all[i].Requests == 0:
				all[i].Requests = each(t, n) * int64(all[i].Points)
			}
			t.Logf("%+v", all[len(all)-1])
			text, err := json.MarshalIndent(all, "", " ")
			if err == nil {
				err = os.MkdirAll(filepath.Dir(questionsFile), 0o777)
			}
			if err == nil {
				err = os.WriteFile(questionsFile, append(text, '\n'), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	text, err := os.ReadFile(questionsFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []truth
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	deep.Only(t)
	if !deep.Long() {
		// For l3 only question 9 remains, which has short answers and is the fastest.
		all = slices.DeleteFunc(all, func(x truth) bool { return x.Question != 9 && x.Question%3 == 0 })
	}
	for n := unseen; deep.Long() && n < unseen+*questions; n++ {
		all = append(all, brute(t, n))
	}
	for _, x := range all {
		t.Run(fmt.Sprint(x.Question), func(t *testing.T) { x.ask(t) })
	}
}

// unseen is the first of the questions whose every point a long run searches: a few minutes of processor time each.
const unseen = 1000

func (x *truth) ask(t *testing.T) {
	o, trace, _ := question(t, x.Question)
	cfg, err := AsGiven(AsServer(o))
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	s := &Search{Precision: 0.02, Tune: true, Meter: func(n int64) { requests.Add(n) }}
	found, err := s.Row(context.Background(), o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	rate, share := found.RatePerS, float64(requests.Load())/float64(x.Requests)
	t.Logf("%v holds %.4g of %.4g requests/s (%v), with %.1f%% of the requests", found.Sets, rate, x.Rate, x.Best, 100*share)
	if rate < x.Rate*0.97 || share > 0.15 {
		t.Errorf("question %d: %.4g of %.4g requests/s, %.1f%% of the requests", x.Question, rate, x.Rate, 100*share)
	}
}
