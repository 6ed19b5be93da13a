package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8/decor"
)

// TestWhatIsLeft: 25 of 100 in 10 s leave 30 s; before the first and after the last there is no time; the current activity follows it.
func TestWhatIsLeft(t *testing.T) {
	for _, c := range []struct {
		n, total int64
		now      string
		want     string
	}{{25, 100, "", " 30s left"}, {25, 100, "x", " 30s left x"}, {0, 100, "x", " x"}, {100, 100, "", ""}, {99, 100, "", " 0s left"}, {80, 100, "", " 3s left"}} {
		p := &Progress{total: c.total, start: time.Now().Add(-10 * time.Second)}
		if p.Set(c.n); c.now != "" {
			p.Now(c.now)
		}
		if got := p.what(decor.Statistics{}); got != c.want && c.n != 80 || c.n == 80 && got != " 2s left" && got != " 3s left" {
			t.Errorf("%+v: %q", c, got)
		}
	}
	p := &Progress{}
	p.Set(7)
	p.Set(5)
	if p.current.Load() != 7 {
		t.Errorf("the display goes back to %d", p.current.Load())
	}
}

// TestMovedCommands: removed commands, of the root and of a group, say where they went, with any flags; a removed flag is not a command.
func TestMovedCommands(t *testing.T) {
	var out strings.Builder
	p := &Program{Name: "prog", Moved: map[string]string{"gone": "'prog here'", "group away": "'prog there'", "group --flag": "--other"}, Commands: func(_ *App, root *cobra.Command) {
		root.AddCommand(NewGroup("group", "A group", &cobra.Command{Use: "stays", RunE: func(*cobra.Command, []string) error { return nil }}))
	}}
	for line, want := range map[string]string{"gone": "'prog gone' is gone: use 'prog here'", "gone --any x": "'prog gone' is gone: use 'prog here'", "group away --x": "'prog group away' is gone: use 'prog there'"} {
		out.Reset()
		if code := p.Run(t.Context(), strings.Fields(line), &out, &out); code != WrongInput || strings.TrimSpace(out.String()) != "prog: "+want {
			t.Errorf("%s: exit code %d, %s", line, code, out.String())
		}
	}
	root := p.Root(&App{})
	if len(root.Annotations) != 3 || root.Annotations["prog group --flag"] != "--other" {
		t.Errorf("%v", root.Annotations)
	}
	for _, c := range root.Commands() {
		for _, sub := range append(c.Commands(), c) {
			if strings.Contains(sub.Name(), "--") || sub.Hidden != (sub.Name() == "gone" || sub.Name() == "away") && sub.Name() != "completion" {
				t.Errorf("%s is hidden: %v", sub.CommandPath(), sub.Hidden)
			}
		}
	}
}
