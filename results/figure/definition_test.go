package figure

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
	"gonum.org/v1/plot/vg"
)

func TestDefinition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figure.toml")
	text := "title = \"T\"\nkind = \"bar\"\nx = \"trace\"\ny = \"output_tokens_per_s\"\ngroup = \"system\"\n" +
		"facet = \"model\"\nnormalize_to = \"system=l3\"\nwhere = [\"common_to=all\"]\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	d, err := ReadDefinition(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Selection{Kind: "bar", X: "trace", Y: "output_tokens_per_s", Group: "system", Facet: "model",
		NormalizeTo: "system=l3", Where: []string{"common_to=all"}}
	if got := d.Under(Selection{}); !reflect.DeepEqual(got, want) || d.Title != "T" {
		t.Errorf("got %+v, %q", got, d.Title)
	}
	over := d.Under(Selection{Y: "tbt_mean_ms", Where: []string{"model=opt-66b"}})
	want.Y, want.Where = "tbt_mean_ms", []string{"model=opt-66b"}
	if !reflect.DeepEqual(over, want) {
		t.Errorf("flags do not win: %+v", over)
	}
}

func TestDefinitionRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"\nkinds = \"bar\"", `f.toml:2: kinds: expected one of`},
		{"kinds = \"bar\"", `did you mean "kind"?`},
		{"Kind = \"bar\"", `did you mean "kind"?`},
		{"[kind]\na = 1", "f.toml:2: kind.a"},
		{"\n\nkind = 3", "f.toml:3: kind: expected a string, not a whole number"},
		{"where = \"a=b\"", "f.toml:1: where: expected a list, not a string"},
		{"where = [1]", "f.toml:1: where: expected a string, not a whole number"},
		{"kind = ", "f.toml:1: "},
	} {
		_, err := ParseDefinition("f.toml", c.text)
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := ReadDefinition(filepath.Join(t.TempDir(), "none.toml")); err == nil {
		t.Error("no error for a file that is not there")
	}
}

func FuzzDefinition(f *testing.F) {
	f.Add("kind = \"bar\"\nwhere = [\"a=b\"]")
	f.Add("[a.b]\nc=1")
	f.Add("kind = [")
	f.Add("\"\".x = 1")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDefinition("f.toml", text)
		var bad *input.Error
		if err != nil && !errors.As(err, &bad) || err == nil && d == nil {
			t.Errorf("%v, %v", d, err)
		}
	})
}

// TestPointNames: names of points drop what the figure shows elsewhere, so that variants of two
// models have the same names.
func TestPointNames(t *testing.T) {
	table := &tables.Table{
		Columns: []string{"point", "run.model", "node.memory_capacity_bytes", "run.seed", "status", "tbt_mean_ms"},
	}
	for i, name := range []string{"model=a,memory_capacity=1TiB,naive", "model=a,memory_capacity=1TiB,overlap, all", "model=b,memory_capacity=1TiB,naive", "model=b,memory_capacity=1TiB,overlap, all"} {
		table.Add(name, name[6:7], 1<<40, 1, "done", []int{2, 1, 4, 3}[i])
	}
	d, err := Select(table, Selection{Kind: "bar", X: "point", Y: "tbt_mean_ms", Facet: "model",
		Where: []string{"memory_capacity=1099511627776"}, NormalizeTo: "point=naive"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(list.Map(d.XNames, tables.Value.String), "; "); got != "naive; overlap, all" {
		t.Errorf("names %q", got)
	}
	var svg strings.Builder
	if err := d.Write(&svg, "svg", ""); err != nil || !strings.Contains(svg.String(), "to naive<") {
		t.Errorf("axis: %v", err)
	}
	if d.Cells[1].Mean() != 0.5 || d.Cells[3].Mean() != 0.75 {
		t.Errorf("cells %+v", d.Cells)
	}
	if table.Rows[0][0].String() != "model=a,memory_capacity=1TiB,naive" {
		t.Error("the table itself has changed")
	}
	d, err = Select(table, Selection{Kind: "bar", X: "model", Y: "tbt_mean_ms", Group: "point"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(list.Map(d.GroupNames, tables.Value.String), "; "); got != "naive; overlap, all" {
		t.Errorf("groups %q", got)
	}
	// A number replaces a long name and is explained below the plots; a table has the name.
	long := "model=a,ranksets=16,sub_batches=2,min_prefill_tokens=1408,balance=random"
	table.Rows[0][0] = tables.Of(long)
	d, err = Select(table, Selection{Kind: "bar", X: "point", Y: "tbt_mean_ms", NormalizeTo: "point=" + long})
	if err != nil || d.Cells[0].Mean() != 1 || d.Cells[1].Mean() != 0.5 {
		t.Errorf("normalized to a long name: %v, %+v", err, d)
	}
	if d, err = Select(table, Selection{Kind: "bar", X: "point", Y: "tbt_mean_ms"}); err != nil || d.XNames[0].String() != "#1" || d.XNames[1].String() != "model=a,memory_capacity=1TiB,overlap, all" && d.XNames[1].String() != "#2" {
		t.Fatalf("%v: %v", err, d)
	}
	svg.Reset()
	if err := d.Write(&svg, "svg", ""); err != nil || !strings.Contains(svg.String(), ">#1: model=a, ranksets=16, sub_batches=2, min_prefill_tokens=1408, balance=random<") {
		t.Errorf("no line spells #1 out: %v", err)
	}
	if got := d.Table().Rows[0][0].String(); got != long {
		t.Errorf("the table calls it %s", got)
	}
	d.Width = 84
	lines := newFrame(d, "").notes()
	if len(lines) < 2 {
		t.Errorf("one line of 84 mm: %q", lines)
	}
	for _, line := range lines {
		if w := textStyle(noteText).Width(line); w > 84*vg.Millimeter {
			t.Errorf("%s is %g points wide", line, w)
		}
	}
}
