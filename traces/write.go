package traces

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/units"
)

// format is a format in which traces are written.
type format struct {
	name       string
	resolution units.Duration // arrivals are rounded to it
	hashes     bool           // can hold hashes of prefixes
	sessions   bool           // can hold conversations
	waits      bool           // can hold that turns wait for the previous one
	write      func(w *bufio.Writer, t *Trace) error
}

// formats are all writable formats, by name.
var formats = []format{
	{name: "aiperf", resolution: units.Nanosecond, sessions: true, write: writeAIPerf},
	{name: "jsonl", resolution: 1, write: writeJSONL},
	{name: "l3sim", resolution: 1, write: writeOwn},
	{name: "mooncake", resolution: 1, hashes: true, sessions: true, waits: true, write: writeMooncake},
	{name: "parquet", resolution: units.Nanosecond, write: writeParquet},
}

// FormatNames returns the names of the writable formats.
func FormatNames() []string {
	return list.Map(formats, func(f format) string { return f.name })
}

// lookupFormat returns the format called name; another name is an *input.Error.
func lookupFormat(name string) (*format, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	if i < 0 {
		return nil, input.UnknownName("format", name, FormatNames())
	}
	return &formats[i], nil
}

// Write writes the trace in a format of FormatNames. It leaves out what the format cannot hold; see Lost.
func (t *Trace) Write(w io.Writer, name string) error {
	if err := t.given(); err != nil {
		return err
	}
	f, err := lookupFormat(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(w, 1<<16)
	if err := f.write(b, t); err != nil {
		return err
	}
	return b.Flush()
}

// Lost describes the parts of the trace that a format cannot hold, for example "hashes of prefixes".
func (t *Trace) Lost(name string) (lost []string, err error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	f, err := lookupFormat(name)
	if err != nil {
		return nil, err
	}
	for _, l := range []struct {
		what string
		of   func(r Request) bool
	}{
		{"times of arrival to the last digit", func(r Request) bool { return r.Arrival%f.resolution != 0 }},
		{"hashes of prefixes", func(r Request) bool { return !f.hashes && r.Hashes != nil }},
		{"conversations", func(r Request) bool { return !f.sessions && r.Turn != nil }},
		{"what turns wait for", func(r Request) bool { return f.sessions && !f.waits && r.Turn != nil && r.Turn.Waits }},
		{"sub-agents", func(r Request) bool { return f.waits && r.Turn != nil && len(r.Turn.After) > 0 }},
	} {
		if slices.ContainsFunc(t.Requests, l.of) {
			lost = append(lost, l.what)
		}
	}
	return lost, nil
}

func writeLines(w *bufio.Writer, t *Trace, header string, line func(b []byte, r *Request) []byte) error {
	b := append([]byte(nil), header...)
	for i := range t.Requests {
		b = append(line(b, &t.Requests[i]), '\n')
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := w.Write(b) // for a trace without requests
	return err
}

// writeOwn writes the first columns of l3sim's requests.csv.
func writeOwn(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "id,input_tokens,output_tokens,arrival_s\n", func(b []byte, r *Request) []byte {
		return r.Arrival.AppendDecimal(fmt.Appendf(b, "%d,%d,%d,", r.ID, r.Input, r.Output), 0)
	})
}

// writeMooncake writes times in milliseconds, and the hashes of prompts if there are any. The first line has the unit if a reader would
// take the times for seconds, and the block size if it is not Mooncake's.
func writeMooncake(w *bufio.Writer, t *Trace) error {
	header := ""
	if t.likeSeconds() {
		header += fmt.Sprintf(`, "%s": "ms"`, unitField)
	}
	if t.HashTokens > 0 {
		header += fmt.Sprintf(`, "%s": %d`, blockField, t.HashTokens)
	}
	return writeLines(w, t, "", func(b []byte, r *Request) []byte {
		b = r.Arrival.AppendDecimal(append(b, `{"timestamp": `...), 3)
		b = fmt.Appendf(b, `, "input_length": %d, "output_length": %d`, r.Input, r.Output)
		if r.Hashes != nil {
			b = append(b, `, "hash_ids": [`...)
			for i, h := range r.Hashes {
				if i > 0 {
					b = append(b, ", "...)
				}
				b = strconv.AppendUint(b, h, 10)
			}
			b = append(b, ']')
		}
		if r.Turn != nil {
			b = fmt.Appendf(b, `, "%s": "%d"`, sessionField, r.Turn.Session)
			if r.Turn.Waits {
				b = r.Turn.Think.AppendDecimal(fmt.Appendf(b, `, "%s": `, delayFields[0]), 3)
			}
		}
		if r.ID == t.Requests[0].ID {
			b = append(b, header...)
		}
		return append(b, '}')
	})
}

// writeAIPerf writes AIPerf's records (src/aiperf/common/models/record_models.py, MetricRecordInfo). Times count from 1970, and a request
// ends when it starts, since a trace does not have its end. A single request is a session of its own.
func writeAIPerf(w *bufio.Writer, t *Trace) error {
	sessions := map[int]int{} // conversation numbers
	next := 0
	return writeLines(w, t, "", func(b []byte, r *Request) []byte {
		session, turn, known := next, 0, false
		if r.Turn != nil {
			turn = r.Turn.Number
			session, known = sessions[r.Turn.Session]
		}
		if !known {
			session, next = next, next+1
			if r.Turn != nil {
				sessions[r.Turn.Session] = session
			}
		}
		at := rounded(r.Arrival, units.Nanosecond) / units.Nanosecond
		return fmt.Appendf(b, `{"metadata": {"session_num": %d, "conversation_id": "%[1]d", "turn_index": %d, "request_start_ns": %d, "request_end_ns": %[3]d, `+
			`"worker_id": "l3sim", "record_processor_id": "l3sim", "benchmark_phase": "profiling", "was_cancelled": false}, `+
			`"metrics": {"input_sequence_length": {"value": %d, "unit": "tokens"}, "output_sequence_length": {"value": %d, "unit": "tokens"}}, "error": null}`,
			session, turn, int64(at), r.Input, r.Output)
	})
}

// likeSeconds reports whether a reader of any number of first requests might take their milliseconds for seconds.
func (t *Trace) likeSeconds() bool {
	var numbers []float64
	for _, r := range t.Requests[:min(len(t.Requests), sampleRows)] {
		numbers = append(numbers, 1e3*r.Arrival.Seconds())
	}
	for n := leastGaps + 1; n <= len(numbers); n++ {
		if guessUnit(numbers[:n], true) != "ms" || dense(numbers[:n]) {
			return true
		}
	}
	return false
}

func writeJSONL(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "", func(b []byte, r *Request) []byte {
		b = r.Arrival.AppendDecimal(append(b, `{"arrived_at": `...), 0)
		return fmt.Appendf(b, `, "num_prefill_tokens": %d, "num_decode_tokens": %d}`, r.Input, r.Output)
	})
}

