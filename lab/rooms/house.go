package main

import (
	"cmp"
	"context"
	"fmt"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const page = "docs/reference/architecture.md" // has the rows of packages, highest first

type pair struct{ from, to string } // a package and one that it uses, by their paths in the module

// seam is an interface with its implementations outside of tests.
type seam struct {
	name            string // package.Type
	room            string
	implementations []string // package.Type
	rooms           []string // packages of the implementations
}

// house is the uses of packages by each other in a module.
type house struct {
	row   map[string]int           // of a package, 0 for the highest; further right in a row counts as lower
	names map[pair]map[string]bool // used names: Name, Type.Field or Type.Method
	seams []seam
}

// readHouse loads the module in a folder without its tests.
func readHouse(ctx context.Context, dir string) (*house, error) {
	text, err := os.ReadFile(filepath.Join(dir, page))
	if err != nil {
		return nil, err
	}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedModule,
	}, "./...")
	if err != nil {
		return nil, err
	}
	h := &house{row: rows(string(text)), names: map[pair]map[string]bool{}}
	var ours []*packages.Package
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		ours = append(ours, p)
		h.use(p)
	}
	h.interfaces(ours)
	return h, nil
}

// rows returns the rows of packages, numbered row by row and from left to right.
func rows(text string) map[string]int {
	place := map[string]int{}
	for _, cells := range regexp.MustCompile(`(?m)^\| \d+ \| (.*) \|$`).FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(cells[1], ", ") {
			place[strings.Trim(name, "`")] = len(place)
		}
	}
	return place
}

// short returns a package's path in the module, "" if it is of another module.
func short(p *types.Package, module string) string {
	if p == nil {
		return ""
	}
	if p.Path() == module {
		return "."
	}
	name, ours := strings.CutPrefix(p.Path(), module+"/")
	if !ours {
		return ""
	}
	return name
}

func (h *house) use(p *packages.Package) {
	from := short(p.Types, p.Module.Path)
	for id, o := range p.TypesInfo.Uses {
		to := short(o.Pkg(), p.Module.Path)
		if _, isPackage := o.(*types.PkgName); isPackage || to == "" || to == from {
			continue
		}
		at := pair{from, to}
		if h.names[at] == nil {
			h.names[at] = map[string]bool{}
		}
		h.names[at][owned(p, id.Name, o)] = true
	}
}

// owned returns a name; that of a method follows its type, fields have their name alone.
func owned(p *packages.Package, name string, o types.Object) string {
	f, isFunc := o.(*types.Func)
	if !isFunc || f.Signature().Recv() == nil {
		return name
	}
	return types.TypeString(f.Signature().Recv().Type(), types.RelativeTo(o.Pkg())) + "." + name
}

// interfaces finds the interfaces of the module with methods of their own, and their
// implementations.
func (h *house) interfaces(all []*packages.Package) {
	var kinds []*types.TypeName
	for _, p := range all {
		for _, name := range p.Types.Scope().Names() {
			if t, ok := p.Types.Scope().Lookup(name).(*types.TypeName); ok && !t.IsAlias() {
				kinds = append(kinds, t)
			}
		}
	}
	module := all[0].Module.Path
	for _, i := range kinds {
		methods, ok := i.Type().Underlying().(*types.Interface)
		if !ok || !methods.IsMethodSet() || methods.NumMethods() == 0 {
			continue
		}
		s := seam{name: short(i.Pkg(), module) + "." + i.Name(), room: short(i.Pkg(), module)}
		for _, t := range kinds {
			if types.IsInterface(t.Type()) {
				continue
			}
			if named := t.Type().(*types.Named); named.TypeParams().Len() > 0 {
				continue
			}
			if types.Implements(t.Type(), methods) || types.Implements(types.NewPointer(t.Type()), methods) {
				s.implementations = append(s.implementations, short(t.Pkg(), module)+"."+t.Name())
				s.rooms = append(s.rooms, short(t.Pkg(), module))
			}
		}
		h.seams = append(h.seams, s)
	}
	slices.SortFunc(h.seams, func(a, b seam) int { return strings.Compare(a.name, b.name) })
}

// runsUp says that the user is at or below what it uses, or that the page lacks one of them.
func (h *house) runsUp(p pair) bool {
	from, fromKnown := h.row[p.from]
	to, toKnown := h.row[p.to]
	return !fromKnown || !toKnown || to <= from
}

// hides says that an interface has a single implementation, in a higher package.
func (h *house) hides(s *seam) bool {
	return len(s.implementations) == 1 && s.rooms[0] != s.room && h.row[s.rooms[0]] < h.row[s.room]
}

// print writes the counts and returns how many names run up.
func (h *house) print(w io.Writer, verbose bool) (up int) {
	pairs := slices.SortedFunc(maps.Keys(h.names), func(a, b pair) int {
		if d := h.row[a.from] - h.row[b.from]; d != 0 {
			return d
		}
		return cmp.Or(h.row[a.to]-h.row[b.to], strings.Compare(a.to, b.to))
	})
	down := 0
	for _, p := range pairs {
		names := slices.Sorted(maps.Keys(h.names[p]))
		if h.runsUp(p) {
			up += len(names)
			fmt.Fprintf(w, "up: %s uses %s: %s\n", p.from, p.to, strings.Join(names, " "))
			continue
		}
		down += len(names)
		if verbose {
			fmt.Fprintf(w, "%-24s %-24s %4d\n", p.from, p.to, len(names))
		}
	}
	hidden := 0
	for i := range h.seams {
		s := &h.seams[i]
		if verbose {
			fmt.Fprintf(w, "interface %s: %s\n", s.name, strings.Join(s.implementations, ", "))
		}
		if h.hides(s) {
			hidden++
			fmt.Fprintf(w, "one implementation, above: %s, %s\n", s.name, s.implementations[0])
		}
	}
	fmt.Fprintf(w, "%d packages, %d names run down, %d run up; %d interfaces, %d with one implementation above them\n", len(h.row), down, up, len(h.seams), hidden)
	return up
}
