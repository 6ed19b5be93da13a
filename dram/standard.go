package dram

import (
	"embed"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// Standard is a DRAM standard without the numbers of its parts: commands, timing rules, refreshes. It is read from a table, see
// ReadStandard; the shipped tables are the files of standards/.
type Standard struct {
	Name string // "ddr5"
	// Family is the shipped standard on which the table is based, or else its own name. Prices of DIMMs depend on it.
	Family string
	Title  string // one line for people
	Channel
	// Postpone and PullIn are the number of all-bank refreshes that a rank may postpone or pull in.
	Postpone, PullIn int
	DeviceWidths     []int // data pins that chips have
	Buses            []string
	Refreshes        []Refresh
	Timings          []Timing // explained in the parts' tables

	file     string // of the table
	commands [Commands]Action
	rules    []rule
	sync     *dataClock
	// maxActivations is the number of activations after which a bank needs refresh management (RAAMMT). refreshCredit is the number that
	// one refresh of the bank subtracts from the count (RAAIMT).
	maxActivations, refreshCredit expression
	round                         rounding
	fromLast                      bool
	values                        []valueRow
	axes                          [][]string
	named                         []string // names in expressions
}

// Channel is how commands and data share clocks and buses.
type Channel struct {
	// TransfersPerClock is the number of data transfers on a pin in one CK: 2, or more if data have their own clock (WCK).
	TransfersPerClock int
	// StepsPerClock is the number of steps in a CK at which commands may begin: 2 if some may begin on a falling edge. State, checker and
	// logs count steps.
	StepsPerClock int
	// PseudoChannels share only the command buses of a channel. Each has a run of successive ranks: with two pseudo-channels and four
	// ranks, the first has ranks 0 and 1, the second 2 and 3.
	PseudoChannels int
	// SubChannels is the number of channels of a DIMM, each with its own commands and data: two in DDR5. Spec and State describe one of
	// them.
	SubChannels int
}

// Action describes a command in one standard.
type Action struct {
	Known bool // the standard has the command
	Bus   int  // index of Standard.Buses
	Steps int  // steps on the bus
	// AnyStep lets it begin at any step, not only at the first of a clock.
	AnyStep bool
	// Second, if not 0, means that a second half of one step follows, at most Second steps after the first.
	Second int
	Span   Span
	// Needs is the required state of every bank of the span, and Leaves the state afterwards.
	Needs, Leaves BankState
}

// Span is the set of banks that a command acts on.
type Span uint8

// The spans.
const (
	OneBank      Span = iota
	BankPair          // the bank, and the one half the rank's banks away
	SameBanks         // the bank of this number in every bank group; its bank group is -1
	SameBanksAll      // the bank of this number in every bank group of all ranks of its pseudo-channel
	WholeRank         // bank group and bank are -1
	WholeChannel      // all ranks of its pseudo-channel
)

// spanNames are the spans as tables write them.
var spanNames = []string{"bank", "bank pair", "same banks", "same banks of all ranks", "rank", "pseudo-channel"}

// String returns the span as tables write it.
func (s Span) String() string { return spanNames[s] }

// BankState tells whether a bank has a row open.
type BankState uint8

// The states of a bank.
const (
	AnyState BankState = iota // does not matter, or is unchanged
	Closed
	Open
)

// stateNames are the bank states as tables write them.
var stateNames = []string{"any", "closed", "open"}

// String returns the state as tables write it.
func (s BankState) String() string { return stateNames[s] }

// Refresh is one kind of refresh: every bank needs one in each Interval.
type Refresh struct {
	Command Command
	// Interval and Recovery name the timings: between refreshes of the same banks, and from a refresh until these banks accept a command.
	Interval, Recovery string
}

// Timing explains one timing of a standard.
type Timing struct{ Term, Meaning, Source string }

// rule is one row: after any of from, none of next in the level before clocks have passed.
type rule struct {
	name       string
	level      Scope
	from, next []Command
	clocks     expression
	text       string // of clocks
	window     int
}

// dataClock describes the data clock that accesses need, and that a command starts.
type dataClock struct {
	command Command
	keeps   expression // clocks for which the clock continues after an access
}

//go:embed standards/*.toml
var standardFiles embed.FS

// shipped returns the shipped standards, in the order of their files. A table may have an earlier one as its base.
var shipped = sync.OnceValues(func() ([]*Standard, error) {
	files, err := standardFiles.ReadDir("standards")
	if err != nil {
		return nil, err
	}
	var list []*Standard
	for _, f := range files {
		name := path.Join("standards", f.Name())
		text, err := standardFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := readStandard(name, string(text), list)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
})

// Standards returns the shipped standards.
func Standards() []*Standard {
	list, _ := shipped() // LookupSpec reports its error
	return list
}

func standardNames(list []*Standard) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// Managed returns the number of activations of a bank that the device allows before a refresh or refresh management of it, and by how much
// each of these lowers the count; 0 if the standard has no limit.
func (s *Spec) Managed() (most, less int) {
	table := s.table()
	if table.maxActivations == nil {
		return 0, 0
	}
	scope := s.scope()
	return int(table.maxActivations(scope).n), int(table.refreshCredit(scope).n)
}

// refreshes reports whether a command refreshes its banks, as regular refresh or refresh management. Both take equally long.
func (s *Standard) refreshes(c Command) bool {
	if c == RFM || c == RFMsb || c == RFMpb {
		return true
	}
	return slices.ContainsFunc(s.Refreshes, func(r Refresh) bool { return r.Command == c })
}

// Action returns a command's effect in the standard.
func (s *Standard) Action(c Command) Action { return s.commands[c] }

// Commands returns the commands that the standard has.
func (s *Standard) Commands() []Command {
	var list []Command
	for c, a := range s.commands {
		if a.Known {
			list = append(list, Command(c))
		}
	}
	return list
}

// DataClockCommand returns the command that starts the data clock, and false if data use CK.
func (s *Standard) DataClockCommand() (Command, bool) {
	if s.sync == nil {
		return 0, false
	}
	return s.sync.command, true
}

// RuleNames returns the names of the standard's rules, without repetition, in the order of its table.
func (s *Standard) RuleNames() []string {
	var names []string
	for i := range s.rules {
		if !slices.Contains(names, s.rules[i].name) {
			names = append(names, s.rules[i].name)
		}
	}
	return names
}

// noWord stands for an axis that adds no word to a part's name.
const noWord = "-"

// PartNames returns the names of the standard's parts: its own name and one word of each axis.
func (s *Standard) PartNames() []string {
	names := []string{s.Name}
	for _, axis := range s.axes {
		var longer []string
		for _, n := range names {
			for _, word := range axis {
				if word == noWord {
					longer = append(longer, n)
				} else {
					longer = append(longer, n+"-"+word)
				}
			}
		}
		names = longer
	}
	return names
}

// Part returns the named part of the standard, or an input.Error that lists the names.
func (s *Standard) Part(name string) (*Spec, error) {
	for _, n := range s.PartNames() {
		if strings.EqualFold(n, name) {
			return s.compose(n)
		}
	}
	return nil, input.UnknownName("spec", name, s.PartNames())
}

// OnePart is Part; an empty name selects the standard's only part.
func (s *Standard) OnePart(name string) (*Spec, error) {
	names := s.PartNames()
	switch {
	case name != "":
		return s.Part(name)
	case len(names) == 1:
		return s.compose(names[0])
	}
	return nil, &input.Error{Expected: "the name of one of its parts behind a colon: " + strings.Join(names, ", ")}
}

// TablePart splits the name of a part in a table, FILE.toml or FILE.toml:PART. The part is "" in the first form.
func TablePart(name string) (file, part string) {
	const end = ".toml"
	if file, part, found := strings.Cut(name, end+":"); found {
		return file + end, part
	}
	return name, ""
}

// LookupSpec returns a copy of the named part, or an input.Error that lists the names. The error may also be that of a faulty shipped
// table.
func LookupSpec(name string) (*Spec, error) {
	list, err := shipped()
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if len(name) > len(s.Name) && strings.EqualFold(name[:len(s.Name)+1], s.Name+"-") {
			if slices.ContainsFunc(s.PartNames(), func(n string) bool { return strings.EqualFold(n, name) }) {
				return s.Part(name)
			}
		}
	}
	if err := ForeignForm("spec", name); err != nil {
		return nil, err
	}
	return nil, input.UnknownName("spec", name, SpecNames())
}

// foreignForms are other simulators by the extension of their files of parts.
var foreignForms = map[string]string{".ini": "DRAMsim3", ".yaml": "Ramulator", ".yml": "Ramulator", ".cfg": "Ramulator or NVMain"}

// ForeignForm is the error for a file whose name suggests another simulator's format, nil for other names; key is what named it.
func ForeignForm(key, name string) error {
	whose := foreignForms[strings.ToLower(filepath.Ext(name))]
	if whose == "" {
		return nil
	}
	return &input.Error{Key: key, Value: strconv.Quote(name), Expected: fmt.Sprintf("a part that 'l3sim dram spec' lists, or a TOML table (docs/reference/dram.md has its form): files that end with %s are %s's",
		filepath.Ext(name), whose)}
}

// SpecNames returns the names of all parts, in the order of the tables.
func SpecNames() []string {
	var names []string
	for _, s := range Standards() {
		names = append(names, s.PartNames()...)
	}
	return names
}
