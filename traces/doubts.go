package traces

import (
	"slices"
	"strings"
	"time"
)

// sumNames are columns with the number of requests that a row stands for, as in OpenAI's usage exports.
var sumNames = strings.Fields("num_model_requests num_requests request_count n_requests requests_count")

// cacheNames are columns of prompt tokens that Anthropic's input_tokens excludes.
var cacheNames = []string{"cache_read_input_tokens", "cache_creation_input_tokens"}

// noteLengths adds notes about columns which suggest that the lengths read are not those of single requests.
func (c *collector) noteLengths(t *table, s *sample) {
	above := func(name string, least float64) bool {
		return slices.ContainsFunc(numbersIn(s.column(name)), func(x float64) bool { return x > least })
	}
	beside := func(name string) bool { // t.input or t.output in the same object
		return strings.TrimSuffix(name, lastName(name)) == strings.TrimSuffix(t.input, lastName(t.input))
	}
	if name := s.findName(sumNames); name != "" && above(name, 1) {
		c.note("%s is above 1, so a row sums up several requests; it is read as one request of all their tokens", name)
	}
	if stem(t.input) != "input_tokens" && stem(t.input) != "prompt_tokens" {
		return
	}
	cached := slices.DeleteFunc(slices.Clone(s.nested), func(name string) bool {
		return !slices.Contains(cacheNames, stem(name)) || !beside(name) || !above(name, 0)
	})
	if len(cached) > 0 && stem(t.input) == "input_tokens" {
		c.note("%s leaves out the tokens of %s, which are part of the prompt: add them up first", t.input, strings.Join(cached, " and "))
	}
	if c.options.Columns.Input != "" {
		return
	}
	for _, name := range s.nested {
		elsewhere := stem(name) == stem(t.input) && strings.Count(name, ".") == strings.Count(t.input, ".") // such as Cohere's billed tokens
		if name != t.input && (slices.Contains(inputNames[:3], stem(name)) && beside(name) || elsewhere) && above(name, 0) && !slices.Equal(s.values[name], s.values[t.input]) {
			c.note("prompts are read from %s, whose numbers differ from those of %s; --columns input=%[2]s,output=%[3]s reads these", t.input, name, t.output)
		}
	}
}

// durations are names that look like arrival times and are durations, such as nginx's request_time or a server's queue_time.
var durations = []string{"request_time", "queue_time", "queued_time"}

// withoutUnit strips the unit from the end of a column's name.
func withoutUnit(name string) string {
	words := strings.Split(stem(name), "_")
	if n := len(words); n > 1 && unitWords[words[n-1]] != "" {
		words = words[:n-1]
	}
	return strings.Join(words, "_")
}

// isDayNumbers reports whether texts are dates written as numbers, such as 20260102.
func isDayNumbers(texts []string) bool {
	return len(texts) > 0 && !slices.ContainsFunc(texts, func(text string) bool {
		day, err := time.Parse("20060102", text)
		return err != nil || day.Year() < 1990 || day.Year() > 2100
	})
}

// isRounded reports whether an epoch time is written with an exponent and too few digits for whole seconds, as spreadsheets do.
func isRounded(text string) bool {
	mantissa, _, exponent := strings.Cut(strings.ToLower(text), "e")
	return exponent && len(strings.Trim(strings.Replace(mantissa, ".", "", 1), "+-")) < 10
}
