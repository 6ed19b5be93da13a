package traces

import (
	"bufio"
	"encoding/json"
	"fmt"

	"github.com/l3sim/l3sim/input"
)

// The report of GuideLLM, https://github.com/vllm-project/guidellm (src/guidellm/benchmark/schemas/report.py,
// src/guidellm/schemas/request_stats.py): the requests of one benchmark, grouped by status. Reports of version 1 have other names for the
// times.
var guideTables = []table{
	{format: "guidellm", input: "prompt_tokens", output: "output_tokens", arrival: "request_start_time", required: true, clock: seconds, exact: true, session: "info.conversation_id"},
	{format: "guidellm", input: "prompt_tokens", output: "output_tokens", arrival: "start_time", required: true, clock: seconds, exact: true},
}

// readGuideLLM adds the requests of a report that completed. It counts those that failed or were cut short at the end of the benchmark.
func (c *collector) readGuideLLM(r *bufio.Reader) error {
	c.use(&guideTables[0], "")
	j := input.NewJSON(c.file, r)
	benchmarks, listed, sent := 0, 0, 0
	_, err := eachField(j, func(name string) error {
		if name != "benchmarks" {
			return j.Skip()
		}
		return wrongKind(eachElement(j, func() error {
			if benchmarks++; benchmarks > 1 {
				return &input.Error{File: c.file, Line: j.Line(), Key: "benchmarks", Value: "a second benchmark",
					Expected: "one; jq '.benchmarks |= .[0:1]' FILE has the first of several, .[1:2] the second"}
			}
			_, err := eachField(j, func(name string) error {
				switch name {
				case "requests":
					_, err := eachField(j, func(status string) error {
						if status == "total" {
							return j.Skip()
						}
						return wrongKind(eachElement(j, func() error { return c.guideRequest(j, status, &listed) }), "requests."+status)
					})
					return wrongKind(err, name)
				case "metrics":
					_, err := eachField(j, func(name string) error {
						if name != "request_totals" {
							return j.Skip()
						}
						var totals struct{ Successful int }
						err := j.Decode(&totals)
						sent = totals.Successful
						return wrongKind(err, "metrics.request_totals.successful")
					})
					return wrongKind(err, name)
				}
				return j.Skip()
			})
			return err
		}), name)
	})
	if err == nil {
		err = j.End("the object")
	}
	if err == nil && listed < sent {
		c.note("the report lists %d of %d requests that succeeded; without --sample-requests it lists all", listed, sent)
	}
	return err
}

// guideRequest reads a request that ended with a status.
func (c *collector) guideRequest(j *input.JSON, status string, listed *int) error {
	var text json.RawMessage
	if err := j.Decode(&text); err != nil {
		return err
	}
	if status != "successful" {
		c.failed++
		return nil
	}
	if *listed++; c.enough() {
		return nil
	}
	o, err := parseObject(text)
	if err == nil && *listed == 1 && c.table.arrival == guideTables[0].arrival {
		if _, ok := o.value(guideTables[0].arrival); !ok {
			if _, ok := o.value(guideTables[1].arrival); ok {
				c.table = guideTables[1]
			}
		}
	}
	var r row
	if err == nil {
		r, err = c.jsonRow(j.Line(), o, &c.table)
	}
	if err == nil {
		err = c.add(r, nil)
	}
	return c.placed(err, j.Line(), fmt.Sprintf("benchmarks[0].requests.successful[%d]", *listed-1))
}
