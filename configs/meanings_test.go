package configs_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input/schema"

	. "github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
)

var update = flag.Bool("update", false, "write meanings.tsv anew")

// TestMeanings: meanings.tsv has the comments of all fields with keys, each once. After a change of a comment, 'go test ./configs -run
// Meanings -update' writes it.
func TestMeanings(t *testing.T) {
	deep.Heavy(t)
	comments := map[reflect.Type]map[string]string{}
	var b strings.Builder
	written := map[string]bool{}
	for _, k := range keys.Keys {
		if comments[k.Owner] == nil {
			comments[k.Owner] = fieldComments(t, k.Owner)
		}
		text := comments[k.Owner][k.Field]
		if text == "" {
			t.Errorf("%s: the field %s.%s has no comment", k.Name, k.Owner, k.Field)
		}
		if field := strings.TrimPrefix(k.Owner.PkgPath(), "github.com/l3sim/l3sim/") + "." + k.Owner.Name() + "." + k.Field; !written[field] {
			written[field] = true
			b.WriteString(field + "\t" + text + "\n")
		}
	}
	if *update {
		if err := os.WriteFile("meanings.tsv", []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != Meanings {
		t.Error("meanings.tsv is not what the fields' comments say; 'go test ./configs -run Meanings -update' writes it")
	}
}

var parsed = map[string]*ast.File{} // packages by folder

// parse returns the declarations of a package.
func parse(t *testing.T, dir string) *ast.File {
	names, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no Go files (%v)", dir, err)
	}
	pkg := &ast.File{Name: ast.NewIdent(path.Base(dir))}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		pkg.Decls = append(pkg.Decls, f.Decls...)
	}
	return pkg
}

// fieldComments returns the comments of a struct's fields, on one line each, with the names of fields and constants replaced by keys and
// values. A field without a comment has the previous field's, if that mentions it.
func fieldComments(t *testing.T, owner reflect.Type) map[string]string {
	dir := "../" + strings.TrimPrefix(owner.PkgPath(), "github.com/l3sim/l3sim/")
	pkg := parsed[dir]
	if pkg == nil {
		pkg = parse(t, dir)
		parsed[dir] = pkg
	}
	all, constants := map[string]string{}, map[string]string{}
	ast.Inspect(pkg, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
			for i, v := range spec.Values {
				if l, ok := v.(*ast.BasicLit); ok && l.Kind == token.STRING && spec.Names[i].IsExported() {
					constants[spec.Names[i].Name] = l.Value
				}
			}
		}
		return true
	})
	ast.Inspect(pkg, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != owner.Name() {
			return true
		}
		before := ""
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			text := f.Comment.Text() // a comment above may be the heading of several fields
			if text == "" {
				text = f.Doc.Text()
			}
			for _, name := range f.Names {
				mentioned := regexp.MustCompile(`\b` + name.Name + `\b`)
				if text == "" && mentioned.MatchString(before) {
					text = before
				}
				all[name.Name] = strings.Join(strings.Fields(text), " ")
			}
			if text != "" {
				before = text
			}
		}
		return false
	})
	for field, text := range all {
		for name, value := range constants {
			text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(text, value)
		}
		for _, k := range schema.Walk(owner, "toml") {
			if !strings.Contains(k.Name, ".") {
				text = regexp.MustCompile(`\b`+k.Field+`\b`).ReplaceAllString(text, k.Name)
			}
		}
		all[field] = text
	}
	return all
}
