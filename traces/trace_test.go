package traces

import (
	"math"
	"testing"
)

func TestAtOnce(t *testing.T) {
	trace := &Trace{Name: "x", Requests: []Request{{0, 0, 1, 2}, {1, 5, 3, 4}}}
	if got := trace.AtOnce().Requests[1]; got != (Request{1, 0, 3, 4}) {
		t.Errorf("got %+v", got)
	}
	if trace.Requests[1].Arrival != 5 {
		t.Error("the trace itself has changed")
	}
}

func TestMoments(t *testing.T) {
	trace := &Trace{Name: "x", Requests: []Request{{Input: 1, Output: 10}, {Input: 3, Output: 10}, {Input: 5, Output: 10}}}
	want := Moments{
		Requests: 3, InputTokens: 9, OutputTokens: 30, InputMean: 3, InputStd: math.Sqrt(8.0 / 3),
		OutputMean: 10, InputMax: 5, OutputMax: 10,
	}
	if got := trace.Moments(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (&Trace{}).Moments(); got != (Moments{}) {
		t.Errorf("an empty trace: %+v", got)
	}
}
