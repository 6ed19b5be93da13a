package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// MetaName is the file with the server's settings beside LLMServingSim's log.
const MetaName = "meta.json"

// Server is what a server's settings say.
type Server struct {
	Model     string `json:"model"`
	Version   string `json:"vllm_version"`
	Arguments struct {
		TensorParallel int  `json:"tensor_parallel_size"`
		DataParallel   int  `json:"data_parallel_size"`
		ExpertParallel bool `json:"enable_expert_parallel"`
		Sequences      int  `json:"max_num_seqs"`
		Tokens         int  `json:"max_num_batched_tokens"`
		prefixCaching
	} `json:"engine_kwargs"`
	Resolved struct {
		Scheduler struct {
			Async *bool `json:"async_scheduling"`
		} `json:"scheduler_config"`
		Cache prefixCaching `json:"cache_config"`
	} `json:"resolved_config"`
	KV struct {
		Tokens int `json:"num_kv_tokens"`
		Block  int `json:"block_size"`
		prefixCaching
	} `json:"kv_cache"`
}

// prefixCaching is a setting that may be in three sections of a log; nil if one lacks it.
type prefixCaching struct {
	Prefix *bool `json:"enable_prefix_caching"`
}

func parseServer(file string, text []byte) (*Server, error) {
	s := &Server{}
	if err := json.Unmarshal(text, s); err != nil {
		bad := &input.Error{File: file, Err: err}
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			bad = &input.Error{File: file, Key: wrong.Field, Value: wrong.Value, Expected: wrong.Type.String()}
		}
		return nil, bad
	}
	a := &s.Arguments
	if a.DataParallel > 1 && (a.TensorParallel > 1 || !a.ExpertParallel) {
		return nil, &input.Error{File: file, Key: "engine_kwargs.data_parallel_size", Value: fmt.Sprint(a.DataParallel),
			Expected: "1, or engines of one GPU with enable_expert_parallel: other layouts of several engines are not read"}
	}
	for _, n := range []struct {
		key         string
		value, most int
	}{
		{"engine_kwargs.tensor_parallel_size", a.TensorParallel, 4096}, {"engine_kwargs.data_parallel_size", a.DataParallel, 4096}, {"engine_kwargs.max_num_seqs", a.Sequences, 1 << 20},
		{"engine_kwargs.max_num_batched_tokens", a.Tokens, 1 << 20}, {"kv_cache.num_kv_tokens", s.KV.Tokens, 1 << 32}, {"kv_cache.block_size", s.KV.Block, 1 << 20},
	} {
		if n.value < 0 || n.value > n.most {
			return nil, &input.Error{File: file, Key: n.key, Value: fmt.Sprint(n.value), Expected: fmt.Sprintf("0 to %d", n.most)}
		}
	}
	return s, nil
}

// asynchronous says whether the server forms an iteration while the one before runs, vLLM's default since 0.14.
func (s *Server) asynchronous() bool {
	if a := s.Resolved.Scheduler.Async; a != nil {
		return *a
	}
	return s.since(14)
}

// since says whether the server is vLLM 0.minor or newer, or of unknown version.
func (s *Server) since(minor int) bool {
	var major, m int
	_, err := fmt.Sscanf(s.Version, "%d.%d", &major, &m)
	return err != nil || major > 0 || m >= minor
}

// caches says whether the server has a prefix cache, vLLM's default since 0.8.
func (s *Server) caches() bool {
	for _, p := range []*bool{s.Resolved.Cache.Prefix, s.KV.Prefix, s.Arguments.Prefix} {
		if p != nil {
			return *p
		}
	}
	return s.since(8)
}

// servers are the settings of all logs: vLLM's defaults, on the preset fair.
var servers = []string{
	`run.system="gpu-only"`, `gpu_only.policy="chunked-prefill"`, "gpu.memory_share=0.9", `memory.admission="current"`, "memory.history=0",
	"memory.watermark=0", "batching.page_tokens=16", "batching.max_num_batched_tokens=2048", "batching.max_num_seqs=256", `arrivals.kind="trace"`,
	"gpu_only.async_scheduling=true",
}

// load returns the configuration of a run. A server with a prefix cache keeps pages, if the run can: policies other than dense
// attention and windows by layer have no such cache.
func (l *Log) load(given configs.Options) (*configs.Config, error) {
	cfg, err := system.Load(l.settings(given))
	if err != nil || l.Server != nil && !l.Server.caches() {
		return cfg, err
	}
	page := cfg.Batching.PageTokens
	if cfg.Model.Window > 0 || !cfg.Policy.Dense() || traces.BlockTokens%page != 0 {
		return cfg, nil
	}
	return system.Load(l.settings(given, "cache.prefix=true", fmt.Sprint("cache.block=", page)))
}

// settings returns the settings of a run: those of all servers, the log's, more, and then the given ones.
func (l *Log) settings(given configs.Options, more ...string) configs.Options {
	given.Preset = "fair"
	sets := append([]string(nil), servers...)
	if s := l.Server; s != nil {
		a := &s.Arguments
		sets = append(sets, fmt.Sprintf("gpu_only.async_scheduling=%t", s.asynchronous()))
		if s.Model != "" {
			sets = append(sets, fmt.Sprintf("run.model=%q", strings.ToLower(path.Base(s.Model))))
		}
		engines := max(a.DataParallel, 1) // each attends for requests of its own, and all share the experts
		if engines > 1 {
			sets = append(sets, fmt.Sprintf("model.attention_parallel=%q", llm.DataAttention))
		}
		if a.ExpertParallel {
			sets = append(sets, "model.expert_parallel=true")
		}
		gpus := engines * a.TensorParallel
		for _, n := range []struct {
			key   string
			value int
		}{
			{"node.gpus", gpus}, {"model.tensor_parallel", gpus}, {"batching.max_num_seqs", engines * a.Sequences},
			{"batching.max_num_batched_tokens", engines * a.Tokens}, {"gpu_only.kv_tokens", engines * s.KV.Tokens}, {"batching.page_tokens", s.KV.Block},
		} {
			if n.value > 0 {
				sets = append(sets, fmt.Sprintf("%s=%d", n.key, n.value))
			}
		}
	}
	given.Sets = slices.Concat(sets, more, given.Sets)
	return given
}
