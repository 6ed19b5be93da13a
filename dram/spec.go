package dram

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Spec is the organisation and timing of one rank of devices. Timing is in clocks of TCK, named as in JESD79-4; further timings of other
// standards are in their tables, see Timing. LookupSpec returns the parts; configuration may change any field.
type Spec struct {
	Name     string `toml:"name"`     // of the part
	Standard string `toml:"standard"` // whose rules it obeys: ddr4, ddr5, ...

	Organisation

	CoreTimings

	// Timings are the standard's own timings that differ from its table.
	Timings Timings `toml:"timings"`

	ECC string `toml:"ecc"` // where check bits are: none, side-band, inline or inline-16

	Power PowerSpec `toml:"power"`

	standard *Standard // the table of rules that Standard names; nil before its first use
	depth    int       // nesting of timings being evaluated
}

// Organisation is the structure of a rank.
type Organisation struct {
	BankGroups    int `toml:"bank_groups"`     // bank groups of a device
	BanksPerGroup int `toml:"banks_per_group"` // banks of a bank group
	Rows          int `toml:"rows"`            // rows of a bank
	Columns       int `toml:"columns"`         // column addresses of a row, each DeviceWidth bits
	DeviceWidth   int `toml:"device_width"`    // data pins of a chip: 4, 8 or 16 in DDR4
	BusWidth      int `toml:"bus_width"`       // data pins of a rank without ECC: 64 in DDR4
	BurstLength   int `toml:"burst_length"`    // transfers of a burst: 8 in DDR4
	// Dies is the number of dies stacked at each position of a rank, behind the pins of one. All of them draw standby current and refresh
	// together, and one has rows open. 0 means one; in a node, as many as its capacity requires.
	Dies int `toml:"dies"`
}

// CoreTimings are the timings of every standard, in clocks except TCK.
type CoreTimings struct {
	TCK   units.Duration `toml:"tCK"`    // clock period of CK
	CL    int            `toml:"CL"`     // read to first data (RL, without additive latency)
	CWL   int            `toml:"CWL"`    // write to first data (WL, without additive latency)
	TRCD  int            `toml:"tRCD"`   // ACT to column access, same bank
	TRP   int            `toml:"tRP"`    // PRE to ACT, same bank
	TRAS  int            `toml:"tRAS"`   // ACT to PRE, same bank
	TRC   int            `toml:"tRC"`    // ACT to ACT, same bank
	TRRDS int            `toml:"tRRD_S"` // ACT to ACT, other bank group
	TRRDL int            `toml:"tRRD_L"` // ACT to ACT, same bank group
	TFAW  int            `toml:"tFAW"`   // window with at most four ACTs of a rank
	TCCDS int            `toml:"tCCD_S"` // column access to column access, other bank group
	TCCDL int            `toml:"tCCD_L"` // column access to column access, same bank group
	TRTP  int            `toml:"tRTP"`   // read to PRE, same bank
	TWR   int            `toml:"tWR"`    // end of write data to PRE, same bank
	TWTRS int            `toml:"tWTR_S"` // end of write data to read, other bank group
	TWTRL int            `toml:"tWTR_L"` // end of write data to read, same bank group
	TRFC  int            `toml:"tRFC"`   // REF to the next command of the rank
	TREFI int            `toml:"tREFI"`  // mean interval between REFs
	// TRTRS is the gap on the data bus between bursts of two ranks. It is a property of the channel: JESD79-4 leaves it to the system.
	TRTRS int `toml:"tRTRS"`
}

// DefaultStandard applies to a Spec without a standard, for example from a log written before parts had one.
const DefaultStandard = "ddr4"

// MaxClock bounds the clocks of any input, so that the sum of a clock and a constraint cannot overflow.
const MaxClock = 1 << 56

// MaxRanks bounds the ranks of a channel.
const MaxRanks = 64

// MaxRefreshDebt is the largest number of REFs that may be postponed or pulled
// in (JESD79-4, "Refresh Command").
const MaxRefreshDebt = 8

// maxBanks bounds the banks of a rank, since schedulers keep them as bits of a word.
const maxBanks = 64

// BurstClocks returns the clocks that a burst holds the data bus, BL/2 in DDR4.
func (s *Spec) BurstClocks() int { return s.BurstLength / s.table().TransfersPerClock }

// Rules returns the standard of s. Check refuses an unknown name.
func (s *Spec) Rules() *Standard { return s.table() }

// BusSteps converts clocks to steps of the command buses, the unit of State, checker and logs: in most standards a step is a clock.
func (s *Spec) BusSteps(clocks int) int64 { return int64(clocks * s.table().StepsPerClock) }

