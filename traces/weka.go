package traces

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Sessions of coding agents, one JSON object after another: WEKA's, https://github.com/callanjfox/kv-cache-tester (traces/), and those of
// InferenceX AgentX, which NVIDIA AIPerf reads (https://github.com/ai-dynamo/aiperf,
// src/aiperf/dataset/graph/adapters/weka/trace_models.py).
var wekaTable = table{format: "weka", input: "in", output: "out", arrival: "t", required: true, clock: seconds, exact: true, fails: true, session: "id"}

// Fields of a session and of its requests that are not columns of a table.
const (
	wekaRequests = "requests"
	wekaScope    = "hash_id_scope" // "local": a hash means the same in one session alone; "global": in all
	wekaServed   = "api_time"      // seconds that a request took
	wekaThink    = "think_time"    // seconds from the end of the previous request
	wekaDuration = "duration_ms"   // of a sub-agent
)

// wekaSession is the session being read.
type wekaSession struct {
	id, scope string
	block     int
	requests  []json.RawMessage
	line      int
	seed      uint64 // of the hashes
}

// readWeka adds the requests of all sessions of a file.
func (c *collector) readWeka(r *bufio.Reader) error {
	c.use(&wekaTable, "")
	j := input.NewJSON(c.file, r)
	for n := 0; !c.enough(); n++ {
		s := wekaSession{scope: "local"}
		end, err := eachField(j, func(name string) (err error) {
			switch name {
			case "id":
				err = j.Decode(&s.id)
			case blockField:
				err = j.Decode(&s.block)
			case wekaScope:
				err = j.Decode(&s.scope)
			case wekaRequests:
				err = eachElement(j, func() error {
					var request json.RawMessage
					err := j.Decode(&request)
					s.requests = append(s.requests, request)
					return err
				})
			default:
				err = j.Skip()
			}
			return wrongKind(err, name)
		})
		if err != nil || end {
			return err
		}
		if s.line = j.Line(); s.scope == "local" {
			s.seed = uint64(n) + 1
		}
		if err := c.checkWeka(&s); err != nil {
			return err
		}
		agent := wekaAgent{session: fmt.Sprintf("session %d", n), key: wekaRequests}
		if err := c.wekaAgent(&s, &agent, s.requests); err != nil {
			return err
		}
	}
	return nil
}

// checkWeka refuses a session whose hashes have another form than those of earlier sessions.
func (c *collector) checkWeka(s *wekaSession) error {
	wrong := &input.Error{File: c.file, Line: s.line}
	switch {
	case s.scope != "local" && s.scope != "global":
		wrong.Key, wrong.Value, wrong.Expected = wekaScope, strconv.Quote(s.scope), `"local" or "global"`
	case s.block < 1 || s.block > maxBlock:
		wrong.Key, wrong.Value, wrong.Expected = blockField, strconv.Itoa(s.block), fmt.Sprintf("1 to %d tokens, in a session with %s", maxBlock, wekaRequests)
	case c.blocks.given != 0 && c.blocks.given != s.block && c.options.Columns.Block == 0:
		wrong.Key, wrong.Value = blockField, strconv.Itoa(s.block)
		wrong.Expected = fmt.Sprintf("%d, as in the sessions before; a file for each size", c.blocks.given)
	default:
		if c.blocks.given == 0 {
			c.blocks.given = s.block
		}
		return nil
	}
	return wrong
}

// wekaAgent is an agent of a session: that of the user, or a sub-agent.
type wekaAgent struct {
	session string
	key     string         // key of its requests, for errors
	start   units.Duration // origin of the requests' times
	spawned *Turn          // the turn that started it; nil for the user's agent
	known   bool           // the end of that turn is known:
	ended   instant

	last     *Turn    // its last turn so far, or nil
	hashes   []uint64 // hashes of the blocks of its last turn
	waitsFor []*Turn  // last turns of the sub-agents since its last turn
}

