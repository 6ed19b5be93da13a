package sweep

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// traceCache keeps the traces that points share: the identity of each for the whole sweep,
// and the requests of the last few.
type traceCache struct {
	mu    sync.Mutex
	infos map[traceKey]*traceInfo
	kept  []keptTrace // the oldest first
}

// keptTraces is the number of traces that stay in memory: more than a laptop's workers use at a
// time, and few enough that its memory holds them with a million requests each.
const keptTraces = 8

// keptTrace is a trace in memory.
type keptTrace struct {
	of    *traceInfo
	trace *traces.Trace
}

// traceKey is the part of a configuration that determines its trace.
type traceKey struct {
	name     string
	columns  string
	requests int
	seed     uint64 // 0 for a file, unless lengths or arrivals are drawn
	drawn    traces.SyntheticSpec
	arrivals traces.ArrivalSpec
	clip     int // tokens at which requests end (serving.beyond_context = "clip"), 0 for none
	// of is the SHA-256 of the configuration without run.system, if the configuration determines which
	// requests remain (run.common_to).
	of string
}

// traceInfo identifies one trace.
type traceInfo struct {
	load     sync.Mutex // held while it is loaded
	hash     string     // "" until it is loaded
	tokens   int64
	requests int
	err      error
}

func newTraceCache() *traceCache { return &traceCache{infos: map[traceKey]*traceInfo{}} }

func (c *traceCache) info(cfg *configs.Config) (*traceInfo, error) {
	t := c.entry(cfg)
	t.load.Lock()
	defer t.load.Unlock()
	if t.hash == "" && t.err == nil {
		_, t.err = c.fill(t, cfg)
	}
	return t, t.err
}

func (c *traceCache) trace(cfg *configs.Config) (*traces.Trace, error) {
	t := c.entry(cfg)
	t.load.Lock()
	defer t.load.Unlock()
	c.mu.Lock()
	i := slices.IndexFunc(c.kept, func(k keptTrace) bool { return k.of == t })
	if i >= 0 {
		defer c.mu.Unlock()
		return c.kept[i].trace, nil
	}
	c.mu.Unlock()
	return c.fill(t, cfg)
}

func (c *traceCache) entry(cfg *configs.Config) *traceInfo {
	key := traceKey{name: cfg.Run.Trace, columns: cfg.Run.Columns, requests: cfg.Run.Requests, arrivals: cfg.Arrivals}
	if slices.Contains(traces.BuiltinNames(), key.name) || cfg.Traces.Distribution == traces.Empirical {
		key.seed, key.drawn = cfg.Run.Seed, cfg.Traces
	} else if cfg.Arrivals.RatePerS > 0 || cfg.Arrivals.Kind == traces.ArrivalsClosed {
		key.seed = cfg.Run.Seed
	}
	if cfg.Serving.BeyondContext == scheduler.BeyondClip {
		key.clip = cfg.Model.Context
	}
	if cfg.Run.CommonTo != "" {
		any := *cfg
		any.Run.System = ""
		key.of, _ = any.SHA256() // does not fail for a loaded configuration
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.infos[key]
	if t == nil {
		t = &traceInfo{}
		c.infos[key] = t
	}
	return t
}

// fill loads the trace of t, whose lock the caller holds, and keeps it.
func (c *traceCache) fill(t *traceInfo, cfg *configs.Config) (*traces.Trace, error) {
	trace, err := system.LoadTrace(cfg)
	if err != nil {
		return nil, err
	}
	switch hash := hashTrace(trace); t.hash {
	case "":
		t.hash, t.tokens, t.requests = hash, trace.OutputTokens(), len(trace.Requests)
	case hash:
	default: // completed points had another trace
		return nil, fmt.Errorf("%s has changed since the sweep began", cfg.Run.Trace)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, keptTrace{t, trace})
	if len(c.kept) > keptTraces {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	return trace, nil
}

// hashTrace returns the SHA-256 of a trace's requests.
func hashTrace(t *traces.Trace) string {
	buffer := make([]byte, 0, 24*len(t.Requests))
	for _, r := range t.Requests {
		buffer = binary.LittleEndian.AppendUint64(buffer, uint64(r.Arrival))
		buffer = binary.LittleEndian.AppendUint64(buffer, uint64(r.Input))
		buffer = binary.LittleEndian.AppendUint64(buffer, uint64(r.Output))
		if r.Turn != nil || r.Hashes != nil { // others keep the hash of earlier versions
			buffer = fmt.Appendf(buffer, "%v %v;", r.Hashes, r.Turn)
		}
		if r.Prefix != nil && r.Prefix.Tokens%traces.BlockTokens > 0 { // otherwise the hashes cover all of it
			buffer = fmt.Appendf(buffer, "%v;", *r.Prefix)
		}
	}
	if t.HashTokens > 0 {
		buffer = fmt.Appendf(buffer, "hashes of %d tokens", t.HashTokens)
	}
	sum := sha256.Sum256(buffer)
	return hex.EncodeToString(sum[:])
}
