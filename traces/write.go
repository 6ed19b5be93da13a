package traces

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/units"
)

// format is a form of files that can be written.
type format struct {
	name       string
	resolution units.Duration // of arrivals, to which they are rounded; 0 where it has none
	hashes     bool
	// turns says whether it holds that a request follows the one before it in a
	// conversation: nil where it holds none.
	turns func(before, r *Request) bool
	write func(w *bufio.Writer, t *Trace) error
}

// formats are all forms of files, by name.
var formats = []format{
	{name: "azure", resolution: 100 * units.Nanosecond, write: writeAzure},
	{name: "burstgpt", resolution: 1, turns: func(_, r *Request) bool { return !r.Turn.Waits }, write: writeBurstGPT},
	{name: "jsonl", resolution: 1, write: writeJSONL},
	{name: "l3sim", resolution: 1, write: writeOwn},
	{name: "llmservingsim", resolution: units.Nanosecond, turns: func(_, r *Request) bool { return r.Turn.Waits }, write: writeLLMServingSim},
	{name: "llmservingsim-csv", resolution: units.Nanosecond, write: writeLLMServingSimCSV},
	{name: "mooncake", resolution: 1, hashes: true, write: writeMooncake},
	{name: "parquet", resolution: units.Nanosecond, write: writeParquet},
	{name: "sharegpt", turns: nests, write: writeShareGPT},
	{name: "splitwise", resolution: 1, write: writeSplitwise},
	{name: "vidur", resolution: 1, write: writeVidur},
	{name: "vllm", resolution: 1, write: writeVLLM},
}

// FormatNames returns the names of the formats that can be written. All but "csv" that
// are read are among them: a CSV file with columns that the user named.
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

// Write writes the trace in a format of FormatNames. What the format does not hold is
// left out, and what Lost returns.
func (t *Trace) Write(w io.Writer, name string) error {
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

// Lost returns what of the trace a format does not hold, in words, for example "times of
// arrival".
func (t *Trace) Lost(name string) ([]string, error) {
	f, err := lookupFormat(name)
	if err != nil {
		return nil, err
	}
	var arrivals, digits, hashes, turns bool
	before := map[int]*Request{} // of each conversation
	for i := range t.Requests {
		r := &t.Requests[i]
		arrivals = arrivals || f.resolution == 0 && r.Arrival > 0 && (r.Turn == nil || !r.Turn.Waits)
		digits = digits || f.resolution > 1 && r.Arrival%f.resolution != 0
		hashes = hashes || !f.hashes && r.Hashes != nil
		if r.Turn != nil {
			last := before[r.Turn.Session]
			turns = turns || f.turns == nil || last != nil && !f.turns(last, r)
			before[r.Turn.Session] = r
		}
	}
	var lost []string
	for _, l := range []struct {
		is   bool
		what string
	}{
		{arrivals, "times of arrival"}, {digits, "times of arrival to the last digit"},
		{hashes, "hashes of prefixes"}, {turns, "conversations"},
	} {
		if l.is {
			lost = append(lost, l.what)
		}
	}
	return lost, nil
}

// rounded returns an arrival to the nearest multiple of unit.
func rounded(d, unit units.Duration) units.Duration {
	half := unit / 2
	if d > 1<<63-1-half {
		return d / unit * unit
	}
	return (d + half) / unit * unit
}

// writeLines writes a header and a line for each request, which line appends to b.
func writeLines(w *bufio.Writer, t *Trace, header string, line func(b []byte, r *Request) []byte) error {
	b := append([]byte(nil), header...)
	for i := range t.Requests {
		b = append(line(b, &t.Requests[i]), '\n')
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := w.Write(b) // of a trace without requests
	return err
}

// appendNumbers appends numbers with commas between them.
func appendNumbers(b []byte, numbers ...int) []byte {
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return b
}

// azureStart is the time of a trace's first request in Azure's format: the day of the
// trace of 2023.
var azureStart = time.Date(2023, 11, 16, 0, 0, 0, 0, time.UTC)

// writeAzure writes times as those of a day, in steps of 100 ns: the format has no others.
func writeAzure(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "TIMESTAMP,ContextTokens,GeneratedTokens\n", func(b []byte, r *Request) []byte {
		at := azureStart.Add(time.Duration(rounded(r.Arrival, 100*units.Nanosecond) / units.Nanosecond))
		b = append(at.AppendFormat(b, "2006-01-02 15:04:05.0000000"), ',')
		return appendNumbers(b, r.Input, r.Output)
	})
}

func writeVidur(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "arrived_at,num_prefill_tokens,num_decode_tokens\n", func(b []byte, r *Request) []byte {
		return appendNumbers(append(r.Arrival.AppendDecimal(b, 0), ','), r.Input, r.Output)
	})
}

