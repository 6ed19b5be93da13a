package requests

import (
	"encoding/json"
	"math"
	"strconv"
)

// format is the program that wrote a log.
type format string

const (
	servingSim format = "LLMServingSim" // requests.jsonl: a request in each line
	vllmBench  format = "vLLM"          // bench serve --save-detailed: one object of arrays
	aiPerf     format = "AIPerf"        // profile_export.jsonl: a request in each line
)

func (p *parser) read(f format) ([]Request, error) {
	switch f {
	case servingSim:
		return p.servingSim()
	case vllmBench:
		return p.vllmBench()
	}
	return p.aiPerf()
}

// servingSimRequest is a line of LLMServingSim's requests.jsonl. The arrival is of the client's clock, the other
// times of the server's.
type servingSimRequest struct {
	ID         *string  `json:"request_id"`
	Input      *int     `json:"input_toks"`
	Output     *int     `json:"output_toks"`
	Arrival    *float64 `json:"arrival_time"`
	Queued     *float64 `json:"queued_ts"`
	Scheduled  *float64 `json:"scheduled_ts"`
	FirstToken *float64 `json:"first_token_ts"`
	LastToken  *float64 `json:"last_token_ts"`
}

// servingSim aligns the two clocks by the request that was queued soonest after its arrival: the engine accepts
// requests between iterations, and that one found it idle.
func (p *parser) servingSim() (all []Request, err error) {
	var lines []servingSimRequest
	var places []int
	soonest := math.Inf(1)
	for {
		var r servingSimRequest
		if more, err := p.object(&r, true); err != nil {
			return nil, err
		} else if !more {
			break
		}
		if key := missing(&r); key != "" {
			return nil, p.at(p.line, key, "", "a value in every request")
		}
		if err := p.known("request_id", *r.ID); err != nil {
			return nil, err
		}
		if *r.Queued > *r.Scheduled || *r.Scheduled > *r.FirstToken {
			return nil, p.at(p.line, "scheduled_ts", *r.Scheduled, "a time from queued_ts to first_token_ts")
		}
		soonest = min(soonest, *r.Queued-*r.Arrival)
		lines, places = append(lines, r), append(places, p.line)
	}
	for i, r := range lines {
		p.line = places[i]
		arrival := *r.Arrival + soonest
		one, err := p.request(Request{Input: *r.Input, Output: *r.Output, Arrival: arrival, Queue: *r.Scheduled - arrival, TTFT: *r.FirstToken - arrival, Latency: *r.LastToken - arrival})
		if err != nil {
			return nil, err
		}
		one.Queue = max(one.Queue, 0)
		all = append(all, one)
	}
	return all, nil
}

// vllmBench reads the result of vLLM's bench serve --save-detailed. Requests that failed have an error and are left out.
func (p *parser) vllmBench() (all []Request, err error) {
	var r struct {
		Input  []int       `json:"input_lens"`
		Output []int       `json:"output_lens"`
		Start  []float64   `json:"start_times"`
		TTFT   []float64   `json:"ttfts"`
		Gaps   [][]float64 `json:"itls"`
		Errors []string    `json:"errors"`
	}
	if _, err := p.object(&r, false); err != nil {
		return nil, err
	}
	n := len(r.TTFT)
	if r.Start == nil && n > 0 {
		return nil, p.at(p.line, "start_times", "", "a time of each request: neither SGLang nor this version of vLLM writes when requests were sent; AIPerf does")
	}
	for _, a := range []struct {
		key string
		n   int
	}{{"input_lens", len(r.Input)}, {"output_lens", len(r.Output)}, {"start_times", len(r.Start)}, {"itls", len(r.Gaps)}, {"errors", len(r.Errors)}} {
		if a.n != n && (a.key != "errors" || a.n > 0) {
			return nil, p.at(p.line, a.key, a.n, "as many as ttfts, "+strconv.Itoa(n))
		}
	}
	for i := range r.TTFT {
		if len(r.Errors) > 0 && r.Errors[i] != "" {
			continue
		}
		if err := p.known("ttfts", strconv.Itoa(i)); err != nil {
			return nil, err
		}
		last := r.TTFT[i]
		for _, gap := range r.Gaps[i] {
			if gap < 0 {
				return nil, p.at(p.line, "itls", gap, "times between tokens in seconds, none below 0")
			}
			last += gap
		}
		one, err := p.request(Request{Input: r.Input[i], Output: r.Output[i], Arrival: r.Start[i], Queue: -1, TTFT: r.TTFT[i], Latency: last})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if _, err := p.end(); err != nil {
		return nil, err
	}
	return all, nil
}

// end refuses text after a single object.
func (p *parser) end() (bool, error) {
	var behind any
	more, err := p.object(&behind, false)
	if more {
		err = p.at(p.line, "", "", "nothing behind the object")
	}
	return more, err
}

// quantity is a metric of AIPerf.
type quantity struct {
	Value *float64 `json:"value"`
	Unit  string   `json:"unit"`
}

// aiPerf reads a line for each request. It leaves out requests that failed, were cancelled or warmed
// up.
func (p *parser) aiPerf() (all []Request, err error) {
	for {
		var r struct {
			Metadata struct {
				ID        string `json:"x_request_id"`
				Phase     string `json:"benchmark_phase"`
				Cancelled bool   `json:"was_cancelled"`
				Start     *int64 `json:"request_start_ns"`
			} `json:"metadata"`
			Metrics map[string]json.RawMessage `json:"metrics"` // some are lists: only those below are read
			Error   any                        `json:"error"`
		}
		if more, err := p.object(&r, false); err != nil || !more {
			return all, err
		}
		if m := &r.Metadata; r.Error != nil || m.Cancelled || m.Phase != "" && m.Phase != "profiling" {
			continue
		}
		if r.Metadata.Start == nil {
			return nil, p.at(p.line, "metadata.request_start_ns", "", "a time in nanoseconds")
		}
		id := r.Metadata.ID
		if id == "" {
			id = "line " + strconv.Itoa(p.line)
		}
		if err := p.known("metadata.x_request_id", id); err != nil {
			return nil, err
		}
		one := Request{Arrival: float64(*r.Metadata.Start) / 1e9, Queue: -1}
		var input, output float64
		for _, m := range []struct {
			key  string
			to   *float64
			unit map[string]float64
		}{
			{"input_sequence_length", &input, map[string]float64{"tokens": 1}}, {"output_sequence_length", &output, map[string]float64{"tokens": 1}},
			{"time_to_first_token", &one.TTFT, timeUnits}, {"request_latency", &one.Latency, timeUnits},
		} {
			var q quantity
			err := json.Unmarshal(r.Metrics[m.key], &q)
			scale, known := m.unit[q.Unit]
			if err != nil || q.Value == nil || !known {
				return nil, p.at(p.line, "metrics."+m.key, q.Unit, "a value and a unit: tokens, or ns, us, ms or sec")
			}
			*m.to = *q.Value * scale
		}
		if math.Abs(input) > maxTokens || math.Abs(output) > maxTokens || input != math.Trunc(input) || output != math.Trunc(output) {
			return nil, p.at(p.line, "metrics.input_sequence_length", input, "whole numbers of tokens")
		}
		one.Input, one.Output = int(input), int(output)
		if one, err = p.request(one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// timeUnits are AIPerf's units in seconds.
var timeUnits = map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "sec": 1}
