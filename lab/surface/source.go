package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kinds of source.
const (
	product = iota
	lab
	tests
	kinds
)

var kindNames = [kinds]string{"product", "lab", "tests"}

// lines counts lines of source. A line with code and a comment counts as code.
type lines struct{ code, comment, blank int }

func (l *lines) add(m lines) { l.code += m.code; l.comment += m.comment; l.blank += m.blank }

func (l lines) all() int { return l.code + l.comment + l.blank }

// pkg is the Go code of a folder. exported counts names of top-level declarations and methods that
// begin with a capital.
type pkg struct {
	lines, tests lines
	tokens       int // without tests
	exported     int
}

type structType struct {
	name   string // package.Type
	fields int
}

// source is a checkout's Go code.
type source struct {
	kinds    [kinds]lines
	tokens   [kinds]int
	packages map[string]*pkg // by folder
	structs  []structType
}

// readSource reads all Go files below root except those in testdata, vendored and hidden folders.
func readSource(root string) (*source, error) {
	s := &source{packages: map[string]*pkg{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return s.read(path, filepath.ToSlash(name))
	})
	return s, err
}

// read adds one file. name is its path from the root.
func (s *source) read(path, name string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	folder := filepath.ToSlash(filepath.Dir(name))
	p := s.packages[folder]
	if p == nil {
		p = &pkg{}
		s.packages[folder] = p
	}
	count, tokens := countLines(text), countTokens(text)
	kind := product
	switch {
	case strings.HasSuffix(name, "_test.go"):
		s.kinds[tests].add(count)
		s.tokens[tests] += tokens
		p.tests.add(count)
		return nil
	case strings.HasPrefix(name, "lab/"):
		kind = lab
	}
	s.kinds[kind].add(count)
	s.tokens[kind] += tokens
	p.lines.add(count)
	p.tokens += tokens
	for _, d := range parsed.Decls {
		p.exported += exportedNames(d)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if t, ok := n.(*ast.TypeSpec); ok {
			if body, ok := t.Type.(*ast.StructType); ok {
				s.structs = append(s.structs, structType{folder + "." + t.Name.Name, body.Fields.NumFields()})
			}
		}
		return true
	})
	return nil
}

// countTokens counts names, keywords, literals, operators and punctuation, whatever the line breaks. Comments do not count, nor
// the semicolons that the scanner inserts at line ends.
func countTokens(text []byte) (n int) {
	var scan scanner.Scanner
	scan.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		switch _, kind, literal := scan.Scan(); {
		case kind == token.EOF:
			return n
		case kind != token.SEMICOLON || literal == ";":
			n++
		}
	}
}

// countLines counts lines with code, lines with only a comment, and blank lines.
func countLines(text []byte) lines {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var scan scanner.Scanner
	scan.Init(file, text, nil, scanner.ScanComments)
	code, comment := map[int]bool{}, map[int]bool{}
	for {
		pos, kind, literal := scan.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue // inserted by the scanner at the end of a line
		}
		marked := code
		if kind == token.COMMENT {
			marked = comment
		}
		for first, n := file.Line(pos), 0; n <= strings.Count(literal, "\n"); n++ {
			marked[first+n] = true
		}
	}
	l := lines{code: len(code)}
	for line := range comment {
		if !code[line] {
			l.comment++
		}
	}
	l.blank = strings.Count(string(text), "\n") - l.code - l.comment
	return l
}

func exportedNames(d ast.Decl) (n int) {
	count := func(name *ast.Ident) {
		if name.IsExported() {
			n++
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		count(d.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				count(spec.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					count(name)
				}
			}
		}
	}
	return n
}

// packageNames returns the folders with code, most tokens first.
func (s *source) packageNames() []string {
	return slices.SortedStableFunc(maps.Keys(s.packages), func(a, b string) int {
		if d := s.packages[b].tokens - s.packages[a].tokens; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}
