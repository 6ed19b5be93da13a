package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestRules: lines that are no requests, are out of order, or lie outside of a window.
func TestRules(t *testing.T) {
	const plain = "num_prefill_tokens,num_decode_tokens,arrived_at\n"
	const burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	seconds := func(from, to int) Options {
		return Options{From: units.Duration(from) * units.Second, To: units.Duration(to) * units.Second}
	}
	skip := Options{SkipBad: true}
	for _, c := range []struct {
		name, text string
		options    Options
		want       string // "INPUT@SECONDS ...; failed, skipped, unordered", or an error
	}{
		{"in order", plain + "1,1,3\n2,1,3\n3,1,9\n", Options{}, "1@0 2@0 3@6; 0 0 0"},
		{"out of order", plain + "1,1,3\n2,1,9\n3,1,4\n4,1,8\n5,1,1\n", Options{}, "5@0 1@2 3@3 4@7 2@8; 0 0 2"},
		{"failures", burst + "5,a,7,0,7,x\n9,a,8,1,9,x\n9,a,0,0,0,x\n11,a,5,2,7,x\n", Options{}, "8@0 5@2; 2 0 0"},
		{"an answer to nothing", burst + "5,a,0,3,3,x\n", Options{}, `f:2: Request tokens = "0": expected a whole number of tokens`},
		{"no answers", burst + "5,a,7,0,7,x\n", Options{}, "f: expected at least one request"},
		{"a failure elsewhere", plain + "5,0,1\n", Options{}, `f:2: num_decode_tokens = "0": expected`},
		{"a time that is wrong", burst + "-5,a,7,0,7,x\n", Options{}, `f:2: Timestamp = "-5": expected seconds`},
		{"no time", burst + ",a,7,1,7,x\n", Options{}, `f:2: Timestamp = "": expected seconds`},
		{"two times", plain + "1,1,1.2.3\n", Options{}, `f:2: arrived_at = "1.2.3": expected seconds`},
		{"skipped", plain + "1,1,-3\n2,1,5\n3,x,6\n4,1\n5,1,7\n6,\"1\"2,7\n7,1,NaN\n8,1,8\n", skip, "2@0 5@2 8@3; 0 5 0"},
		{"skipped, the first", plain + "1,1,-3\n2,1,5\n", skip, "2@0; 0 1 0"},
		{"nothing left", plain + "1,1,-3\n", skip, `f: f:2: arrived_at = "-3": expected seconds, not negative, such as 0.251; expected at least one request that is well formed`},
		{"skipped, too far", plain + "1,1,0\n2,1,99999999\n3,1,5\n", skip, "1@0 3@5; 0 1 0"},
		{"an open quotation mark", plain + "1,1,0\n2,\"1,0\n3,1,5\n4,1,6\n", skip, "f:5: extraneous or missing"},
		{"quoted lines", plain + "1,1,0\n2,\"1,0\n3,1\",5,6\n4,1,6\n", skip, "f:3: wrong number of fields"},
		{"a header", "a,b\n1,2\n", skip, `f:1: "a,b": expected a header`},
		{"a window", plain + "1,1,10\n2,1,12\n3,1,14\n4,1,15\n5,1,16\n", seconds(2, 5), "2@0 3@2; 0 0 0"},
		{"a window of the first", plain + "1,1,10\n2,1,12\n0,1,3\n", Options{To: units.Second, SkipBad: true}, "1@0; 0 1 0"},
		{"failures outside", burst + "5,a,7,0,7,x\n9,a,8,1,9,x\n9,a,0,0,0,x\n99,a,5,0,7,x\n", seconds(0, 10), "8@0; 2 0 0"},
		{"an empty window", plain + "1,1,10\n2,1,12\n", seconds(1, 2), "f: expected at least one request from 1s to 2s"},
		{"a window of a long file", plain + "1,1,10\n2,1,1000000\n3,1,100000000\n", seconds(0, 9_000_000), "1@0 2@999990; 0 0 0"},
		{"named columns", "a;b,in,out,t\n1,5,6,2500\n2,7,8,3500.5\n", Options{Columns: Columns{Arrival: "t", Input: "in", Output: "out", Unit: "ms"}}, "5@0 7@1.0005; 0 0 0"},
		{"named columns alone", "num_prefill_tokens,num_decode_tokens,in\n5,6,7\n", Options{Columns: Columns{Input: "in", Output: "out"}}, "f:1: expected a column out"},
		{"named fields", "{\"t\": 1e3, \"in\": 5, \"out\": 6}\n{\"in\": 7, \"t\": 2000000, \"out\": 8}", Options{Columns: Columns{Arrival: "t", Input: "in", Output: "out", Unit: "us"}}, "5@0 7@1.999; 0 0 0"},
		{"a named field is not there", "{\"t\": 1e3, \"in\": 5, \"out\": 6}\n{\"in\": 7, \"out\": 8}", Options{Columns: Columns{Arrival: "t", Input: "in", Output: "out", Unit: "ns"}}, "f:2: no t; expected t, in and out"},
		{"other objects", "{\"a\": 5, \"b\": {\"timestamp\": 3}}\n", Options{}, `f:1: "a", "b": expected the fields of a known format, or their names in --columns`},
		{"a line that is none", "{\"timestamp\": 5, \"input_length\": 3, \"output_length\": 1}\n[1]\n{\"a\":1} 2\nnull\n{\"timestamp\": 5, \"timestamp\": 3, \"input_length\": 3, \"output_length\": 1}\n", skip, "3@0; 0 4 0"},
		{"a field twice", "{\"timestamp\": 5, \"input_length\": 3, \"input_length\": 1, \"output_length\": 1}", Options{}, `f:1: two fields "input_length"; expected a JSON object`},
		{"hashes", `{"timestamp": 5, "input_length": 900, "output_length": 1, "hash_ids": [3, 4]}` + "\n" + `{"timestamp": 6, "input_length": 5000, "output_length": 1, "hash_ids": [3, 4]}`, Options{},
			"f:2: hash_ids = [3, 4]: expected 10 hashes, one for each block of 512 tokens of the prompt; --columns block=N names other blocks"},
		{"one hash alone", `{"timestamp": 5, "input_length": 2300, "output_length": 1, "hash_ids": [3]}`, Options{}, "2300@0; 0 0 0"},
		{"one hash of no known block", `{"timestamp": 5, "input_length": 9000, "output_length": 1, "hash_ids": [3]}`, Options{}, "f:1: hash_ids = [3]: expected 18 hashes"},
		{"hashes that are none", `{"timestamp": 5, "input_length": 13, "output_length": 1, "hash_ids": [-3]}`, Options{}, "f:1: hash_ids = [-3]: expected an array of whole numbers"},
		{"hashes of another type", `{"timestamp": 5, "input_length": 13, "output_length": 1, "hash_ids": "3"}`, Options{}, `f:1: hash_ids = "3": expected an array`},
		{"an empty array of hashes", `{"timestamp": 5, "input_length": 13, "output_length": 1, "hash_ids": [ ]}`, Options{}, "13@0; 0 0 0"},
		{"hashes of which one is none", `{"timestamp": 5, "input_length": 513, "output_length": 1, "hash_ids": [3, null]}`, Options{}, "f:1: hash_ids = [3, null]: expected an array of whole numbers"},
		{"no hashes", `{"timestamp": 5, "input_length": 13, "output_length": 1, "hash_ids": null}`, Options{}, "13@0; 0 0 0"},
		{"calls", `{"arrival_time_ns": 5, "sub_requests": {"input_toks": 3}}`, Options{}, "f:1: sub_requests: expected an array of objects"},
		{"a call", `{"arrival_time_ns": 5, "sub_requests": [{"input_toks": 3, "output_toks": 2}, {"input_toks": 3}]}`, Options{}, "f:1: sub_requests[1]: no output_toks; expected input_toks and output_toks"},
		{"a call's tokens", `{"arrival_time_ns": 5, "sub_requests": [{"input_toks": 3, "output_toks": 0}]}`, Options{}, "f:1: sub_requests[0].output_toks = 0: expected a whole number"},
		{"a call that is none", `{"arrival_time_ns": 5, "sub_requests": [7]}`, Options{}, "f:1: sub_requests[0]: no JSON object"},
		{"a wait", `{"arrival_time_ns": 5, "sub_requests": [{"input_toks": 3, "output_toks": 2, "tool_duration_ns": -1}]}`, Options{}, "f:1: tool_duration_ns = -1: expected nanoseconds"},
		{"no start", `{"sub_requests": [{"input_toks": 3, "output_toks": 2, "tool_duration_ns": -1}]}`, Options{}, "f:1: arrival_time_ns: expected nanoseconds"},
		{"vLLM without times", `{"input_lens": [5, 6], "output_lens": [7, 8]}`, Options{}, "5@0 6@0; 0 0 0"},
		{"vLLM of two lengths", `{"input_lens": [5, 6], "output_lens": [7]}`, Options{}, "f:1: output_lens = 1 numbers: expected 2, as in input_lens"},
		{"vLLM without details", `{"total_input_tokens": 5}`, Options{}, "f: input_lens: expected a list of numbers, which --save-detailed writes"},
		{"vLLM of texts", "{\"input_lens\": [5,\n\"6\"], \"output_lens\": [7, 7]}", Options{}, `f:2: input_lens[1] = "6": expected a whole number of tokens`},
		{"vLLM of lists", `{"input_lens": [5, [6]], "output_lens": [7, 7]}`, Options{}, "f:1: input_lens[1] = [6]: expected a whole number of tokens"},
		{"vLLM of something else", `{"input_lens": 5}`, Options{}, "f:1: input_lens: expected a list of numbers"},
		{"vLLM twice", `{"input_lens": [5], "input_lens": [5]}`, Options{}, "f:1: input_lens: expected one list of this name"},
		{"vLLM and a line end", "{\"input_lens\": [5], \"output_lens\": [7]}\n \t\n", Options{}, "5@0; 0 0 0"},
		{"vLLM and rubbish", "{\"input_lens\": [5], \"output_lens\": [7]}\xff garbage", Options{}, "f:1: not JSON"},
		{"vLLM twice over", "{\"input_lens\": [5], \"output_lens\": [7]}\n{}", Options{}, "f:2: expected nothing behind the object"},
		{"vLLM cut short", `{"input_lens": [5, 6`, Options{}, "f:1: the file ends within a value"},
		{"vLLM cut shorter", "{\"input_lens\"\n: [5], \"x\"", Options{}, "f:2: the file ends within a value"},
		{"vLLM's times", `{"input_lens": [5, 6], "output_lens": [7, 8], "start_times": [0, -1]}`, skip, "5@0; 0 1 0"},
		{"ShareGPT", `[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}]`, Options{}, "f:1: [: expected lengths in tokens, as CSV"},
		{"columns of others", "arrival_timestamp,prompt_size,token_size\n1,5,6\n2.5,7,8\n", Options{Columns: Columns{Arrival: "arrival_timestamp", Input: "prompt_size", Output: "token_size", Unit: "s"}}, "5@0 7@1.5; 0 0 0"},
		{"columns of others without their names", "arrival_timestamp,prompt_n,token_n\n1,5,6\n", Options{}, `f:1: "arrival_timestamp,prompt_n,token_n": expected a header with the columns of a known format, or their names in --columns`},
	} {
		trace, err := c.options.Read("f", strings.NewReader(c.text))
		var got strings.Builder
		switch bad := new(input.Error); {
		case errors.As(err, &bad):
			got.WriteString(err.Error())
		case err != nil:
			t.Errorf("%s: no input.Error: %v", c.name, err)
		default:
			for i := range trace.Requests {
				fmt.Fprintf(&got, "%d@%g ", trace.Requests[i].Input, trace.Requests[i].Arrival.Seconds())
			}
			text := strings.TrimSpace(got.String())
			got.Reset()
			fmt.Fprintf(&got, "%s; %d %d %d", text, trace.Failed, trace.Skipped, trace.Unordered)
			if (trace.FirstBad != nil) != (trace.Skipped > 0) {
				t.Errorf("%s: %d skipped, the first %v", c.name, trace.Skipped, trace.FirstBad)
			}
		}
		if !strings.HasPrefix(got.String(), c.want) || err == nil && got.String() != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got.String(), c.want)
		}
	}
}

