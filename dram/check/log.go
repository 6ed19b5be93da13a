package check

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/internal/lines"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// Record is one line of a command log: a command, its address and its clock.
type Record struct {
	Clock   int64
	Command dram.Command
	Address dram.Address
}

// MarshalJSON writes null for a record without a clock, such as a missing refresh. Parts that the address lacks are -1.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.Clock < 0 {
		return []byte("null"), nil
	}
	a := r.Address
	return fmt.Appendf(nil, `{"clock":%d,"command":%q,"rank":%d,"bank_group":%d,"bank":%d,"row":%d,"column":%d}`,
		r.Clock, r.Command, a.Rank, a.BankGroup, a.Bank, a.Row, a.Column), nil
}

// LogHeader describes a command log, so that the checker needs no flags. In the text each item is a line before the column names:
//
//	# spec = ddr4-3200-8gb-x8       the part that the timing starts from; custom sets every field
//	# set tRFC = 880                a field that differs from the part's, by its configuration key; repeatable
//	# ranks = 1
//	# buses = rank                  each rank has command and data bus of its own (default: channel)
//	# allow = tRRD_S, tRRD_L, tFAW  rules whose breaks are listed but do not fail
//
// Other lines that begin with # are comments.
type LogHeader struct {
	// Spec is nil in a log that does not name one.
	Spec *dram.Spec
	// Ranks is 0 in a log that does not give it.
	Ranks int
	// PrivateBuses means that each rank's commands and bursts use the rank's own buses, as under the rank processing unit of a DIMM-PIM.
	PrivateBuses bool
	// Allow names waived rules. An ACTA breaks some rules by design.
	Allow []string
}

// customSpec stands for a spec that is not a known part; the log then sets every field.
const customSpec = "custom"

const maxDeclaration = 200 // bytes of the longest declaration in a log, key and value

// logColumns is the header of a log: clock, command, and address, with -1 for absent parts.
const logColumns = "clock,command,rank,bankgroup,bank,row,column"

// LogWriter writes a command log. Records must come in the order of their
// clocks. Errors are kept and returned by Flush.
type LogWriter struct {
	w    *bufio.Writer
	line []byte
}

// NewLogWriter writes header and column names to w and returns the writer of the records.
func NewLogWriter(w io.Writer, h LogHeader) *LogWriter {
	b := bufio.NewWriterSize(w, 1<<16)
	if h.Spec != nil {
		writeSpec(b, h.Spec)
	}
	if h.Ranks > 0 {
		fmt.Fprintf(b, "# ranks = %d\n", h.Ranks)
	}
	if h.PrivateBuses {
		fmt.Fprintln(b, "# buses = rank")
	}
	if len(h.Allow) > 0 {
		fmt.Fprintf(b, "# allow = %s\n", strings.Join(h.Allow, ", "))
	}
	fmt.Fprintln(b, logColumns)
	return &LogWriter{w: b}
}

// writeSpec writes the part's name, the fields that differ from it, and the standard's own timings.
func writeSpec(w io.Writer, s *dram.Spec) {
	base, err := s.Rules().Part(s.Name)
	if err != nil {
		base = &dram.Spec{Name: customSpec, ECC: dram.NoECC}
	}
	fmt.Fprintf(w, "# spec = %s\n", base.Name)
	keys := schema.Of[dram.Spec]()
	for _, k := range keys.Changed(base, s) {
		if k.Name != "name" && k.Name != "timings" {
			fmt.Fprintf(w, "# set %s = %s\n", k.Name, schema.Text(k.Get(s)))
		}
	}
	for _, p := range s.Parameters() {
		if clocks, ok := base.Timing(p.Term); keys.Key(p.Term) == nil && (!ok || clocks != p.Clocks) {
			fmt.Fprintf(w, "# set %s = %d\n", p.Term, p.Clocks)
		}
	}
}

// Write appends one record; negative parts of the address become -1.
func (l *LogWriter) Write(clock int64, cmd dram.Command, a dram.Address) {
	b := strconv.AppendInt(l.line[:0], clock, 10)
	b = append(b, ',')
	b = append(b, cmd.String()...)
	for _, v := range [...]int32{a.Rank, a.BankGroup, a.Bank, a.Row, a.Column} {
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(max(v, -1)), 10)
	}
	l.line = append(b, '\n')
	l.w.Write(l.line) // the writer keeps the error for Flush
}

// Flush writes the buffer, and returns the first error of any write.
func (l *LogWriter) Flush() error { return l.w.Flush() }

// LogReader reads a command log record by record, plain or gzip: ours, or DRAMsim3's, whose header is
// cycle,cmd,rank,bankgroup,bank,row,col.
type LogReader struct {
	Header LogHeader
	file   string
	reader *lines.Reader
	last   int64
	count  int64
}

