package dram

// Parameter describes one timing of a spec, as the tables of the command line
// print it.
type Parameter struct {
	Term    string // JEDEC term, the configuration key
	Clocks  int
	Meaning string
	Source  string
}

// The sources of the timings, by titles of JESD79-4C.
const (
	fromSpeedBins = `JESD79-4C, "Speed Bins"`
	fromCWL       = `JESD79-4C, "Mode Register 2", CAS write latency`
	fromTiming    = `JESD79-4C, "Timing Parameters by Speed Grade"`
	fromRefresh   = `JESD79-4C, "Refresh parameters by device density"`
	fromSystem    = "the channel's designer; 1 as in DRAMsim3"
)

// parameterTexts describes the clock fields of a Spec, by key.
var parameterTexts = map[string][2]string{
	"CL":     {"read command to first data", fromSpeedBins},
	"CWL":    {"write command to first data", fromCWL},
	"tRCD":   {"ACT to column access, same bank", fromSpeedBins},
	"tRP":    {"PRE to ACT, same bank", fromSpeedBins},
	"tRAS":   {"ACT to PRE, same bank; 32 ns", fromSpeedBins},
	"tRC":    {"ACT to ACT, same bank; tRAS + tRP", fromSpeedBins},
	"tRRD_S": {"ACT to ACT, other bank group; by page size", fromTiming},
	"tRRD_L": {"ACT to ACT, same bank group; by page size", fromTiming},
	"tFAW":   {"span of at most four ACTs of a rank; by page size", fromTiming},
	"tCCD_S": {"column access to the next, other bank group; 4 nCK", fromTiming},
	"tCCD_L": {"column access to the next, same bank group; max(5 nCK, 5 ns)", fromTiming},
	"tRTP":   {"read to PRE, same bank; max(4 nCK, 7.5 ns)", fromTiming},
	"tWR":    {"end of write data to PRE, same bank; 15 ns", fromTiming},
	"tWTR_S": {"end of write data to read, other bank group; max(2 nCK, 2.5 ns)", fromTiming},
	"tWTR_L": {"end of write data to read, same bank group; max(4 nCK, 7.5 ns)", fromTiming},
	"tRFC":   {"REF to the next command; tRFC1, 350 ns at 8 Gb, 550 ns at 16 Gb", fromRefresh},
	"tREFI":  {"mean distance of REFs; 7.8 us to 85 degrees Celsius", fromRefresh},
	"tRTRS":  {"gap on the data bus between bursts of two ranks", fromSystem},
}

// Parameters returns the timings of s in clocks with meaning and source.
func (s *Spec) Parameters() []Parameter {
	var list []Parameter
	for _, f := range s.clockFields() {
		text := parameterTexts[f.key]
		list = append(list, Parameter{f.key, *f.clocks, text[0], text[1]})
	}
	return list
}