// writeOwn writes the first columns of l3sim's requests.csv.
func writeOwn(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "id,input_tokens,output_tokens,arrival_s\n", func(b []byte, r *Request) []byte {
		return r.Arrival.AppendDecimal(append(appendNumbers(b, r.ID, r.Input, r.Output), ','), 0)
	})
}

func writeLLMServingSimCSV(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "arrival_time_ns,input_toks,output_toks\n", func(b []byte, r *Request) []byte {
		return appendNumbers(append(rounded(r.Arrival, units.Nanosecond).AppendDecimal(b, 9), ','), r.Input, r.Output)
	})
}

// writeSplitwise has the numbers that splitwise-sim's own generator writes for requests
// to a language model: type 2, application 0, batches of 1.
func writeSplitwise(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n", func(b []byte, r *Request) []byte {
		b = append(appendNumbers(b, r.ID, 2, 0), ',')
		return append(append(r.Arrival.AppendDecimal(b, 0), ','), appendNumbers(nil, 1, r.Input, r.Output)...)
	})
}

// writeBurstGPT has a column of sessions where the trace has conversations.
func writeBurstGPT(w *bufio.Writer, t *Trace) error {
	sessions := slices.ContainsFunc(t.Requests, func(r Request) bool { return r.Turn != nil && !r.Turn.Waits })
	header := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	if sessions {
		header = "Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	}
	return writeLines(w, t, header, func(b []byte, r *Request) []byte {
		b = append(r.Arrival.AppendDecimal(b, 0), ',')
		log := ",API log"
		if r.Turn != nil && !r.Turn.Waits {
			b, log = appendNumbers(b, r.Turn.Session), ",Conversation log"
		}
		if sessions {
			b = append(b, ',')
		}
		b = append(b, "unknown,"...)
		return append(appendNumbers(b, r.Input, r.Output, r.Input+r.Output), log...)
	})
}

// writeMooncake writes times in milliseconds, and the hashes of a prompt's blocks where there are any.
func writeMooncake(w *bufio.Writer, t *Trace) error {
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
		return append(b, '}')
	})
}

func writeJSONL(w *bufio.Writer, t *Trace) error {
	return writeLines(w, t, "", func(b []byte, r *Request) []byte {
		b = r.Arrival.AppendDecimal(append(b, `{"arrived_at": `...), 0)
		return fmt.Appendf(b, `, "num_prefill_tokens": %d, "num_decode_tokens": %d}`, r.Input, r.Output)
	})
}