// TestOnly: a conversation of one request is none, and turns are numbered in the order in which they come.
func TestOnly(t *testing.T) {
	const text = "Timestamp,Session ID,Request tokens,Response tokens\n9,b,1,1\n1,a,2,1\n8,c,3,1\n7,b,4,1\n3,a,5,1\n4,a,6,0\n5,a,7,1\n"
	trace, err := readFirst("f", strings.NewReader(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	turn := func(session, number int) *Turn { return &Turn{Session: session, Number: number} }
	for i, want := range []Request{{Input: 2, Turn: turn(0, 0)}, {Input: 5, Turn: turn(0, 1)}, {Input: 7, Turn: turn(0, 2)},
		{Input: 4, Turn: turn(1, 0)}, {Input: 3}, {Input: 1, Turn: &Turn{Session: 1, Number: 1, Text: &Text{Turn: 1}}}} {
		if r := trace.Requests[i]; r.Input != want.Input || !reflect.DeepEqual(r.Turn, want.Turn) || r.ID != i {
			t.Errorf("request %d: %+v with %+v, want %+v", i, r, r.Turn, want.Turn)
		}
	}
}

func TestParseColumns(t *testing.T) {
	for text, want := range map[string]string{
		"arrival=t,input=a b,output=c,unit=ms": "{t a b c ms  0}",
		"output=c,input=a":                     "{ a c   0}",
		"input=a=b,output=c":                   "{ a=b c   0}",
		"input=a":                              `"input=a": expected input=NAME,output=NAME, and arrival=NAME`,
		"":                                     `"": expected KEY=NAME`,
		"a,b":                                  `"a": expected KEY=NAME, such as input=prompt_tokens,output=answer_tokens; keys are arrival, input, output, unit, session, block`,
		"input=a,output=b,":                    `"": expected KEY=NAME`,
		"input":                                `"input": expected KEY=NAME`,
		"a=":                                   `"a": expected one of arrival, block, input, output, session, unit`,
		"input=a,output=":                      `"input=a,output=": expected one name for output`,
		"input=a,input=b,output=c":             "expected one name for input",
		"inputs=a,output=c":                    `did you mean "input"?`,
		"input=a,output=c,unit=min":            `"unit=min": expected one of unit=ms, unit=ns, unit=s, unit=us`,
	} {
		c, err := ParseColumns(text)
		got := fmt.Sprint(c)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestDecimals compares with exact arithmetic.
func TestDecimals(t *testing.T) {
	for text, good := range map[string]bool{
		"": false, ".": false, "-": false, "-0": false, "1..2": false, "1.2.3": false, "0x10": false, "1_0": false, "1e": false, "e5": false, "Inf": false, "NaN": false,
		"1e99": false, "1000000000000": false, "999999999999.999999999999": true, "0e99": true, "1e-99": true, "+5": true, "++5": false, ".5": true, "5.": true, "1E+3": true, "٣": false,
		"1e9999999999": false, " 1": false, "-1e-99": false,
	} {
		if _, ok := parseDecimal(text, 0); ok != good {
			t.Errorf("%q: %t", text, ok)
		}
	}
	for text, want := range map[string]instant{
		"0.0000000000005": {0, 1}, "0.0000000000004999": {}, "7.9999999999995": {8, 0}, "5e-13": {0, 1}, "4e-13": {}, "0.000000000001": {0, 1},
		"1700000000.123456789012": {1_700_000_000, 123_456_789_012}, "1.5e3": {1500, 0}, "999999999999.9999999999994": {999_999_999_999, 999_999_999_999},
	} {
		if got, ok := parseDecimal(text, 0); !ok || got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.SampledFrom([]int{0, 3, 6, 9}).Draw(t, "scale")
		text := rapid.StringMatching(`[0-9]{0,14}\.?[0-9]{0,20}([eE][-+]?[0-9]{1,2})?`).Draw(t, "text")
		got, ok := parseDecimal(text, scale)
		exact, good := new(big.Rat).SetString(text)
		if !good {
			if ok {
				t.Fatalf("%s is %+v", text, got)
			}
			return
		}
		ten := func(n int64) *big.Rat {
			return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil))
		}
		exact.Quo(exact.Mul(exact, ten(12)), ten(int64(scale)))
		exact.Add(exact, big.NewRat(1, 2))
		want := new(big.Int).Quo(exact.Num(), exact.Denom())
		if !ok {
			if want.Cmp(ten(24).Num()) < 0 {
				t.Fatalf("%s at %d is refused", text, scale)
			}
			return
		}
		have := new(big.Int).Add(new(big.Int).Mul(big.NewInt(got.seconds), ten(12).Num()), big.NewInt(got.picoseconds))
		if have.Cmp(want) != 0 || got.picoseconds >= 1e12 {
			t.Fatalf("%s at %d: got %v, want %v", text, scale, have, want)
		}
		if d := units.Duration(want.Int64()); want.IsInt64() {
			back, ok := parseDecimal(string(d.AppendDecimal(nil, scale)), scale)
			if back != got || !ok {
				t.Fatalf("%v at %d is written as %s", d, scale, d.AppendDecimal(nil, scale))
			}
		}
	})
}

// FuzzObject compares with package json.
func FuzzObject(f *testing.F) {
	for _, text := range []string{`{}`, ` {"a":1}`, `{"a": [1, {"b": "]}"}], "c\u0041": "\\\"", "d":-1.5e3,"e":null,"f":true }`, `[1]`, `{"a":1}x`, `{"a"`, `"\\"`, `{"":{}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parseObject(text)
		var want map[string]json.RawMessage
		if wrong := json.Unmarshal(text, &want); wrong != nil || want == nil {
			if err == nil {
				t.Fatalf("%q is an object: %v", text, wrong)
			}
			return
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "two fields") {
				t.Fatal(err)
			}
			return
		}
		if len(o) != len(want) {
			t.Fatalf("%d fields of %d in %q", len(o), len(want), text)
		}
		for name, value := range want {
			if got, ok := o.find(name); !ok || string(got) != string(value) {
				t.Fatalf("%q of %q: got %q, want %q", name, text, got, value)
			}
		}
	})
}

// TestTexts: turns share the tokens that they share if the conversation is written out, each token labelled with the turn that added it; a
// prompt keeps the first From tokens of an earlier turn.
func TestTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := &Trace{}
		var texts [][]int // of each turn, the turns with which its tokens came
		var tokens []int
		for turn := range rapid.IntRange(2, 8).Draw(t, "turns") {
			r := Request{Arrival: units.Duration(turn), Input: rapid.IntRange(1, 60).Draw(t, "input"), Output: rapid.IntRange(1, 20).Draw(t, "output"), Turn: &Turn{Session: 7}}
			if turn > 0 {
				switch before := &trace.Requests[turn-1]; {
				case r.Input >= before.Input+before.Output:
				case r.Input >= before.Input:
					tokens = tokens[:before.Input]
				default:
					tokens = nil
				}
			}
			tokens = slices.Clone(tokens)
			for len(tokens) < r.Input+r.Output {
				tokens = append(tokens, turn)
			}
			texts, trace.Requests = append(texts, tokens), append(trace.Requests, r)
		}
		trace.normalize()
		for i := range texts {
			for j := range i {
				same, named := true, true // all tokens so far
				for k := range min(len(texts[i]), len(texts[j])) {
					same = same && texts[i][k] == texts[j][k]
					named = named && trace.Requests[i].Turn.TextOf(k+1) == trace.Requests[j].Turn.TextOf(k+1)
					if same != named {
						t.Fatalf("%d tokens of turns %d and %d: the same names %v, the same text %v\n%v\n%v", k+1, i, j, named, same, texts[j], texts[i])
					}
				}
			}
		}
	})
}

// FuzzOptions: a window needs times in order, and columns must name both numbers of tokens; anything else is refused.
func FuzzOptions(f *testing.F) {
	for _, text := range []string{"600s:1200s", "0s:1ps", ":", "-1s:1s", "1s:1s:1s", "input=a,output=b", "arrival=t,input=a,output=b,unit=ms", "input=,output=b", "input=a=b,output=c", "unit=ms", "block=16,session=s", "block=0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if from, to, err := ParseWindow(text); err == nil && (from < 0 || to <= from) {
			t.Fatalf("%q is a window from %v to %v", text, from, to)
		}
		c, err := ParseColumns(text)
		var bad *input.Error
		if err != nil && !errors.As(err, &bad) || err == nil && (c.Input == "") != (c.Output == "") {
			t.Fatalf("%q: %+v, %v", text, c, err)
		}
	})
}
