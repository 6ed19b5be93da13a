package pim

import (
	"math"

	"github.com/l3sim/l3sim/attention"
)

// Scales turn an element of 8 or 4 bits, in two's complement, back into a number: Scale·(element − Zero). Both are FP16. An
// element in FP8 (E4M3) stands for Scale times its number.
type Scales struct{ Scale, Zero float32 }

func narrowRange(bits int) (least, largest float32) {
	half := float32(int(1) << (bits - 1))
	return -half, half - 1
}

// FitScales returns scales for numbers from low to high: the least element stands for low, the largest one for high, or for
// more where FP16 cannot tell numbers apart that are a step from each other.
func FitScales(low, high float32, bits int) Scales {
	least, largest := narrowRange(bits)
	s := attention.RoundHalf(max((high-low)/(largest-least), high*0x1p-11, -low*0x1p-11))
	if s == 0 { // next to nothing
		s = 1
	}
	return Scales{s, attention.RoundHalf(least - low/s)}
}

// FitTensor returns scales without a zero for numbers of at most an absolute value.
func FitTensor(most float32, bits int) Scales {
	_, largest := narrowRange(bits)
	if s := attention.RoundHalf(most / largest); s > 0 {
		return Scales{Scale: s}
	}
	return Scales{Scale: 1}
}

// Encode returns the element of that many bits whose number is nearest to x.
func (s Scales) Encode(x float32, bits int) uint16 {
	least, largest := narrowRange(bits)
	v := float32(math.RoundToEven(float64(x/s.Scale + s.Zero)))
	return uint16(int16(min(max(v, least), largest)))
}

// Decode returns the number that an element stands for.
func (s Scales) Decode(element uint16) float32 { return s.Scale * (float32(int16(element)) - s.Zero) }

// FitFP8 returns the scale of a tensor in FP8 of numbers of at most an absolute value.
func FitFP8(most float32) Scales {
	if s := attention.RoundHalf(most / attention.E4M3Max); s > 0 {
		return Scales{Scale: s}
	}
	return Scales{Scale: 1}
}

// EncodeFP8 returns the element in FP8 whose number is nearest to x.
func (s Scales) EncodeFP8(x float32) uint16 { return uint16(attention.Float32ToE4M3(x / s.Scale)) }

// DecodeFP8 returns the number that an element in FP8 stands for.
func (s Scales) DecodeFP8(element uint16) float32 {
	return s.Scale * attention.E4M3Table()[uint8(element)]
}

// Word returns scale and zero as they are stored.
func (s Scales) Word() uint32 {
	return uint32(attention.Float32ToHalf(s.Scale)) | uint32(attention.Float32ToHalf(s.Zero))<<16
}

// ScalesOf returns what a word stands for.
func ScalesOf(word uint32) Scales {
	half := attention.HalfTable()
	return Scales{half[uint16(word)], half[word>>16]}
}
