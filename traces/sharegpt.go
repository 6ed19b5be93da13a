package traces

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/l3sim/l3sim/input"
)

// message is a turn of a conversation as ShareGPT has it,
// https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered.
type message struct {
	From  string `json:"from"`
	Value string `json:"value"`
}

// Who speaks: an answer is what the model generates, all else is prompt.
var (
	answers = []string{"gpt", "assistant", "chatgpt", "bing", "bard"}
	prompts = []string{"human", "user", "system", "tool"}
)

// shareGPT reads conversations.
type shareGPT struct {
	*collector
	json    *input.JSON
	counter *codec.Codec
	number  int // of the conversation
}

// readShareGPT adds the requests of an array of conversations. Lengths are those of
// cl100k_base, GPT-4's vocabulary, which Llama 3's contains: other models cut text into
// more or fewer tokens.
func (c *collector) readShareGPT(r *bufio.Reader) error {
	c.format = "sharegpt"
	s := &shareGPT{collector: c, json: input.NewJSON(c.file, r), counter: codec.NewCl100kBase()}
	if _, err := s.json.Token(); err != nil { // the bracket
		return s.json.Cut(err)
	}
	for ; s.json.More() && !c.enough(); s.number++ {
		if err := s.conversation(); err != nil {
			return err
		}
	}
	if c.enough() {
		return nil
	}
	if _, err := s.json.Token(); err != nil {
		return s.json.Cut(err)
	}
	return s.json.End("the array")
}

// conversation reads one element of the array.
func (s *shareGPT) conversation() error {
	var of struct {
		Conversations *[]message `json:"conversations"`
	}
	err := s.json.Decode(&of)
	line := s.json.Line() // on which it ends
	key := "[" + strconv.Itoa(s.number) + "].conversations"
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return s.skip(&input.Error{File: s.file, Line: line, Key: key, Value: wrong.Value, Expected: "a list of objects with texts from and value"})
	}
	if err != nil {
		return s.json.Cut(err)
	}
	if of.Conversations == nil {
		return s.skip(&input.Error{File: s.file, Line: line, Key: key, Expected: "a list of objects with texts from and value"})
	}
	rows, err := s.rows(line, key, *of.Conversations)
	if err != nil {
		return s.skip(err)
	}
	for _, r := range rows {
		if err := s.add(r, nil); err != nil || s.enough() {
			return err
		}
	}
	return nil
}

// rows returns the requests of a conversation: for each answer that follows a prompt,
// all before it as a chat sends it, without the marks between turns.
func (s *shareGPT) rows(line int, key string, messages []message) ([]row, error) {
	var rows []row
	before, asked := 0, false
	for i, m := range messages {
		tokens, err := s.counter.Count(m.Value)
		if err != nil {
			return nil, &input.Error{File: s.file, Line: line, Key: fmt.Sprintf("%s[%d].value", key, i), Err: err}
		}
		answer := slices.Contains(answers, m.From)
		if known := slices.Concat(prompts, answers); !slices.Contains(known, m.From) {
			return nil, input.Edit(input.UnknownName(fmt.Sprintf("%s[%d].from", key, i), m.From, known), func(e *input.Error) { e.File, e.Line = s.file, line })
		}
		if answer && asked {
			if before > maxTokens || tokens > maxTokens {
				return nil, &input.Error{File: s.file, Line: line, Key: fmt.Sprintf("%s[%d]", key, i), Expected: fmt.Sprintf("at most %d tokens", maxTokens)}
			}
			rows = append(rows, row{line: line, input: before, output: tokens, session: key, waits: true, failed: before == 0 || tokens == 0})
		}
		before, asked = before+tokens, !answer
	}
	return rows, nil
}
