package configs_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"

	. "github.com/l3sim/l3sim/configs"
)

// nowSection was a key and is a section now.
const nowSection = "policy.window"

// TestFormerKeys: CHANGELOG.md has the program's table of former keys. It has each name once, sorted; new names exist, and old names do
// not.
func TestFormerKeys(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	table, last := "| before | now |\n| --- | --- |\n", ""
	for _, f := range FormerKeys {
		if f.Name <= last {
			t.Errorf("%s stands behind %s", f.Name, last)
		}
		if last = f.Name; keys.Key(f.Name) != nil || keys.IsSection(strings.TrimSuffix(f.Name, ".")) && f.Name != nowSection {
			t.Errorf("%s is still there", f.Name)
		}
		for _, now := range strings.Split(f.Now, " or ") {
			if section := strings.TrimSuffix(now, "."); now != "" && keys.Key(now) == nil && !(section != now && keys.IsSection(section)) {
				t.Errorf("%s is now %s, which is not there", f.Name, now)
			}
		}
		if (f.Now == "") == (f.Use == "") || strings.HasSuffix(f.Name, ".") != strings.HasSuffix(f.Now, ".") && f.Now != "" {
			t.Errorf("%+v", f)
		}
		now := "removed: " + f.Use
		if f.Now != "" {
			now = "`" + strings.ReplaceAll(strings.TrimSuffix(f.Now, "."), " or ", "` or `") + "`"
		}
		table += fmt.Sprintf("| `%s` | %s |\n", strings.TrimSuffix(f.Name, "."), now)
	}
	if !strings.Contains(string(text), table) {
		t.Errorf("CHANGELOG.md, \"Renamed and removed keys\", must have the table\n%s", table)
	}
}

// TestFormerKeysAreRefused: errors of a file, --set and 'config explain' have the place, the old key and the new one.
func TestFormerKeysAreRefused(t *testing.T) {
	for _, f := range FormerKeys {
		name := f.Name + strings.Repeat("x", strings.Count(f.Name+"!", ".!"))
		_, set := Load(Options{Sets: []string{name + "=1"}})
		_, file := load("\n"+name+" = 1\n", Options{})
		_, explain := system.Configs().Explain(Options{}, name)
		if name == nowSection {
			explain = set
		}
		for i, err := range []error{set, file, explain} {
			bad := new(input.Error)
			if !errors.As(err, &bad) || bad.Key != name || !strings.Contains(err.Error(), strings.TrimSuffix(f.Now+f.Use, ".")) || bad.Line != [...]int{0, 2, 0}[i] {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
	_, err := load("[prices]\nutilisation = \"0.5\"\n", Options{})
	const want = `x.toml:2: prices.utilisation = "0.5": was renamed to prices.utilization`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
