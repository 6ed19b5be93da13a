package main

import (
	"bytes"
	"image/png"
	"testing"
)

// TestValidationFigures: every kind has its two pictures, the same bytes each time.
func TestValidationFigures(t *testing.T) {
	target, err := loadTarget("--gpu", "h200-sxm")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := (&measuredFlags{"../../gpu/measure/testdata/h200", "0us"}).read(target)
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
