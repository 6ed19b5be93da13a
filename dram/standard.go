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

// Standard is what one DRAM standard says apart from the numbers of its parts: commands,
// rules as rows, refreshes. It is read from a table, see ReadStandard; those that ship are
// the files of standards/.
type Standard struct {
	Name string // "ddr5"
	// Family is the standard that ships whose rows begin those of a table with a base, else the name. DIMMs cost by it.
	Family string
	Title  string // one line for people
	Channel
	// Postpone and PullIn are how many refreshes of all banks a rank may owe or be ahead.
	Postpone, PullIn int
	DeviceWidths     []int // data pins that chips have
	Buses            []string
	Refreshes        []Refresh
	Timings          []Timing // that the parts' tables explain

	file     string // of the table
	commands [Commands]Action
	rules    []rule
	sync     *dataClock
	// maxActivations is how many activations a bank may have before it needs refresh management (RAAMMT), and refreshCredit
	// how many one refresh of it takes off that count (RAAIMT).
	maxActivations, refreshCredit expression
	round                         rounding
	fromLast                      bool
	values                        []valueRow
	axes                          [][]string
	named                         []string // names in expressions
}

// Channel is how commands and data share clocks and buses.
type Channel struct {
	// TransfersPerClock is the data transfers on a pin in one CK: 2, or more where data
	// move at a clock of their own (WCK).
	TransfersPerClock int
	// StepsPerClock is the steps of a CK at which commands may begin: 2 where some may on a
	// falling edge. State, checker and logs count steps.
	StepsPerClock int
	// PseudoChannels share the command buses of a channel and nothing else. The ranks of a
	// channel are dealt out to them in runs: ranks 0, 1 to the first of two, 2, 3 to the second.
	PseudoChannels int
	// SubChannels is how many channels a DIMM has, each with commands and data of its own: two in
	// DDR5. Everything here is of one of them.
	SubChannels int
}

// Action is what a command is and does in one standard.
type Action struct {
	Known bool // the standard has the command
	Bus   int  // index of Standard.Buses
	Steps int  // that it takes on the bus
	// AnyStep says that it may begin at any step, not only at the first of a clock.
	AnyStep bool
	// Second, if not 0, says that a second half of one step follows, at most Second steps after
	// the first.
	Second int
	Span   Span
	// Needs is the state that every bank of the span must be in, if any, and Leaves the state afterwards.
	Needs, Leaves BankState
}

// Span is which banks a command concerns.
type Span uint8

// The spans.
const (
	OneBank      Span = iota
	BankPair          // its bank and the one half of the rank's banks away
	SameBanks         // the bank of that number in every bank group; its bank group is -1
	SameBanksAll      // the bank of that number in every bank group of all ranks of its pseudo-channel
	WholeRank         // bank group and bank are -1
	WholeChannel      // of all ranks of its pseudo-channel
)

// spanNames are the banks that a command concerns, as tables write them.
var spanNames = []string{"bank", "bank pair", "same banks", "same banks of all ranks", "rank", "pseudo-channel"}

// String returns the span as tables write it.
func (s Span) String() string { return spanNames[s] }

// BankState is whether a bank has a row open.
type BankState uint8

// The states of a bank.
const (
	AnyState BankState = iota // does not matter, or stays as it is
	Closed
	Open
)

// stateNames are what a command needs of a bank or leaves of it, as tables write them.
var stateNames = []string{"any", "closed", "open"}

// String returns the state as tables write it.
func (s BankState) String() string { return stateNames[s] }

// Refresh is one way to refresh: every bank needs one of each Interval.
type Refresh struct {
	Command Command
	// Interval and Recovery name the timings: from one to the next of the same banks, and
	// until these banks take a command again.
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

// dataClock says that accesses need a data clock, which a command starts.
type dataClock struct {
	command Command
	keeps   expression // clocks from an access during which the clock runs on
}

//go:embed standards/*.toml
var standardFiles embed.FS

// shipped returns the standards that ship, in the order of their files. A table may have an earlier one as its base.
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

// Standards returns the standards that ship.
func Standards() []*Standard {
	list, _ := shipped() // LookupSpec returns its error
	return list
}

func standardNames(list []*Standard) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// Managed returns how many activations of a bank the device takes before a refresh or refresh
// management of it, and by how many each of these lowers the count; 0 where it does not count.
func (s *Spec) Managed() (most, less int) {
	table := s.table()
	if table.maxActivations == nil {
		return 0, 0
	}
	scope := s.scope()
	return int(table.maxActivations(scope).n), int(table.refreshCredit(scope).n)
}

// refreshes reports whether a command refreshes its banks, when due or as refresh management, which rest as long.
func (s *Standard) refreshes(c Command) bool {
	if c == RFM || c == RFMsb || c == RFMpb {
		return true
	}
	return slices.ContainsFunc(s.Refreshes, func(r Refresh) bool { return r.Command == c })
}

// Action returns what a command is in the standard.
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

// DataClockCommand returns the command that starts the data clock, false where data move with CK.
func (s *Standard) DataClockCommand() (Command, bool) {
	if s.sync == nil {
		return 0, false
	}
	return s.sync.command, true
}

// RuleNames returns the names of the standard's rules, each once, in the order of its table.
func (s *Standard) RuleNames() []string {
	var names []string
	for i := range s.rules {
		if !slices.Contains(names, s.rules[i].name) {
			names = append(names, s.rules[i].name)
		}
	}
	return names
}

// noWord in an axis stands for a part without a word of it.
const noWord = "-"

// PartNames returns the names of the standard's parts: its own name and a word of each axis.
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

// OnePart is Part; without a name it returns the only part that the standard has.
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

// TablePart splits the name of a part in a table, FILE.toml or FILE.toml:PART. The part is "" where none is named.
func TablePart(name string) (file, part string) {
	const end = ".toml"
	if file, part, found := strings.Cut(name, end+":"); found {
		return file + end, part
	}
	return name, ""
}

// LookupSpec returns a copy of the named part, or an input.Error that lists the
// names. The error may also be that of a table that ships: whoever adds one sees it here.
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

// foreignForms are the simulators whose files of parts end so.
var foreignForms = map[string]string{".ini": "DRAMsim3", ".yaml": "Ramulator", ".yml": "Ramulator", ".cfg": "Ramulator or NVMain"}

// ForeignForm is the error for a file that by its name has a part in another simulator's form, nil for another name; key is what named it.
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
