package traces

import (
	"errors"
	"math"
	"testing"

	"github.com/l3sim/l3sim/input"
)

func TestHead(t *testing.T) {
	trace := &Trace{"x", []Request{{0, 0, 1, 2}, {1, 5, 3, 4}}}
	head, err := trace.Head(1)
	if err != nil || len(head.Requests) != 1 || head.Requests[0] != trace.Requests[0] {
		t.Errorf("got %+v, %v", head, err)
	}
	for _, n := range []int{-1, 0, 3} {
		var bad *input.InputError
		if _, err := trace.Head(n); !errors.As(err, &bad) {
			t.Errorf("the first %d of 2: got %v", n, err)
		}
	}
}

func TestAtOnce(t *testing.T) {
	trace := &Trace{"x", []Request{{0, 0, 1, 2}, {1, 5, 3, 4}}}
	if got := trace.AtOnce().Requests[1]; got != (Request{1, 0, 3, 4}) {
		t.Errorf("got %+v", got)
	}
	if trace.Requests[1].Arrival != 5 {
		t.Error("the trace itself has changed")
	}
}

func TestMoments(t *testing.T) {
	trace := &Trace{"x", []Request{{Input: 1, Output: 10}, {Input: 3, Output: 10}, {Input: 5, Output: 10}}}
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
