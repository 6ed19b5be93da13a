package results

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestMeanings: meanings.tsv has for every metric the comments of its fields, from the Summary inwards.
// After a change of a comment, 'go test ./results -run Meanings -update' writes it.
func TestMeanings(t *testing.T) {
	comments := structComments(t)
	of := map[string]string{} // by the key in JSON
	var walk func(typ reflect.Type, prefix, above string)
	walk = func(typ reflect.Type, prefix, above string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			text := comments[typ.Name()][f.Name]
			if text == "" && f.Type.Kind() == reflect.Struct && f.Name == f.Type.Name() {
				text = comments[f.Name][""] // described at its type
			}
			text = strings.Trim(above+"; "+text, "; ")
			for j := range typ.NumField() { // comments name fields, users know keys
				if tag, _, _ := strings.Cut(typ.Field(j).Tag.Get("json"), ","); tag != "" {
					text = regexp.MustCompile(`\b`+typ.Field(j).Name+`\b`).ReplaceAllString(text, tag)
				}
			}
			switch {
			case f.Type.Kind() != reflect.Struct:
				of[prefix+name] = text
			case name == "":
				walk(f.Type, prefix, above)
			default:
				walk(f.Type, prefix+name+".", text)
			}
		}
	}
	walk(reflect.TypeFor[Summary](), "", "")
	var b strings.Builder
	for _, m := range Metrics() {
		if of[m.key.Name] == "" {
			t.Errorf("%s: its fields have no comments", m.Name)
		}
		b.WriteString(m.Name + "\t" + of[m.key.Name] + "\n")
	}
	if *update {
		if err := os.WriteFile("meanings.tsv", []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != meanings {
		t.Error("meanings.tsv is not what the fields' comments say; 'go test ./results -run Meanings -update' writes it")
	}
	for _, m := range Metrics() {
		if m.Name == "tbt_p99_ms" && !strings.HasPrefix(m.Meaning, "tbt_ms is over all gaps") {
			t.Errorf("%q", m.Meaning)
		}
	}
}

// structComments returns the comments of all fields of this package's structs, by type and field.
func structComments(t *testing.T) map[string]map[string]string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				return true
			}
			spec := decl.Specs[0].(*ast.TypeSpec)
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			all[spec.Name.Name] = map[string]string{"": oneLine(decl.Doc.Text())}
			before := ""
			for _, f := range s.Fields.List {
				text := f.Comment.Text()
				if text == "" {
					text = f.Doc.Text()
				}
				for _, name := range f.Names {
					if text == "" && regexp.MustCompile(`\b`+name.Name+`\b`).MatchString(before) {
						text = before
					}
					all[spec.Name.Name][name.Name] = oneLine(text)
				}
				if text != "" {
					before = text
				}
			}
			return true
		})
	}
	return all
}

func oneLine(comment string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(comment), " "), ".")
}
