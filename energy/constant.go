package energy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Grade says how well a constant is known.
type Grade string

// The grades, from best to least known.
const (
	Measured   Grade = "measured"
	Datasheet  Grade = "datasheet"
	Paper      Grade = "paper"
	Given      Grade = "given" // by the user, without a band
	Press      Grade = "press" // public reports
	Assumption Grade = "assumption"
)

// grades are in order of trust, the most trusted first.
var grades = []Grade{Measured, Datasheet, Paper, Given, Press, Assumption}

// Worse returns the less trusted of two grades; "" counts as no grade.
func Worse(a, b Grade) Grade {
	if slices.Index(grades, a) >= slices.Index(grades, b) {
		return a
	}
	return b
}

// Constant is a number with a band and a grade. Its text is "VALUE [LOW, HIGH] GRADE", or a bare number, whose grade is Given. It
// is one text so that one configuration key holds all of it.
type Constant string

// Estimate is a parsed Constant. Low and High are the ends of its band.
type Estimate struct {
	Value, Low, High float64
	Grade            Grade
}

// Estimate parses a valid constant, and returns a zero Estimate for an invalid one.
func (c Constant) Estimate() Estimate {
	e, _ := parse(string(c))
	return e
}

// Number returns the value of a valid constant.
func (c Constant) Number() float64 { return c.Estimate().Value }

// Takes describes the accepted text, for messages.
func (Constant) Takes() string { return `number in quotes, or "VALUE [LOW, HIGH] GRADE"` }

// UnmarshalText reads the text.
func (c *Constant) UnmarshalText(text []byte) error {
	e, err := parse(string(text))
	if err != nil {
		return err
	}
	*c = Constant(e.String())
	return nil
}

// String writes what Estimate reads.
func (e Estimate) String() string {
	n := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	if e.Grade == Given {
		return n(e.Value)
	}
	return fmt.Sprintf("%s [%s, %s] %s", n(e.Value), n(e.Low), n(e.High), e.Grade)
}

// MarshalJSON writes an object.
func (c Constant) MarshalJSON() ([]byte, error) {
	e := c.Estimate()
	return json.Marshal(map[string]any{"value": e.Value, "low": e.Low, "high": e.High, "grade": e.Grade})
}

// parse reads "VALUE" or "VALUE [LOW, HIGH] GRADE". A bare number is given by the user.
func parse(text string) (e Estimate, err error) {
	fail := func() (Estimate, error) {
		return Estimate{}, fmt.Errorf("%q is not a constant: want a number, or VALUE [LOW, HIGH] GRADE, such as \"1.2 [1, 1.5] assumption\" (grades: measured, datasheet, paper, press, assumption)", text)
	}
	number := func(s string) float64 {
		v, bad := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if bad != nil || math.IsInf(v, 0) || math.IsNaN(v) || v < 0 {
			err = fmt.Errorf("no number")
		}
		return v
	}
	value, rest, banded := strings.Cut(text, "[")
	e.Value = number(value)
	e.Low, e.High, e.Grade = e.Value, e.Value, Given
	if banded {
		band, grade, closed := strings.Cut(rest, "]")
		low, high, two := strings.Cut(band, ",")
		e.Grade = Grade(strings.TrimSpace(grade))
		if !closed || !two || !slices.Contains(grades, e.Grade) {
			return fail()
		}
		e.Low, e.High = number(low), number(high)
	}
	if err != nil {
		return fail()
	}
	if e.Low > e.Value || e.Value > e.High {
		return Estimate{}, fmt.Errorf("%q is not a constant: the value is outside of its band", text)
	}
	return e, nil
}