// DataEnd returns the steps from a read or write to the end of its burst. In standards that count distances from a command's last step,
// latencies also count from there, minus the steps of a RD before its last, since CL counts from the RD's first step.
func (s *Spec) DataEnd(c Command) int64 {
	latency := s.CL
	if c.IsWrite() {
		latency = s.CWL
	}
	end, table := s.BusSteps(latency+s.BurstClocks()), s.table()
	if table.fromLast {
		end += int64(table.commands[c].Steps - table.commands[RD].Steps)
	}
	return end
}

// BurstBytes returns the bytes of one burst over the whole rank.
func (s *Spec) BurstBytes() int { return s.BurstLength * s.BusWidth / 8 }

// Chips returns the chips of a rank.
func (s *Spec) Chips() int { return s.BusWidth / max(1, s.DeviceWidth) }

// Banks returns the number of banks of a rank.
func (s *Spec) Banks() int { return s.BankGroups * s.BanksPerGroup }

// RowBursts returns the number of bursts of one row, which are the columns of an Address.
func (s *Spec) RowBursts() int { return s.Columns / max(1, s.BurstLength) }

// RowBytes returns the bytes of one row of one bank over the whole rank.
func (s *Spec) RowBytes() units.Bytes { return units.Bytes(s.RowBursts() * s.BurstBytes()) }

// Stack returns the dies at each position of a rank, at least one.
func (s *Spec) Stack() int { return max(1, s.Dies) }

// RankRows returns the number of rows of a bank over all dies of a stack.
func (s *Spec) RankRows() int { return s.Rows * s.Stack() }

// LayerBytes returns the bytes of a rank with one die at each position, including in-line check bits.
func (s *Spec) LayerBytes() units.Bytes {
	return units.Bytes(s.Banks()) * units.Bytes(s.Rows) * s.RowBytes()
}

// RankBytes returns the capacity of a rank, without in-line check bits.
func (s *Spec) RankBytes() units.Bytes { return s.Usable(units.Bytes(s.Stack()) * s.LayerBytes()) }

// DataClockKeeps returns the steps for which the data clock continues after c; 0 if the standard has no data clock or c does not affect it.
// The command that starts the clock keeps it until the first step at which an access can follow: the end of its own steps, on a rising
// edge.
func (s *Spec) DataClockKeeps(c Command) int64 {
	sync := s.table().sync
	switch {
	case sync == nil:
		return 0
	case c == sync.command:
		return int64(s.table().commands[c].Steps) + s.BusSteps(1) - 1
	case c.IsRead() || c.IsWrite():
		return s.BusSteps(int(sync.keeps(s.scope()).n))
	}
	return 0
}

// Spanned returns the banks that c at a acts on in its rank, or in each of its ranks: every stride-th bank number from first up to,
// excluding, end.
func (s *Spec) Spanned(c Command, a Address) (first, stride, end int) {
	switch span := s.table().commands[c].Span; span {
	case OneBank:
		bank := int(a.BankGroup)*s.BanksPerGroup + int(a.Bank)
		return bank, 1, bank + 1
	case BankPair, SameBanks, SameBanksAll:
		return s.spanned(span, a)
	}
	return 0, 1, s.Banks()
}

// Bandwidth returns the peak data rate of the rank's bus.
func (s *Spec) Bandwidth() units.Bandwidth {
	return units.Bandwidth(float64(s.BurstBytes()) / (float64(s.BurstClocks()) * s.TCK.Seconds()))
}

// WriteRecovery returns the clocks from a write command to precharge: WL + burst + tWR.
func (s *Spec) WriteRecovery() int { return s.CWL + s.BurstClocks() + s.TWR }

// Nanoseconds returns clocks in nanoseconds.
func (s *Spec) Nanoseconds(clocks int64) float64 {
	return float64(clocks) * float64(s.TCK) / 1e3
}

// Given returns the error for a nil part.
func (s *Spec) Given() error {
	if s == nil {
		return &input.Error{Key: "part", Value: "nil", Expected: "one of a standard, as LookupSpec returns"}
	}
	return nil
}