// writeLLMServingSim writes a line for each request and one for each conversation whose
// turns wait for each other, where the first of them stands.
func writeLLMServingSim(w *bufio.Writer, t *Trace) error {
	var b []byte
	for _, calls := range t.conversations(func(_, r *Request) bool { return r.Turn.Waits }) {
		r := calls[0]
		at := rounded(r.Arrival, units.Nanosecond)
		if len(calls) == 1 {
			b = fmt.Appendf(b[:0], `{"input_toks": %d, "output_toks": %d, "arrival_time_ns": `, r.Input, r.Output)
			b = append(at.AppendDecimal(b, 9), "}\n"...)
		} else {
			b = fmt.Appendf(b[:0], `{"session_id": "%d", "arrival_time_ns": `, r.Turn.Session)
			b = append(at.AppendDecimal(b, 9), `, "sub_requests": [`...)
			for k, call := range calls {
				think := units.Duration(0)
				if k+1 < len(calls) {
					think = rounded(calls[k+1].Turn.Think, units.Nanosecond)
				}
				b = fmt.Appendf(b, `{"input_toks": %d, "output_toks": %d, "tool_duration_ns": `, call.Input, call.Output)
				b = append(think.AppendDecimal(b, 9), "}, "...)
			}
			b = append(b[:len(b)-2], "]}\n"...)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// conversations returns the requests in the order of the trace, a conversation of which
// every turn follows the one before it where its first turn stands. Of other
// conversations each request stands alone.
func (t *Trace) conversations(follows func(before, r *Request) bool) [][]*Request {
	turns, broken := map[int][]*Request{}, map[int]bool{}
	for i := range t.Requests {
		if r := &t.Requests[i]; r.Turn != nil {
			s := r.Turn.Session
			broken[s] = broken[s] || len(turns[s]) > 0 && !follows(turns[s][len(turns[s])-1], r)
			turns[s] = append(turns[s], r)
		}
	}
	all := make([][]*Request, 0, len(t.Requests))
	for i := range t.Requests {
		switch r := &t.Requests[i]; {
		case r.Turn == nil || broken[r.Turn.Session]:
			all = append(all, []*Request{r})
		case r.Turn.Number == 0:
			all = append(all, turns[r.Turn.Session])
		}
	}
	return all
}

// writeVLLM writes the lists of requests of a benchmark's result, and no measurement.
func writeVLLM(w *bufio.Writer, t *Trace) error {
	m := t.Moments()
	fmt.Fprintf(w, "{\"num_prompts\": %d, \"total_input_tokens\": %d, \"total_output_tokens\": %d", m.Requests, m.InputTokens, m.OutputTokens)
	for _, list := range []struct {
		name   string
		number func(b []byte, r *Request) []byte
	}{
		{vllmInput, func(b []byte, r *Request) []byte { return appendNumbers(b, r.Input) }},
		{vllmOutput, func(b []byte, r *Request) []byte { return appendNumbers(b, r.Output) }},
		{vllmStart, func(b []byte, r *Request) []byte { return r.Arrival.AppendDecimal(b, 0) }},
	} {
		fmt.Fprintf(w, ",\n%q: [", list.name)
		var b []byte
		for i := range t.Requests {
			if b = list.number(b[:0], &t.Requests[i]); i > 0 {
				_ = w.WriteByte(',') // a writer with a buffer keeps its error for the end
			}
			_, _ = w.Write(b)
		}
		_ = w.WriteByte(']')
	}
	_, err := w.WriteString("}\n")
	return err
}

// nests says that a prompt can begin with the turn before it, and comes at once behind it.
func nests(before, r *Request) bool {
	return r.Turn.Waits && r.Turn.Think == 0 && r.Input > before.Input+before.Output
}

// writeShareGPT writes texts of as many tokens as the trace has: who reads this format
// takes no lengths. " a" is a token of cl100k_base, and of the vocabularies like it.
func writeShareGPT(w *bufio.Writer, t *Trace) error {
	begin := "["
	for i, calls := range t.conversations(nests) {
		fmt.Fprintf(w, "%s\n{\"id\": \"%d\", \"conversations\": [", begin, i)
		begin = ","
		before, comma := 0, "" // tokens of the turns so far
		for _, r := range calls {
			fmt.Fprintf(w, `%s{"from": "human", "value": %q}, {"from": "gpt", "value": %q}`, comma, strings.Repeat(" a", r.Input-before), strings.Repeat(" a", r.Output))
			before, comma = r.Input+r.Output, ", "
		}
		if _, err := w.WriteString("]}"); err != nil {
			return err
		}
	}
	_, err := w.WriteString("\n]\n")
	return err
}

// parquetRequest is a row of a Parquet file.
type parquetRequest struct {
	ArrivedAt float64 `parquet:"arrived_at"` // seconds
	Input     int64   `parquet:"num_prefill_tokens"`
	Output    int64   `parquet:"num_decode_tokens"`
}

// writeParquet writes requests in batches, so that a long trace is never twice in memory.
func writeParquet(w *bufio.Writer, t *Trace) error {
	p := parquet.NewGenericWriter[parquetRequest](w, parquet.Compression(&parquet.Snappy), parquet.CreatedBy("l3sim", "", "parquet-go"))
	rows := make([]parquetRequest, 0, parquetBatch)
	for i := range t.Requests {
		r := &t.Requests[i]
		at, err := strconv.ParseFloat(string(rounded(r.Arrival, units.Nanosecond).AppendDecimal(nil, 0)), 64)
		if err != nil {
			return err
		}
		rows = append(rows, parquetRequest{at, int64(r.Input), int64(r.Output)})
		if len(rows) == cap(rows) || i == len(t.Requests)-1 {
			if _, err := p.Write(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return p.Close()
}
