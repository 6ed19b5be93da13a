package measure

import (
	"bytes"
	"image"
	"image/png"
	"testing"
)

func TestFigures(t *testing.T) {
	target := h200(t)
	for kind, samples := range read(t, "testdata/h200") {
		e := target.Judge(samples)
		figures, err := target.Figures(kind, e)
		if err != nil || len(figures) != 2 {
			t.Fatalf("%s: %d figures, %v", kind, len(figures), err)
		}
		for _, f := range figures {
			var a, b bytes.Buffer
			if err := f.Write(&a); err != nil {
				t.Fatal(err)
			}
			if err := f.Write(&b); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s: two writes differ", f.Name)
			}
			picture, err := png.Decode(&a)
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if blue := countBlue(picture); blue < 100 {
				t.Errorf("%s: %d pixels of points", f.Name, blue)
			}
		}
	}
	if figures, err := target.Figures(GEMM, Errors{}); err != nil || len(figures) != 0 {
		t.Errorf("no samples: %d figures, %v", len(figures), err)
	}
}

// countBlue counts the pixels that points colour.
func countBlue(picture image.Image) int {
	n := 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if r, _, b, _ := picture.At(x, y).RGBA(); b > r+0x1000 {
				n++
			}
		}
	}
	return n
}
