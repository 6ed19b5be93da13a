package sweep

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/l3sim/l3sim/system"
)

// Estimate is a forecast of a run's time.
type Estimate struct {
	Points int           // number of points that would run
	Wall   time.Duration // their wall time with Workers
	// Workers is the number of points that run at a time, at most the number of cores.
	Workers int
	Probe   time.Duration // time spent on one point to measure the rate
}

// probeLimit bounds the time of the point that Estimate runs.
const probeLimit = 2 * time.Second

// Estimate forecasts the time of the points whose hashes done does not hold. It runs the
// point that generates the fewest tokens, for two seconds at most. It assumes that the
// others take as long for their set-up and for each token. A point with other hardware or
// more requests may need several times that.
func (p *Plan) Estimate(ctx context.Context, done map[string]*Entry, workers int) (*Estimate, error) {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	e := &Estimate{Workers: workers}
	var probe *Point
	tokens, seen := int64(0), map[string]bool{}
	for i := range p.Points {
		point := &p.Points[i]
		if done[point.Hash] != nil || seen[point.Hash] {
			continue
		}
		seen[point.Hash] = true
		e.Points++
		tokens += point.Tokens
		if point.Err == nil && (probe == nil || point.Tokens < probe.Tokens) {
			probe = point
		}
	}
	if probe == nil {
		return e, nil
	}
	start := time.Now()
	setup, rate, err := p.measure(ctx, probe, probeLimit)
	if err != nil {
		return nil, err
	}
	e.Probe = time.Since(start)
	total := time.Duration(e.Points)*setup + time.Duration(float64(tokens)*rate)
	e.Wall = total / time.Duration(max(1, min(workers, runtime.GOMAXPROCS(0), e.Points)))
	return e, nil
}

// measure runs a point for a limited time and returns the CPU time of its set-up and, in
// nanoseconds, of a token, 0 where none was emitted.
func (p *Plan) measure(ctx context.Context, point *Point, limit time.Duration) (setup time.Duration, perToken float64, err error) {
	config, err := p.Config(point)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	trace, err := p.cache.trace(config)
	if err != nil {
		return 0, 0, err
	}
	node, err := system.NewNode(config)
	if err != nil {
		return 0, 0, nil // the point fails at once
	}
	setup = time.Since(start)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	emitted := make([]atomic.Int64, node.Replicas())
	start = time.Now()
	_, err = node.Run(limited, trace, system.Options{Progress: func(replica int, n int64) { emitted[replica].Store(n) }})
	elapsed := time.Since(start)
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	sum := int64(0)
	for i := range emitted {
		sum += emitted[i].Load()
	}
	if err == nil {
		sum = point.Tokens
	} else if !errors.Is(err, context.DeadlineExceeded) {
		return setup, 0, nil
	}
	if sum == 0 {
		return setup, 0, nil
	}
	// Replicas ran side by side, as points would.
	cores := float64(min(node.Replicas(), runtime.GOMAXPROCS(0)))
	return setup, float64(elapsed) * cores / float64(sum), nil
}
