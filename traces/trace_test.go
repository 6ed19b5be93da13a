package traces

import (
	"math"
	"reflect"
	"testing"
)

func TestAtOnce(t *testing.T) {
	trace := &Trace{Name: "x", Requests: []Request{{Input: 1, Output: 2}, {ID: 1, Arrival: 5, Input: 3, Output: 4}}}
	if got := trace.AtOnce().Requests[1]; !reflect.DeepEqual(got, Request{ID: 1, Input: 3, Output: 4}) {
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
