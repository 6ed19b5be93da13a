package main

import (
	"bytes"
	"image/png"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/lab/measure"
)

// TestFigurePoints: each kind's points are in the unit of its axes.
func TestFigurePoints(t *testing.T) {
	target, err := loadTarget("--gpu", "h200-sxm")
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[measure.Kind]struct{ file, columns, measured, size string }{
		measure.GEMM:            {"h200/gemm.csv", "measured_us predicted_us work_MFLOP", "76.67", "254.803968"},
		measure.PCIe:            {"h200/pcie.csv", "measured_us predicted_us size_bytes", "3.798", "1024"},
		measure.DecodeIteration: {"h200_iterations/iterations_tp1.csv", "measured_ms predicted_ms measured_ms", "4.8603", "4.8603"},
		measure.IterationEnergy: {"h200_iterations/iterations_tp1.csv", "measured_j predicted_j measured_j", "2.5652", "2.5652"},
	} {
		samples, err := (&measuredFlags{"../../internal/lab/measure/testdata/" + c.file, "0us"}).read(&app{&cli.App{Quiet: true}}, target)
		if err != nil {
			t.Fatal(err)
		}
		v := judge(target, samples)
		both, ratio := v.tables(kind)
		columns := strings.Join(append(both.Columns, ratio.Columns[0]), " ")
		cells := [4]float64{}
		for i, cell := range []string{both.Rows[0][0], c.measured, ratio.Rows[0][0], c.size} {
			if cells[i], err = strconv.ParseFloat(cell, 64); err != nil {
				t.Fatal(err)
			}
		}
		if columns != c.columns || !near(cells[0], cells[1]) || !near(cells[2], cells[3]) {
			t.Errorf("%s: columns %s, first point %s, %s, want %+v", kind, columns, both.Rows[0], ratio.Rows[0], c)
		}
		predicted, err := strconv.ParseFloat(both.Rows[0][1], 64)
		over, err2 := strconv.ParseFloat(ratio.Rows[0][1], 64)
		if err != nil || err2 != nil || !near(predicted/cells[0], over) {
			t.Errorf("%s: %v, %v: ratio %g, %v", kind, both.Rows[0], ratio.Rows[0], over, err2)
		}
	}
}

// TestValidationFigures: every kind has its two pictures, the same bytes each time.
func TestValidationFigures(t *testing.T) {
	target, err := loadTarget("--gpu", "h200-sxm")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := (&measuredFlags{"../../internal/lab/measure/testdata/h200", "0us"}).read(&app{&cli.App{Quiet: true}}, target)
	if err != nil {
		t.Fatal(err)
	}
	v := judge(target, samples)
	for _, kind := range v.kinds {
		files, err := v.figures(kind)
		if err != nil || len(files) != 2 || files[0].Name != string(kind)+"_predicted.png" || files[1].Name != string(kind)+"_error.png" {
			t.Fatalf("%s: %v, %d files", kind, err, len(files))
		}
		for _, f := range files {
			var a, b bytes.Buffer
			for _, w := range []*bytes.Buffer{&a, &b} {
				if err := f.Write(w); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s: other bytes the second time", f.Name)
			}
			if _, err := png.Decode(&a); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
}