// Check has the rules of the section [dram].
func (s *Spec) Check(c *input.Check) {
	table := s.table()
	if table == nil {
		input.OneOf(c, "standard", s.Standard, standardNames(Standards())...)
		return
	}
	power := func(key string, v, high int) {
		c.That(v >= 1 && v <= high && v&(v-1) == 0, key, v, "a power of two, 1 to %d", high)
	}
	power("bank_groups", s.BankGroups, 16)
	power("banks_per_group", s.BanksPerGroup, 16)
	power("rows", s.Rows, 1<<24)
	power("columns", s.Columns, 1<<16)
	w := s.DeviceWidth
	c.That(slices.Contains(table.DeviceWidths, w), "device_width", w, "%s", widthsText(table.DeviceWidths))
	power("bus_width", s.BusWidth, 1024)
	power("burst_length", s.BurstLength, 64)
	input.Within(c, "dies", s.Dies, 0, 1024)
	if c.OK() {
		c.That(w <= s.BusWidth, "device_width", w, "at most %s = %d", input.Key("bus_width"), s.BusWidth)
		low := table.TransfersPerClock
		c.That(s.BurstLength >= low && s.BurstLength <= s.Columns, "burst_length", s.BurstLength, "%d to %s = %d", low, input.Key("columns"), s.Columns)
		c.That(s.BusWidth*s.BurstLength%8 == 0, "bus_width", s.BusWidth, "whole bytes a burst")
	}
	if c.OK() {
		c.That(s.Banks() <= maxBanks, "banks_per_group", s.BanksPerGroup, "at most %d banks a rank", maxBanks)
	}
	input.Within(c, "tCK", s.TCK, 1, units.Microsecond)
	for i, clocks := range s.clockFields() {
		low := 1
		if clockKeys[i] == "tRTRS" {
			low = 0
		}
		c.That(*clocks >= low && *clocks <= 1<<20, clockKeys[i], *clocks, "%d to %d clocks", low, 1<<20)
	}
	c.In("power", &s.Power)
	if c.OK() {
		s.compareTimings(c)
		s.compareCurrents(c)
		s.checkECC(c)
		c.Fails("timings", s.checkRules())
	}
}

// widthsText lists numbers: "4, 8 or 16".
func widthsText(of []int) string {
	text := strings.Trim(fmt.Sprint(of), "[]")
	if i := strings.LastIndexByte(text, ' '); i >= 0 {
		text = strings.ReplaceAll(text[:i], " ", ", ") + " or " + text[i+1:]
	}
	return text
}

// compareTimings has the rules across timings, which could contradict each other.
func (s *Spec) compareTimings(c *input.Check) {
	c.That(s.TRC >= s.TRAS, "tRC", s.TRC, "at least %s = %d", input.Key("tRAS"), s.TRAS)
	c.That(s.TRRDL >= s.TRRDS, "tRRD_L", s.TRRDL, "at least %s = %d", input.Key("tRRD_S"), s.TRRDS)
	c.That(s.TCCDL >= s.TCCDS, "tCCD_L", s.TCCDL, "at least %s = %d", input.Key("tCCD_S"), s.TCCDS)
	c.That(s.TCCDS >= s.BurstClocks(), "tCCD_S", s.TCCDS, "at least the burst's %d", s.BurstClocks())
	least := s.TRFC + 2*s.LongestAccess()
	c.That(s.TREFI >= least, "tREFI", s.TREFI, "at least %d: %s = %d, and two accesses of %d clocks between REFs", least, input.Key("tRFC"), s.TRFC, s.LongestAccess())
}

// compareCurrents has the rule that an activation takes energy: IDD0 is measured with one bank open, so it is no less than standby with one
// open bank. A data sheet whose IDD0 is below IDD3N needs a BankShare.
func (s *Spec) compareCurrents(c *input.Check) {
	p := &s.Power
	least := (float64(p.open(1, s.Banks())*float64(s.TRAS)) + float64(p.IDD2N*float64(s.TRC-s.TRAS))) / float64(s.TRC)
	c.That(!p.Known() || s.TRC < s.TRAS || s.activation() >= 0, "power.IDD0", p.IDD0, "at least %.4g: what standby draws with a bank open for %s = %d of %s = %d, or a %s above %v",
		least, input.Key("tRAS"), s.TRAS, input.Key("tRC"), s.TRC, input.Key("power.bank_share"), p.BankShare)
}

// LongestAccess returns the clocks from the ACT of a single access to the next ACT or REF. An access longer than the time between REFs
// never issues. If it only just fits, a command of another rank may take its only clock.
func (s *Spec) LongestAccess() int {
	return max(s.TRC, max(s.TRAS, s.TRCD+max(s.TRTP, s.WriteRecovery()))+s.TRP)
}

// clockKeys are the timings of a Spec in clocks, in the order of Spec.clockFields.
var clockKeys = [...]string{"CL", "CWL", "tRCD", "tRP", "tRAS", "tRC", "tRRD_S", "tRRD_L", "tFAW", "tCCD_S", "tCCD_L", "tRTP", "tWR", "tWTR_S", "tWTR_L",
	"tRFC", "tREFI", "tRTRS"}

func (s *Spec) clockFields() [len(clockKeys)]*int {
	return [...]*int{&s.CL, &s.CWL, &s.TRCD, &s.TRP, &s.TRAS, &s.TRC, &s.TRRDS, &s.TRRDL, &s.TFAW, &s.TCCDS, &s.TCCDL, &s.TRTP, &s.TWR, &s.TWTRS, &s.TWTRL,
		&s.TRFC, &s.TREFI, &s.TRTRS}
}

// clocks returns the field of a timing, or nil if it is not a key of Spec.
func (s *Spec) clocks(key string) *int {
	if i := slices.Index(clockKeys[:], key); i >= 0 {
		return s.clockFields()[i]
	}
	return nil
}
