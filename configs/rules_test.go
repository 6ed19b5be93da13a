package configs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
)

// TestRulesNameTheirKeys: rules pass the other keys that they name as values of type Key. The error for a preset's key can then be reported
// where the user set one of these.
func TestRulesNameTheirKeys(t *testing.T) {
	t.Parallel()
	keys := system.Configs().Keys().Names()
	walk := func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"lab", "testdata", ".git"}, d.Name()):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, text := range messages(n) {
				for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" ,;:()=/*·", c) }) {
					if strings.Contains(word, ".") && slices.Contains(keys, word) {
						t.Errorf("%s: the message names %s: give it as input.Key, or as one of OtherKeys", set.Position(n.Pos()), word)
					}
				}
			}
			return true
		})
		return nil
	}
	if err := filepath.WalkDir("..", walk); err != nil {
		t.Fatal(err)
	}
}

// messages returns the expected texts of a rule, if a node is one: a call of Check.That, or an input.Error without OtherKeys.
func messages(n ast.Node) (texts []string) {
	var of []ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		if f, is := n.Fun.(*ast.SelectorExpr); is && f.Sel.Name == "That" && len(n.Args) >= 4 {
			of = n.Args[3:4]
		}
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			field, _ := e.(*ast.KeyValueExpr)
			if field == nil {
				continue
			}
			switch name, _ := field.Key.(*ast.Ident); {
			case name != nil && name.Name == "OtherKeys":
				return nil
			case name != nil && name.Name == "Expected":
				of = append(of, field.Value)
			}
		}
	}
	for _, e := range of {
		ast.Inspect(e, func(n ast.Node) bool {
			if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING {
				if s, err := strconv.Unquote(text.Value); err == nil {
					texts = append(texts, s)
				}
			}
			return true
		})
	}
	return texts
}

// TestOtherKeys: the error for a preset's key is reported where the user set another key of the rule, the first that is set: in the same
// section, the enclosing section, or any other.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sets, want string }{
		{"dram.tRAS=99", "tRAS: dram.tRC = 74: expected at least tRAS = 99"},
		{"dram.power.IDD3N=100 dram.power.bank_share=0.01", "bank_share: dram.power.IDD0 = 57: expected at least "},
		{"node.gpus=6 model.tensor_parallel=2", "gpus: node.channels = 16: expected a multiple of the 3 replicas"},
		{"model.window=128 policy.name=quest", `policy.name = "quest": expected "dense" with model.window = 128`},
	} {
		var flags []configs.Flag
		for _, s := range strings.Fields(c.sets) {
			key, value, _ := strings.Cut(s, "=")
			flags = append(flags, configs.Flag{Name: key[strings.LastIndexByte(key, '.')+1:], Key: key, Value: value})
		}
		_, err := system.Configs().Load(configs.Options{Flags: flags})
		if _, is := err.(*input.Error); !is || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.sets, err, c.want)
		}
	}
}
