package system_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/kinds"
)

// Sections that no system can have.
type (
	hidden struct {
		latency int `toml:"latency"`
	}
	twice struct {
		A int `toml:"latency"`
		B int `toml:"latency"`
	}
	strange struct {
		Latency []int `toml:"latency"`
		*strings.Builder
	}
)

func (h hidden) Check(*input.Check) { _ = h.latency }
func (twice) Check(*input.Check)    {}
func (strange) Check(*input.Check)  {}

// TestSystemsThatCannotBeAdded: an invalid system returns an error that names it.
func TestSystemsThatCannotBeAdded(t *testing.T) {
	defaults := func(old, with string) func(s *kinds.System) {
		return func(s *kinds.System) { s.Defaults = strings.Replace(s.Defaults, old, with, 1) }
	}
	section := func(zero input.Checked, text string) func(s *kinds.System) {
		return func(s *kinds.System) { s.Zero, s.Defaults = zero, "[cxl]\n"+text }
	}
	for want, change := range map[string]func(s *kinds.System){
		`system "": expected a name of small letters, digits, -, _ and +, and not "all"`:                                                 func(s *kinds.System) { s.Name = "" },
		`system "all": expected a name of`:                                                                                               func(s *kinds.System) { s.Name = "all" },
		`system "a,b": expected a name of`:                                                                                               func(s *kinds.System) { s.Name = "a,b" },
		`system "CXL": expected a name of`:                                                                                               func(s *kinds.System) { s.Name = "CXL" },
		`system "gpu+cpu": there is a system of this name`:                                                                               func(s *kinds.System) { s.Name = "gpu+cpu" },
		`system "cxl": expected Memory and Assemble`:                                                                                     func(s *kinds.System) { s.Assemble = nil },
		`system "cxl2": expected Memory and Assemble`:                                                                                    func(s *kinds.System) { s.Name, s.Memory = "cxl2", nil },
		`system "cxl": expected Section, the name of the section of Zero and Defaults`:                                                   func(s *kinds.System) { s.Section = "" },
		`system "cxl3": expected Section, the name`:                                                                                      func(s *kinds.System) { s.Name, s.Section, s.Zero = "cxl3", "", nil },
		`system "cxl": its Section "my.cxl": expected small letters, digits, - and _`:                                                    func(s *kinds.System) { s.Section = "my.cxl" },
		`system "cxl": its Section "gpu": there is a section of this name`:                                                               func(s *kinds.System) { s.Section = "gpu" },
		`system "cxl": its Section "preset": there is a section of this name`:                                                            func(s *kinds.System) { s.Section = "preset" },
		`system "cxl": its Section "gpu_only": there is a section of this name`:                                                          func(s *kinds.System) { s.Section = "gpu_only" },
		`system "cxl": its Zero: expected a struct, not <nil>`:                                                                           func(s *kinds.System) { s.Zero = nil },
		`system "cxl": its Zero: expected a struct, not *system_test.cxlKeys`:                                                            func(s *kinds.System) { s.Zero = &cxlKeys{} },
		`system "cxl": its Zero: expected a type of its own, not kinds.GPUOnly of another system`:                                        func(s *kinds.System) { s.Zero = kinds.GPUOnly{} },
		`system "cxl": its Zero: field latency of system_test.hidden has a toml tag, but it or what it is in begins with a small letter`: section(hidden{}, "latency = 1"),
		`system "cxl": its Zero: two fields of system_test.twice have the toml tag latency`:                                              section(twice{}, "latency = 1"),
		`defaults of cxl:2: cxl.latency = an array: expected a key without value: type []int cannot be configured`:                       section(strange{}, "latency = [1]"),
		`defaults of cxl: no value for cxl.latency`:                                                                                      defaults(`latency = "300ns"`, ""),
		`defaults of cxl:5: cxl.latencies = "300ns": expected a key of [cxl]`:                                                            defaults("latency =", "latencies ="),
		`defaults of cxl:5: cxl.latency: "300" is not a duration`:                                                                        defaults("300ns", "300"),
		`defaults of cxl:5: cxl.latency = "2s": expected 0ps to 1s`:                                                                      defaults("300ns", "2s"),
		`defaults of cxl: gpu_only.kv_tokens is no key of a section of its own`: func(s *kinds.System) {
			s.Section = "gpu_on"
			s.Defaults = strings.Replace(s.Defaults, "[cxl]", "[gpu_on]", 1) + "[gpu_only]\nkv_tokens = 5\n"
		},
		`defaults of cxl: pcie.latency is no key of a section of its own`: defaults("[cxl]", "pcie.latency = \"1us\"\n[cxl]"),
		`defaults of cxl:2: not TOML: `:                                   defaults("[cxl]", "[cxl"),
	} {
		s := cxlSystem
		change(&s)
		if _, err := system.Extend(system.Extension{Systems: []kinds.System{s}}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if _, err := system.Extend(system.Extension{Systems: []kinds.System{cxlSystem, cxlSystem}}); err == nil || err.Error() != `system "cxl": there is a system of this name` {
		t.Errorf("twice: %v", err)
	}
}

// TestNamesOfAddedSystems: an added system without a section may have a name that is another name of a built-in system;
// that name then means the added system, and its other names lead to it.
func TestNamesOfAddedSystems(t *testing.T) {
	plain := *system.Systems(system.Configs())[1]
	plain.Name, plain.Others, plain.Section, plain.Zero, plain.Defaults = "vllm", []string{"pagedattention"}, "", nil, ""
	ld, err := system.Extend(system.Extension{Systems: []kinds.System{cxlSystem, plain}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ld.Load(configs.Options{Sets: []string{"run.system=vllm", "run.common_to=all", "gpu_only.kv_tokens=9000"}})
	if err != nil || cfg.System().Name != "vllm" || len(cfg.CommonSystems()) != 9 {
		t.Errorf("got %v, %v", cfg, err)
	}
	if _, err := ld.Load(configs.Options{Sets: []string{"run.system=PagedAttention"}}); err == nil || !strings.Contains(err.Error(), `did you mean "vllm"?`) {
		t.Errorf("got %v", err)
	}
	if _, err := ld.Load(configs.Options{Sets: []string{"run.system=cxl", "policy.name=quest"}}); err == nil ||
		!strings.Contains(err.Error(), `expected one of dense with run.system = cxl; it runs with run.system = l3, gpu-only, hbm-pim, gpu+cpu, sparse-offload, vllm`) {
		t.Errorf("got %v", err)
	}
}

// TestLoadersSideBySide: loaders with different systems of the same name work in parallel, next to the loader of the
// built-in systems, which knows none of them.
func TestLoadersSideBySide(t *testing.T) {
	deep.Heavy(t)
	run := func(ld *configs.Loader) (string, error) {
		cfg, err := ld.Load(configs.Options{Sets: []string{"run.system=cxl", "run.model=llama-3-8b", "run.requests=2"}})
		if err != nil {
			return "", err
		}
		trace, err := system.LoadTrace(cfg)
		if err != nil {
			return "", err
		}
		node, err := system.NewNode(cfg)
		if err != nil {
			return "", err
		}
		r, err := node.Run(t.Context(), trace, system.Options{Check: true})
		if err != nil {
			return "", err
		}
		s, err := r.Summary(cfg)
		return fmt.Sprint(s.OutputTokensPerS), err
	}
	fast := cxlSystem
	fast.Defaults = strings.Replace(fast.Defaults, "256GB/s", "1TB/s", 1)
	var all [2][3]string
	var wg sync.WaitGroup
	for which, s := range []kinds.System{cxlSystem, fast} {
		for i := range all[which] {
			wg.Go(func() {
				ld, err := system.Extend(system.Extension{Systems: []kinds.System{s}})
				if err == nil {
					all[which][i], err = run(ld)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if all[0][0] == all[1][0] || all[0] != [3]string{all[0][0], all[0][0], all[0][0]} || all[1] != [3]string{all[1][0], all[1][0], all[1][0]} {
		t.Errorf("got %v", all)
	}
	if _, err := run(system.Configs()); err == nil || !strings.Contains(err.Error(), `run.system = "cxl": expected one of cpu-offload, `) {
		t.Errorf("the systems that ship: %v", err)
	}
}

// TestForeignLoader: a node needs a configuration whose loader has its system.
func TestForeignLoader(t *testing.T) {
	cfg, err := configs.New(policies.Builtin(), configs.System{Name: "l3"}).Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := system.NewNode(cfg); !errors.As(err, new(*input.Error)) {
		t.Errorf("got %v", err)
	}
}
