package dram

// currents are the IDD of 8 Gb parts by speed bin and width, in milliamperes:
// Micron's DDR4 8 Gb data sheet (MT40A2G4, MT40A1G8, MT40A512M16, die revision
// B), as DRAMsim3 publishes them in its DDR4_8Gb configurations
// (https://github.com/umd-memsys/DRAMsim3). No table of 16 Gb parts
// is freely published: they get the same currents, and their longer tRFC makes
// their refresh cost more.
var currents = map[int][3]PowerSpec{
	2400: {
		{VDD: 1.2, IDD0: 43, IDD2N: 34, IDD3N: 38, IDD4R: 110, IDD4W: 103, IDD5B: 250},
		{VDD: 1.2, IDD0: 48, IDD2N: 34, IDD3N: 43, IDD4R: 135, IDD4W: 123, IDD5B: 250},
		{VDD: 1.2, IDD0: 80, IDD2N: 34, IDD3N: 47, IDD4R: 243, IDD4W: 228, IDD5B: 280},
	},
	2933: {
		{VDD: 1.2, IDD0: 49, IDD2N: 36, IDD3N: 44, IDD4R: 132, IDD4W: 121, IDD5B: 250},
		{VDD: 1.2, IDD0: 54, IDD2N: 36, IDD3N: 49, IDD4R: 157, IDD4W: 141, IDD5B: 250},
		{VDD: 1.2, IDD0: 90, IDD2N: 36, IDD3N: 53, IDD4R: 283, IDD4W: 261, IDD5B: 280},
	},
	3200: {
		{VDD: 1.2, IDD0: 52, IDD2N: 37, IDD3N: 47, IDD4R: 143, IDD4W: 130, IDD5B: 250},
		{VDD: 1.2, IDD0: 57, IDD2N: 37, IDD3N: 52, IDD4R: 168, IDD4W: 150, IDD5B: 250},
		{VDD: 1.2, IDD0: 95, IDD2N: 37, IDD3N: 56, IDD4R: 302, IDD4W: 278, IDD5B: 280},
	},
}
