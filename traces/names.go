package traces

import (
	"slices"
	"strings"
	"unicode"
)

// plainName is a column's name in lower case with underscores between its words: "Arrival Time (ms)" and "arrivalTimeMs" are
// arrival_time_ms.
func plainName(name string) string {
	var b strings.Builder
	last := ' '
	for _, c := range name {
		switch {
		case unicode.IsLetter(c) || unicode.IsDigit(c):
			if unicode.IsUpper(c) && unicode.IsLower(last) || b.Len() > 0 && !unicode.IsLetter(last) && !unicode.IsDigit(last) {
				b.WriteByte('_')
			}
			b.WriteRune(unicode.ToLower(c))
		}
		last = c
	}
	return b.String()
}

// Names of lengths in public traces, server logs and benchmark results, the commonest first: OpenAI's usage, NVIDIA's isl and osl, and
// others.
var (
	inputNames = strings.Fields(`input_tokens input_length prompt_tokens num_prefill_tokens input_toks isl input_len prompt_len prompt_length
		num_prompt_tokens num_input_tokens n_prompt_tokens n_input_tokens input_sequence_length input_seq_len input_token_count prompt_token_count
		input_tokens_count prompt_tokens_count context_tokens context_length request_tokens prefill_tokens prefill_length prefill_len tokens_in in_tokens tokens_prompt input_usage prompt_eval_count tokens_evaluated
		input_num_tokens total_input_tokens prompt_size input_size`)
	outputNames = strings.Fields(`output_tokens output_length completion_tokens num_decode_tokens output_toks osl output_len completion_len completion_length
		response_len response_length generation_len generation_length generated_length num_output_tokens num_completion_tokens num_generated_tokens n_output_tokens
		n_generated_tokens n_completion_tokens output_sequence_length output_seq_len output_token_count completion_token_count generated_token_count
		output_tokens_count completion_tokens_count generated_tokens generation_tokens response_tokens decode_tokens decode_length decode_len
		tokens_out out_tokens tokens_completion output_usage token_size num_generation_tokens eval_count tokens_predicted candidates_token_count gen_tokens gen_len output_num_tokens total_output_tokens output_size`)
	sessionNames = strings.Fields("session_id conversation_id")
)

// timeNames are names of arrival times without their unit, the surest first: when a request came, was sent, or was logged. From weakTimes
// on, a name may mean another time, and counts only if its values rise.
var timeNames = strings.Fields(`arrival arrival_time arrived_at arrived arrival_timestamp arrival_ts arrival_at request_arrival request_arrival_time
	request_timestamp request_created_at request_ts request_start request_start_time request_at requested_at
	submitted_at submit_time submission_time submit_timestamp submit_ts submit submitted
	created_time created_at creation_time created created_timestamp create_time
	sent_at send_time sent_time sent_timestamp issued_at issue_time queued_at enqueued_at enqueue_time received_at receive_time received_time
	timestamp time_stamp ts event_time datetime date_time event_timestamp log_time
	start_time started_at start_timestamp start_ts start_at begin_time
	time request_time queue_time queued_time t date start begin when clock offset time_offset relative_time elapsed_time`)

const weakTimes = "time"

// unitWords map the last word of a name to the unit of its times.
var unitWords = map[string]string{
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "ms": "ms", "msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"us": "us", "usec": "us", "usecs": "us", "micros": "us", "microsecond": "us", "microseconds": "us", "ns": "ns", "nsec": "ns", "nsecs": "ns", "nanos": "ns", "nanosecond": "ns", "nanoseconds": "ns",
}

// coarseUnits are units too coarse for a trace, as the last word of a name.
var coarseUnits = []string{"min", "mins", "minute", "minutes", "h", "hour", "hours", "day", "days"}

// isCoarse reports whether the last word of a name is a unit too coarse for a trace.
func isCoarse(name string) bool {
	words := strings.Split(plainName(lastName(name)), "_")
	return slices.Contains(coarseUnits, words[len(words)-1])
}

// noTimes are words that occur in names with "arrival" or "time" that are not arrival times.
var noTimes = strings.Fields("rate rates order rank index idx id num number count process type distribution end ended finish finished")

// holdsGaps reports whether a name is of times between arrivals, such as inter_arrival_s or request_interval.
func holdsGaps(name string) bool {
	words := strings.Split(plainName(name), "_")
	of := func(words []string, of string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(strings.Fields(of), word) })
	}
	return of(words, "iat interarrival") || of(words, "since") && of(words, "last prev previous") || of(words, "inter delta diff gap interval") && of(words, "arrival arrived arrivals request time timestamp ts")
}

// timeName returns the index of a name in timeNames, or -1, and the unit in the name, "" for none.
func timeName(name string) (rank int, unit string) {
	words := strings.Split(plainName(name), "_")
	if slices.Contains(coarseUnits, words[len(words)-1]) || holdsGaps(name) {
		return -1, ""
	}
	for len(words) > 1 {
		last := words[len(words)-1]
		if u := unitWords[last]; u != "" && unit == "" {
			unit = u
		} else if !slices.Contains([]string{"in", "utc", "unix", "epoch"}, last) {
			break
		}
		words = words[:len(words)-1]
	}
	stem := strings.Join(words, "_")
	other := func(word string) bool { return slices.Contains(noTimes, word) }
	if rank = slices.Index(timeNames, stem); rank < 0 && !slices.ContainsFunc(words, other) && (strings.HasPrefix(stem, "arriv") || strings.HasPrefix(stem, "timestamp")) {
		rank = slices.Index(timeNames, "ts")
	}
	return rank, unit
}

// lastName returns the meaningful part of a field's path: the last one other than "value" (isl in metrics.isl.value), or the name above
// MongoDB's types ("created" in created.$date.$numberLong).
func lastName(path string) string {
	parts := strings.Split(path, ".")
	for n := len(parts); n > 1 && (parts[n-1] == "value" || strings.HasPrefix(parts[n-1], "$")); n-- {
		parts = parts[:n-1]
	}
	return parts[len(parts)-1]
}

// stem is lastName in the form of plainName.
func stem(path string) string { return plainName(lastName(path)) }

// findName returns the sample's name that matches one of the known names, "" for none. Earlier known names, and names that are not nested,
// have priority.
func (s *sample) findName(known []string) string {
	best, rank := "", len(known)
	for _, name := range s.nested {
		if i := slices.Index(known, stem(name)); i >= 0 && !s.isObject(name) && (i < rank || i == rank && strings.Count(name, ".") < strings.Count(best, ".")) {
			best, rank = name, i
		}
	}
	return best
}
