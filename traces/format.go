package traces

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/l3sim/l3sim/units"
)

// csvFormat is a kind of CSV file: the columns that hold a request. A file has
// the format if its header names the input and the output column; all other
// columns are ignored.
type csvFormat struct {
	input, output string
	arrival       string // column of arrivals
	required      bool   // the arrival column must be there, else 0 stands for it
	parse         func(string) (instant, bool)
	expected      string // what parse takes
}

// csvFormats are the known CSV formats.
var csvFormats = []csvFormat{
	// Azure LLM inference traces of 2023 and 2024,
	// https://github.com/Azure/AzurePublicDataset.
	{"ContextTokens", "GeneratedTokens", "TIMESTAMP", true, parseTimestamp,
		"a time such as 2023-11-16 18:17:03.9799600"},
	// Plain lengths, as Vidur writes them, https://github.com/microsoft/vidur.
	{"num_prefill_tokens", "num_decode_tokens", "arrived_at", false, parseSeconds,
		"seconds, not negative, such as 0.251"},
	// LLMServingSim's lengths, https://github.com/casys-kaist/LLMServingSim.
	{"input_toks", "output_toks", "arrival_time_ns", true, parseNanoseconds,
		"a whole number of nanoseconds, not negative"},
}

// parseTimestamp reads the date and time of an Azure trace: UTC without a zone
// in 2023, with one in 2024; any number of fraction digits.
func parseTimestamp(s string) (instant, bool) {
	t, err := time.Parse("2006-01-02 15:04:05", s)
	if err != nil {
		t, err = time.Parse("2006-01-02 15:04:05Z07:00", s)
	}
	return instant{t.Unix(), int64(t.Nanosecond()) * 1000}, err == nil
}

// parseSeconds reads a decimal number of seconds, to the nearest picosecond.
func parseSeconds(s string) (instant, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= maxSeconds) {
		return instant{}, false
	}
	return fromPicoseconds(units.FromSeconds(v)), true
}

// parseNanoseconds reads a whole number of nanoseconds.
func parseNanoseconds(s string) (instant, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return instant{v / 1e9, v % 1e9 * 1000}, err == nil && v >= 0
}

// maxSeconds is the range of units.Duration, in whole seconds.
const maxSeconds = float64(1<<63/1_000_000_000_000 - 1)

func fromPicoseconds(d units.Duration) instant {
	return instant{int64(d / units.Second), int64(d % units.Second)}
}

// since returns the time from j to i, which is not before j, and false where
// it does not fit.
func (i instant) since(j instant) (units.Duration, bool) {
	seconds := i.seconds - j.seconds
	if float64(seconds) > maxSeconds {
		return 0, false
	}
	return units.Duration(seconds)*units.Second + units.Duration(i.picoseconds-j.picoseconds), true
}

// formatNames lists the columns of all CSV formats, for error messages.
func formatNames() string {
	names := make([]string, len(csvFormats))
	for i, f := range csvFormats {
		arrival := f.arrival
		if !f.required {
			arrival = "[" + arrival + "]"
		}
		names[i] = fmt.Sprintf("%s,%s,%s", arrival, f.input, f.output)
	}
	return strings.Join(names, " or ")
}