// NewLogReader reads the log's header from r; file names r in errors, which are of type *input.Error. The log may name parts of the
// standards in own, in addition to shipped ones.
func NewLogReader(file string, r io.Reader, own ...*dram.Standard) (*LogReader, error) {
	reader, err := lines.NewReader(file, r)
	if err != nil {
		return nil, err
	}
	l := &LogReader{file: file, reader: reader}
	for {
		text, err := reader.Next()
		if err == io.EOF {
			return nil, &input.Error{File: file, Expected: "a command log with the header " + logColumns}
		}
		if err != nil {
			return nil, err
		}
		s := strings.TrimSpace(string(text))
		if s == "" {
			continue
		}
		if strings.HasPrefix(s, "#") {
			if err := l.Header.declare(strings.TrimSpace(s[1:]), own); err != nil {
				return nil, reader.At(err)
			}
			continue
		}
		if s = strings.ReplaceAll(s, " ", ""); s != logColumns && s != "cycle,cmd,rank,bankgroup,bank,row,col" {
			return nil, reader.At(&input.Error{Value: strconv.Quote(lines.Clip(s)), Expected: "the header " + logColumns})
		}
		if l.Header.Spec == nil {
			return l, nil
		}
		return l, input.Edit(input.Validate(l.Header.Spec), func(e *input.Error) { e.File = l.file })
	}
}

// declare parses one declaration. Other text is a comment.
func (h *LogHeader) declare(text string, own []*dram.Standard) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return nil
	}
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if strings.HasPrefix(key, "set ") || slices.Contains([]string{"spec", "ranks", "buses"}, key) {
		if len(key)+len(value) > maxDeclaration {
			return &input.Error{Key: lines.Clip(key), Value: lines.Clip(value), Expected: fmt.Sprintf("a declaration of at most %d bytes", maxDeclaration)}
		}
	}
	switch {
	case key == "spec" && value == customSpec:
		h.Spec = &dram.Spec{Name: customSpec, ECC: dram.NoECC}
	case key == "spec":
		s, err := dram.LookupSpec(value)
		for _, o := range own {
			if part, bad := o.Part(value); bad == nil {
				s, err = part, nil
			}
		}
		if err != nil {
			return &input.Error{Key: "spec", Value: value, Nearest: input.Nearest(value, dram.SpecNames()),
				Expected: "a part that ships, or one of the table that the log is checked with: a part of your own table needs --dram FILE.toml:PART"}
		}
		h.Spec = s
	case strings.HasPrefix(key, "set "):
		if h.Spec == nil {
			return &input.Error{Key: key, Expected: "a line '# spec = PART' before it"}
		}
		return h.Spec.Set(strings.TrimSpace(key[4:]), value)
	case key == "ranks":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > dram.MaxRanks {
			return &input.Error{Key: key, Value: value, Expected: fmt.Sprintf("1 to %d", dram.MaxRanks)}
		}
		h.Ranks = n
	case key == "buses":
		if value != "rank" && value != "channel" {
			return &input.Error{Key: key, Value: value, Expected: "rank or channel"}
		}
		h.PrivateBuses = value == "rank"
	case key == "allow":
		for _, rule := range strings.Split(value, ",") {
			if rule = strings.TrimSpace(rule); rule == "" || slices.Contains(h.Allow, rule) {
				continue
			}
			if known := RuleNames(append(dram.Standards(), own...)...); !slices.Contains(known, rule) {
				return input.UnknownName("allow", lines.Clip(rule), known)
			}
			h.Allow = append(h.Allow, rule)
		}
	}
	return nil
}

// Records returns the number of records read so far.
func (l *LogReader) Records() int64 { return l.count }

// Next returns the next record. The error is io.EOF after the last one, or an *input.Error.
func (l *LogReader) Next() (Record, error) {
	for {
		text, err := l.reader.Next()
		if err != nil {
			return Record{}, err
		}
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		r, bad := parseRecord(text)
		if bad == nil && r.Clock < l.last {
			bad = &input.Error{Key: "clock", Value: strconv.FormatInt(r.Clock, 10),
				Expected: fmt.Sprintf("at least %d, the clock of the command before", l.last)}
		}
		if bad != nil {
			return Record{}, l.reader.At(bad)
		}
		l.last = r.Clock
		l.count++
		return r, nil
	}
}

// parseRecord reads one line of seven columns.
func parseRecord(text []byte) (Record, error) {
	var fields [7][]byte
	if bytes.Count(text, []byte{','}) != len(fields)-1 {
		return Record{}, &input.Error{Value: strconv.Quote(lines.Clip(string(text))), Expected: "seven columns"}
	}
	for i := range fields {
		field, rest, _ := bytes.Cut(text, []byte{','})
		fields[i], text = bytes.TrimSpace(field), rest
	}
	var r Record
	var ok bool
	if r.Clock, ok = lines.ParseInt(fields[0]); !ok || r.Clock < 0 || r.Clock > dram.MaxClock {
		return r, &input.Error{Key: "clock", Value: strconv.Quote(lines.Clip(string(fields[0]))),
			Expected: fmt.Sprintf("0 to %d", int64(dram.MaxClock))}
	}
	if r.Command, ok = dram.ParseCommand(string(fields[1])); !ok {
		return r, input.UnknownName("command", lines.Clip(string(fields[1])), dram.CommandNames())
	}
	parts := [...]*int32{&r.Address.Rank, &r.Address.BankGroup, &r.Address.Bank, &r.Address.Row, &r.Address.Column}
	for i, p := range parts {
		v, ok := int64(-1), true
		if len(fields[i+2]) > 0 {
			v, ok = lines.ParseInt(fields[i+2])
		}
		if !ok || v < -1 || v > 1<<31-1 {
			return r, &input.Error{Key: strings.Split(logColumns, ",")[i+2],
				Value: strconv.Quote(lines.Clip(string(fields[i+2]))), Expected: "a number, -1 or nothing"}
		}
		*p = int32(v)
	}
	return r, nil
}