// wekaAgent adds the requests of an agent and of its sub-agents.
func (c *collector) wekaAgent(s *wekaSession, a *wekaAgent, requests []json.RawMessage) error {
	for i, text := range requests {
		if c.enough() {
			return nil
		}
		key := fmt.Sprintf("%s[%d]", a.key, i)
		o, err := parseObject(text)
		if err != nil {
			err = &input.Error{File: c.file, Line: s.line, Key: key, Err: err, Expected: "an object with t, in, out and hash_ids, or one of a sub-agent"}
		} else if kind, _ := o.text("type"); kind == "subagent" {
			err = c.wekaSubagent(s, a, o, key)
		} else {
			var r row
			if r, err = c.wekaRow(s, a, o); err == nil {
				err = c.add(r, nil)
			}
		}
		if err = c.placed(err, s.line, key); err != nil {
			return err
		}
	}
	return nil
}

// placed adds a key to the error within a value, and counts the error if malformed lines are skipped.
func (c *collector) placed(err error, line int, key string) error {
	if err == nil {
		return nil
	}
	return c.skip(input.Edit(c.at(line, err), func(e *input.Error) {
		if !strings.HasPrefix(e.Key, key) {
			e.Key = strings.TrimSuffix(key+"."+e.Key, ".")
		}
	}))
}

// wekaTime reads a field of seconds.
func (c *collector) wekaTime(o object, name string, line int) (units.Duration, bool, error) {
	text, ok := o.text(name)
	if !ok {
		return 0, false, nil
	}
	at, good := seconds.parse(text)
	if !good || at.seconds > maxSeconds {
		return 0, false, &input.Error{File: c.file, Line: line, Key: name, Value: text, Expected: seconds.expected}
	}
	return units.Duration(at.seconds)*units.Second + units.Duration(at.picoseconds), true, nil
}

// wekaRow reads a request, which waits for the turn before it and for sub-agents in between.
func (c *collector) wekaRow(s *wekaSession, a *wekaAgent, o object) (row, error) {
	r, err := c.jsonRow(s.line, o, &wekaTable)
	if err != nil {
		return row{}, err
	}
	served, isServed, err := c.wekaTime(o, wekaServed, s.line)
	if err != nil {
		return row{}, err
	}
	think, thinks, err := c.wekaTime(o, wekaThink, s.line)
	if err != nil {
		return row{}, err
	}
	r.arrival, r.session = r.arrival.after(a.start), a.session
	if r.failed {
		return r, nil
	}
	if a.hashes, err = c.wekaHashes(s, a, o, r.input); err != nil {
		return row{}, err
	}
	if a.hashes != nil {
		r.hashes = a.hashes[:len(a.hashes):len(a.hashes)]
	}
	r.turn = &Turn{}
	if a.last == nil && a.spawned != nil {
		r.turn.After = []*Turn{a.spawned}
	} else {
		r.turn.After = a.waitsFor
	}
	if len(r.turn.After) > 0 || !thinks { // recorded times count from the previous turn, not from the sub-agents
		var since units.Duration
		if since, thinks = r.arrival.since(a.ended); since >= 0 {
			think = since
		}
		thinks = thinks && a.known
	}
	if thinks && (a.last != nil || len(r.turn.After) > 0) {
		r.turn.Waits, r.turn.Think = true, max(think, 0)
	}
	a.last, a.waitsFor, a.known, a.ended = r.turn, nil, isServed, r.arrival.after(served)
	return r, nil
}

// wekaHashes reads the hashes of a prompt, each of all tokens up to the end of its block. Turns share the memory of earlier turns' hashes,
// so a session has only as many hashes as its longest prompt.
func (c *collector) wekaHashes(s *wekaSession, a *wekaAgent, o object, tokens int) ([]uint64, error) {
	ids, err := c.readHashes(s.line, o, &wekaTable, tokens)
	if err != nil || ids == nil {
		return nil, err
	}
	chain(ids, s.seed)
	if n := len(a.hashes); n <= len(ids) && slices.Equal(ids[:n], a.hashes) {
		return append(a.hashes, ids[n:]...), nil
	}
	return ids, nil
}

