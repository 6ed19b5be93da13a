package tables

import (
	"fmt"
	"testing"
)

// TestShortPoints: names drop what all share and what is shown elsewhere, and become numbers if they are still long.
func TestShortPoints(t *testing.T) {
	table := &Table{Columns: []string{"run.model", PointColumn}}
	for _, name := range []string{"model=a,trace=x,naive", "model=b,trace=x,naive", "model=b,trace=x,naive", "model=b,trace=x,all of its optimisations at once", "model=a,trace=x"} {
		table.Add("m", name)
	}
	for said, want := range map[string]string{
		"model": "map[model=a,trace=x:model=a,trace=x model=a,trace=x,naive:naive model=b,trace=x,all of its optimisations at once:all of its optimisations at once model=b,trace=x,naive:naive]",
		"trace": "map[model=a,trace=x:model=a model=a,trace=x,naive:model=a,naive model=b,trace=x,all of its optimisations at once:#3 model=b,trace=x,naive:model=b,naive]",
	} {
		if got := fmt.Sprint(table.ShortPoints(said)); got != want {
			t.Errorf("%s said: %s\nnot %s", said, got, want)
		}
	}
	if got := (&Table{Columns: []string{"a"}}).ShortPoints(); got != nil {
		t.Error(got)
	}
}
