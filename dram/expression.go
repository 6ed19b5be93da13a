package dram

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/units"
)

// An expression of a standard's table gives clocks or a plain number: numbers, times with a unit (7.5ns), names of timings, + - * /,
// parentheses, and the functions
//
//	max(4, 7.5ns)   the largest
//	min(a, b)       the smallest
//	floor(3.9us)    a time in whole clocks, rounded down: for intervals, which are maxima
//
// When a time is combined with a number, it becomes clocks, rounded up as the standard rounds.
type expression func(*scope) quantity

// quantity is a number, or a time in ps.
type quantity struct {
	n    float64
	time bool
}

// scope is the context in which an expression is evaluated.
type scope struct {
	tck    units.Duration
	round  rounding
	lookup func(name string) (float64, bool)
	err    error // the first
}

// clocks returns q as a number: a time in clocks of the scope.
func (s *scope) clocks(q quantity) float64 {
	if !q.time {
		return q.n
	}
	if s.tck <= 0 {
		s.fail("a time before tCK is known")
		return 0
	}
	return s.round(q.n, float64(s.tck))
}

func (s *scope) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// rounding returns the clocks, of tck ps each, in a minimum time of ps picoseconds.
type rounding func(ps, tck float64) float64

// roundings are the rounding rules of tables. "jedec" is JESD79-4C's "Rounding Algorithms": it forgives 2.6% of a clock, since tCK itself
// is rounded. "jedec5" is JESD79-5's "Rounding Definitions and Algorithms", which subtracts 0.3% from the time.
var roundings = map[string]rounding{
	"up":     func(ps, tck float64) float64 { return math.Ceil(ps / tck) },
	"jedec5": func(ps, tck float64) float64 { return math.Floor((math.Floor(ps*997/tck) + 1000) / 1000) },
	"jedec":  func(ps, tck float64) float64 { return math.Floor((math.Floor(ps*1000/tck) + 974) / 1000) },
}

// parser reads one expression.
type parser struct {
	text  string
	at    int
	err   error
	names []string
}

// parseExpression returns the compiled expression, and the names in it.
func parseExpression(text string) (expression, []string, error) {
	p := &parser{text: text}
	e := p.sum(0)
	if p.peek() != 0 {
		p.fail("an operator")
	}
	return e, p.names, p.err
}

// fail keeps the first error and moves to the end of the text, which stops parsing.
func (p *parser) fail(expected string) {
	if p.err == nil {
		p.err = fmt.Errorf("column %d of %q: want %s", p.at+1, p.text, expected)
	}
	p.at = len(p.text)
}

// peek returns the next byte that is not a space, 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// take moves past c if it comes next.
func (p *parser) take(c byte) bool {
	if p.peek() != c || c == 0 {
		return false
	}
	p.at++
	return true
}

// operators are grouped by precedence, lowest first: sums of products of factors.
var operators = [...]map[byte]func(s *scope, a, b float64) float64{
	{'+': func(_ *scope, a, b float64) float64 { return a + b }, '-': func(_ *scope, a, b float64) float64 { return a - b }},
	{'*': func(_ *scope, a, b float64) float64 { return a * b }, '/': (*scope).quotient},
}

func (s *scope) quotient(a, b float64) float64 {
	if b == 0 {
		s.fail("division by 0")
		return 0
	}
	return a / b
}

// sum reads the operands between operators of one precedence level. It converts times to clocks first.
func (p *parser) sum(level int) expression {
	if level == len(operators) {
		return p.factor()
	}
	e := p.sum(level + 1)
	for {
		of, ok := operators[level][p.peek()]
		if !ok {
			return e
		}
		p.at++
		a, b := e, p.sum(level+1)
		e = func(s *scope) quantity { return quantity{n: of(s, s.clocks(a(s)), s.clocks(b(s)))} }
	}
}

// factor reads a number, a name, a call or a sum in parentheses.
func (p *parser) factor() expression {
	nothing := func(*scope) quantity { return quantity{} }
	switch c := p.peek(); {
	case p.take('('):
		e := p.sum(0)
		if !p.take(')') {
			p.fail("a closing parenthesis")
		}
		return e
	case c >= '0' && c <= '9' || c == '.':
		return p.number()
	case isNameByte(c) && c != '.':
		name := p.word()
		if !p.take('(') {
			p.names = append(p.names, name)
			return func(s *scope) quantity {
				v, ok := s.lookup(name)
				if !ok {
					s.fail("no value of %s", name)
				}
				return quantity{n: v}
			}
		}
		return p.call(name)
	}
	p.fail("a number, a time, a name or a parenthesis")
	return nothing
}

func isNameByte(c byte) bool {
	return c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// word returns the longest prefix that can be a name.
func (p *parser) word() string {
	from := p.at
	for p.at < len(p.text) && isNameByte(p.text[p.at]) {
		p.at++
	}
	return p.text[from:p.at]
}

func (p *parser) number() expression {
	word := p.word()
	if n, err := strconv.ParseFloat(word, 64); err == nil && n <= 1e15 {
		return func(*scope) quantity { return quantity{n: n} }
	}
	digits := strings.TrimRight(word, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseFloat(digits, 64)
	unit := map[string]float64{"ps": 1, "ns": 1e3, "us": 1e6, "ms": 1e9}[word[len(digits):]]
	if err != nil || unit == 0 || n > 1e9 {
		p.fail("a number, or a time such as 7.5ns")
	}
	return func(*scope) quantity { return quantity{math.Round(n * unit), true} }
}

func (p *parser) call(name string) expression {
	var args []expression
	for {
		args = append(args, p.sum(0))
		if !p.take(',') {
			break
		}
	}
	if !p.take(')') {
		p.fail("a comma or a closing parenthesis")
	}
	switch name {
	case "max", "min":
		pick := slices.Max[[]float64]
		if name == "min" {
			pick = slices.Min[[]float64]
		}
		return func(s *scope) quantity {
			var of []float64
			for _, a := range args {
				of = append(of, s.clocks(a(s)))
			}
			return quantity{n: pick(of)}
		}
	case "floor":
		if len(args) > 1 {
			p.fail("one value to round down")
		}
		return func(s *scope) quantity {
			q := args[0](s)
			if q.time && s.tck > 0 {
				q = quantity{n: q.n / float64(s.tck)}
			}
			return quantity{n: math.Floor(s.clocks(q))}
		}
	}
	p.fail("max, min or floor")
	return args[0]
}