// wekaSubagent adds the requests of a sub-agent. Times count from its start, or from the session's start if none of its times is before it.
func (c *collector) wekaSubagent(s *wekaSession, a *wekaAgent, o object, key string) error {
	start, ok, err := c.wekaTime(o, wekaTable.arrival, s.line)
	if err != nil {
		return err
	}
	text, has := o.value(wekaRequests)
	var requests []json.RawMessage
	if !ok || !has || json.Unmarshal(text, &requests) != nil {
		return &input.Error{File: c.file, Line: s.line, Expected: "a sub-agent with t and " + wekaRequests}
	}
	sub := wekaAgent{session: a.session + "/" + key, key: key + "." + wekaRequests, start: a.start, spawned: a.last, known: a.known, ended: a.ended}
	if len(requests) > 0 {
		if first, err := parseObject(requests[0]); err == nil {
			if at, ok, err := c.wekaTime(first, wekaTable.arrival, s.line); err == nil && ok && at < start {
				sub.start += start
			}
		}
	}
	if err := c.wekaAgent(s, &sub, requests); err != nil {
		return err
	}
	status, _ := o.text("status")
	if sub.last == nil || status == "async_launched" { // nothing waits for its end
		return nil
	}
	a.waitsFor = append(a.waitsFor, sub.last)
	if took, ok := o.text(wekaDuration); ok {
		d, good := milliseconds.parse(took)
		if !good || d.seconds > maxSeconds {
			return &input.Error{File: c.file, Line: s.line, Key: wekaDuration, Value: took, Expected: milliseconds.expected}
		}
		sub.known, sub.ended = true, instant{}.after(a.start+start).after(units.Duration(d.seconds)*units.Second+units.Duration(d.picoseconds))
	}
	if !sub.known {
		a.known = false
	} else if later, _ := sub.ended.since(a.ended); later > 0 {
		a.ended = sub.ended
	}
	return nil
}

// eachField calls read for every field of the next object; read must read the value. end reports that the text ended instead.
func eachField(j *input.JSON, read func(name string) error) (end bool, err error) {
	token, err := j.Token()
	switch {
	case err == io.EOF:
		return true, nil
	case err != nil:
		return false, err
	case token == nil: // the value is null
		return false, nil
	case token != json.Delim('{'):
		return false, j.Wrong("an object")
	}
	for j.More() {
		name, err := j.Token()
		if err != nil {
			return false, j.Cut(err)
		}
		if err := read(fmt.Sprint(name)); err != nil {
			return false, j.Cut(err)
		}
	}
	_, err = j.Token()
	return false, j.Cut(err)
}

// eachElement calls read for every element of the next array.
func eachElement(j *input.JSON, read func() error) error {
	token, err := j.Token()
	switch {
	case err != nil:
		return j.Cut(err)
	case token == nil:
		return nil
	case token != json.Delim('['):
		return j.Wrong("an array")
	}
	for j.More() {
		if err := read(); err != nil {
			return j.Cut(err)
		}
	}
	_, err = j.Token()
	return j.Cut(err)
}

// wrongKind adds the field's name to an error without one.
func wrongKind(err error, name string) error {
	if err == nil || err == io.EOF {
		return err
	}
	return input.Edit(err, func(e *input.Error) {
		if e.Key == "" {
			e.Key = name
		}
		if kind := new(json.UnmarshalTypeError); errors.As(e.Err, &kind) {
			e.Err, e.Value, e.Expected = nil, "a "+kind.Value, "a whole number"
			if kind.Type.Kind() == reflect.String {
				e.Expected = "a string"
			}
		}
	})
}
