package main

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"
)

// TestInWindow: a window that begins when the run has ended holds nothing, and the error says when that was, in milliseconds.
func TestInWindow(t *testing.T) {
	f := &runFlags{window: "1500ms:2s"}
	w := &system.Window{From: 1500 * units.Millisecond, To: 2 * units.Second}
	if err := f.inWindow(w, 1.501); err != nil {
		t.Error(err)
	}
	if err := f.inWindow(w, 1.25); err == nil || !strings.HasSuffix(err.Error(), "--timeline-window = 1500ms:2s: expected a part of the run, which ends at 1250ms") {
		t.Errorf("%v", err)
	}
	if err := f.inWindow(w, 1.5); err == nil {
		t.Error("the window begins at the end of the run")
	}
	for _, none := range []*system.Window{nil, {}} { // no timeline, or a window that the run chooses
		if err := (&runFlags{}).inWindow(none, 1); err != nil {
			t.Error(err)
		}
	}
}
