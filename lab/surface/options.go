package main

import (
	"context"
	"fmt"
	"go/types"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mostRooms is the largest number of packages for an option: its cost, its memory, its law.
const mostRooms = 3

// option is a field with the name of a configuration key, and the packages whose code uses it.
type option struct {
	name     string // package.Type.Field
	packages []string
}

// options finds the fields with a toml tag in the module of a folder, and the packages that use each, without tests. Code that reads
// keys by name, as configs does for all of them, does not count.
func options(ctx context.Context, dir string) ([]option, error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps | packages.NeedModule,
	}, "./...")
	if err != nil {
		return nil, err
	}
	names, users := map[types.Object]string{}, map[types.Object]map[string]bool{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		short := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/")
		for _, name := range p.Types.Scope().Names() {
			named, ok := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !ok {
				continue
			}
			body, ok := named.Type().Underlying().(*types.Struct)
			if !ok {
				continue
			}
			for i := range body.NumFields() {
				if key := reflect.StructTag(body.Tag(i)).Get("toml"); key != "" && key != "-" {
					names[body.Field(i)] = short + "." + name + "." + body.Field(i).Name()
				}
			}
		}
	}
	for _, p := range loaded {
		for _, used := range p.TypesInfo.Uses {
			if _, is := names[used]; is {
				if users[used] == nil {
					users[used] = map[string]bool{}
				}
				users[used][strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/")] = true
			}
		}
	}
	var all []option
	for field, name := range names {
		all = append(all, option{name, slices.Sorted(maps.Keys(users[field]))})
	}
	slices.SortFunc(all, func(a, b option) int {
		if d := len(b.packages) - len(a.packages); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	return all, nil
}

// printOptions writes a histogram of options by number of packages, and the options in too many.
func printOptions(w io.Writer, all []option) {
	counts := map[int]int{}
	for _, o := range all {
		counts[len(o.packages)]++
	}
	fmt.Fprintf(w, "\n%-28s %8s\n", "packages that know an option", "options")
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "%28d %8d\n", n, counts[n])
	}
	fmt.Fprintf(w, "\n%-44s %8s\n", fmt.Sprintf("options in more than %d packages", mostRooms), "packages")
	for _, o := range all {
		if len(o.packages) > mostRooms {
			fmt.Fprintf(w, "%-44s %8d  %s\n", o.name, len(o.packages), strings.Join(o.packages, " "))
		}
	}
}