// parquetRequest is a row of a Parquet file.
type parquetRequest struct {
	ArrivedAt float64 `parquet:"arrived_at"` // seconds
	Input     int64   `parquet:"num_prefill_tokens"`
	Output    int64   `parquet:"num_decode_tokens"`
}

// writeParquet writes requests in batches, so that a long trace is never in memory twice.
func writeParquet(w *bufio.Writer, t *Trace) error {
	p := parquet.NewGenericWriter[parquetRequest](w, parquet.Compression(&parquet.Snappy), parquet.CreatedBy("l3sim", "", "parquet-go"))
	rows := make([]parquetRequest, 0, parquetBatch)
	for batch := range slices.Chunk(t.Requests, parquetBatch) {
		rows = rows[:0]
		for i := range batch {
			r := &batch[i]
			at, err := strconv.ParseFloat(string(rounded(r.Arrival, units.Nanosecond).AppendDecimal(nil, 0)), 64)
			if err != nil {
				return err
			}
			rows = append(rows, parquetRequest{at, int64(r.Input), int64(r.Output)})
		}
		if _, err := p.Write(rows); err != nil {
			return err
		}
	}
	return p.Close()
}

// rounded rounds an arrival to the nearest multiple of unit.
func rounded(d, unit units.Duration) units.Duration {
	half := unit / 2
	if d > 1<<63-1-half {
		return d / unit * unit
	}
	return (d + half) / unit * unit
}
