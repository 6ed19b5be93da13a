package system

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// extremes returns values at and beyond the ends of what a type holds.
func extremes(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[units.Duration]():
		return []string{"0ps", "1ps", "-1ps", "1s", "9223372s"}
	case reflect.TypeFor[units.Bytes]():
		return []string{"0B", "1B", "-1B", "1MiB", "1024TiB", "9223372036854775807B"}
	case reflect.TypeFor[units.Bandwidth]():
		return []string{"0B/s", "1B/s", "1MB/s", "-1B/s", "1e18B/s", "1e300B/s"}
	case reflect.TypeFor[units.FLOPRate]():
		return []string{"0FLOP/s", "1FLOP/s", "1GFLOP/s", "-1FLOP/s", "1e21FLOP/s", "1e300FLOP/s"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return []string{"true", "false"}
	case reflect.Float64:
		return []string{"0.0", "1e-300", "1e-20", "1e-3", "1.0", "-1.0", "1e9", "1e300"}
	case reflect.Int, reflect.Uint64:
		return []string{"0", "1", "2", "-1", "4096", "16777216", "9223372036854775807"}
	}
	return []string{"", "none", "\x00"}
}

// TestExtremeValues runs every system with one key after another at its extremes. A run succeeds,
// with shares of time between 0 and 1, or fails with an error that names the key: no internal
// message, no panic.
func TestExtremeValues(t *testing.T) {
	deep.Heavy(t)
	trace := &traces.Trace{Name: "few"}
	for i := range 3 {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 60 * (i + 1), Output: 4})
	}
	for _, system := range everyName() {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			if system != "l3" && system != "gpu-only" {
				deep.Only(t)
			}
			for i, k := range everything().Keys().Keys {
				if !deep.Case(i+len(system), 10) {
					continue
				}
				switch section, _, _ := strings.Cut(k.Name, "."); section {
				case "dram", "pim", "model": // other tests cover what a rank does
					if testing.Short() || !deep.On() || system == "rank-pim" && !deep.Long() { // as in l3
						continue
					}
				}
				for _, value := range extremes(k.Type) {
					set := k.Name + "=" + value
					if err := runExtreme(t, system, set, trace); err != nil {
						t.Errorf("%s: %v", set, err)
					}
				}
			}
		})
	}
}

var byDefault = sync.OnceValue(func() *configs.Config {
	c, err := everything().Load(configs.Options{})
	if err != nil {
		panic(err)
	}
	return c
})

// runExtreme returns the fault in the outcome of a run, or nil.
func runExtreme(t *testing.T, system, set string, trace *traces.Trace) error {
	key, _, _ := strings.Cut(set, "=")
	named := func(err error) error {
		var bad *input.Error
		if !errors.As(err, &bad) && !errors.As(err, new(*RejectedError)) { // which names the memory that is too small
			return fmt.Errorf("internal: %w", err)
		}
		if !strings.Contains(err.Error(), key) && !strings.Contains(err.Error(), key[strings.LastIndexByte(key, '.')+1:]) {
			return fmt.Errorf("key not named: %w", err)
		}
		return nil
	}
	sets := []string{"run.system=" + system, set}
	if fit := byDefault().FitWith(key); fit != "" && fit != byDefault().GPU.Fit { // kernels that the default GPU lacks
		gpu, _, _ := strings.Cut(fit, ".")
		sets = append([]string{"gpu.preset=" + gpu, "gpu.fit=" + fit}, sets...)
	}
	if (key == "pim.periodic" || key == "dram.tCCD_L") && !deep.Long() {
		sets = append(sets, "pim.score_buffer=8KiB") // small enough to run command by command, or measured as a whole
	}
	cfg, err := everything().Load(configs.Options{Sets: sets})
	if err != nil {
		return named(err)
	}
	var k *ranks.Kernels
	if kinds.Of(cfg).KV.InDIMM {
		if k, err = ranks.KernelsOf(kinds.Of(cfg).Derive(cfg)); err != nil {
			return named(err)
		}
	}
	node := newNode(cfg, kinds.CommandTables{Kernels: k})
	r, err := node.Run(deep.Asked(t.Context(), 100), trace, Options{}) // few iterations suffice for all requests
	if err != nil {
		return named(err)
	}
	s, err := r.Summary(cfg)
	if err != nil {
		return err
	}
	u := s.Utilization
	for _, share := range []float64{u.GPU, u.PIM, u.PCIeDown, u.PCIeUp, u.Channel, s.KVFragmentation} {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("shares %+v, fragmentation %v", u, s.KVFragmentation)
		}
	}
	for _, v := range []float64{s.OutputTokensPerS, s.TBT.Mean, s.TTFT.Mean, s.RanksetImbalance} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("throughput %v, TBT %v, TTFT %v, imbalance %v", s.OutputTokensPerS, s.TBT.Mean, s.TTFT.Mean, s.RanksetImbalance)
		}
	}
	return nil
}
